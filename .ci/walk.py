#!/usr/bin/env python3
"""A newcomer's first minutes by README: a fresh clone, an empty environment, and a sick engine of one's own.

Runs README's own lines: `make demo`, then the first diagnosis of one engine that nobody scrapes yet. Prints what each
took, and fails where the engine's fault is not named.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INSTALL = "make demo"
ACTIVATE = ". .venv/bin/activate"
DIAGNOSE = "inferdoc diagnose http://vllm:8000"
PORT = 18111
SICK = """\
id: first-minutes
title: Answers become four times as long and outgrow the cache
expect: {cause: kv-preemption-thrash, onset: 30s}
duration: 10m
pools:
  - {name: vllm, pods: 1, tier: a100-80, model: llama-3.1-8b, flags: {blocks: 4000}}
traffic:
  - rate: 2.5
    prompt: {median: 400, sigma: 0.4, max: 3000}
    output: {median: 300, sigma: 0.4, max: 1200}
faults:
  - {kind: traffic, at: 30s, output: 4.0}
seed: 20
"""
SICK_AFTER = 60.0
"""Seconds until the cache of that engine is full: a person asks when users complain, not before."""


def main() -> int:
    shown = [line.split("   ")[0].strip() for line in (ROOT / "README.md").read_text("utf-8").splitlines()]
    if missing := [line for line in (INSTALL, ACTIVATE, DIAGNOSE) if line not in shown]:
        print(f"README does not show: {missing[0]}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="walk-") as name:
        clone = Path(name) / "inferdoc"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        began = time.monotonic()
        done = run(INSTALL, clone)
        if done.returncode != 0:
            print(f"{INSTALL}: exit {done.returncode}\n{done.stdout}{done.stderr}", file=sys.stderr)
            return 1
        print(f"{INSTALL}: {time.monotonic() - began:.0f} s")
        return first_look(clone)


def first_look(clone: Path) -> int:
    (clone / "sick.yaml").write_text(SICK, "utf-8")
    serve = f"exec inferdoc simulate --scenario sick.yaml --live --port {PORT}"
    engine = subprocess.Popen(
        ["bash", "-c", f"{ACTIVATE} && {serve}"],
        cwd=clone,
        env=newcomer(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        await_engine()
        time.sleep(SICK_AFTER)
        began = time.monotonic()
        done = run(f"{ACTIVATE} && {DIAGNOSE.replace('vllm:8000', f'127.0.0.1:{PORT}')}", clone)
        print(f"{DIAGNOSE}: {time.monotonic() - began:.0f} s")
    finally:
        engine.terminate()  # a shell starts what runs in the background with SIGINT ignored
        engine.wait()
    if done.returncode != 1 or "kv-preemption-thrash" not in done.stdout:
        print(f"exit {done.returncode}, the fault is not named:\n{done.stdout}{done.stderr}", file=sys.stderr)
        return 1
    return 0


def await_engine() -> None:
    """Until it shows its first page: how long a process takes to begin is no part of its fault."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=5):
                return
        except OSError:
            time.sleep(0.5)


def run(command: str, clone: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], cwd=clone, env=newcomer(), capture_output=True, text=True, check=False
    )


def newcomer() -> dict[str, str]:
    """This environment (how packages are reached may stand in it) without what is set for inferdoc or Python."""
    ours = ("INFERDOC_", "PYTHON", "VIRTUAL_ENV", "MAKE")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


if __name__ == "__main__":
    sys.exit(main())
