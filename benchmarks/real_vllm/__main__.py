"""A real vLLM on this machine, under load and under faults, diagnosed live: `make real-vllm`.

    python -m benchmarks.real_vllm [--only NAME ...] [--environment FOLDER] [--work FOLDER] [--out FILE]

Serves a small random-weight model with vLLM's CPU build, measures what it can finish, drives a usual load and then a
fault, scrapes the live page with `inferdoc collect`, and checks what `inferdoc diagnose` says before and after. Exit
code 1 where an answer is wrong. No GPU, nothing is downloaded beyond the installation, every process is ended.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.real_vllm.page import machine, page
from benchmarks.real_vllm.play import play, say
from benchmarks.real_vllm.scenarios import SCENARIOS

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "real-vllm"


def stop(number: int, frame: object) -> None:
    """A termination ends the run as Ctrl-C does, so that the server is ended too."""
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], choices=[s.name for s in SCENARIOS], help="prints only")
    parser.add_argument("--work", type=Path, default=WORK, help="stores, logs and the model")
    parser.add_argument("--environment", type=Path, default=WORK / ".venv", help="where vLLM is installed")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "real-vllm.md")
    args = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    began = time.monotonic()
    args.work.mkdir(parents=True, exist_ok=True)
    model = args.work / "model"
    if not (model / "tokenizer_config.json").is_file():
        say("making a model with random weights")
        texts = [str(p) for p in sorted([*ROOT.glob("*.md"), *ROOT.glob("runbooks/*.md"), *ROOT.glob("docs/*.md")])]
        maker = Path(__file__).with_name("make_model.py")
        python = args.environment / "bin" / "python"
        subprocess.run([str(python), str(maker), str(model), *texts], check=True)
    wanted = [s for s in SCENARIOS if not args.only or s.name in args.only]
    runs = [play(s, args.environment / "bin" / "vllm", model, args.work) for s in wanted]
    text = page(runs, machine(args.environment), time.monotonic() - began)
    print(text)
    if not args.only:
        args.out.write_text(text, "utf-8")
    return 0 if all(r.silent and r.named for r in runs) else 1


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
    sys.exit(130)
