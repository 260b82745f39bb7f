"""A real vLLM on this machine, under load and under faults, diagnosed live: `make real-vllm`.

    python -m benchmarks.real_vllm [--parts server fleet] [--only NAME ...] [--environment FOLDER] [--out FILE]

First a server that computes: it serves a small random-weight model with vLLM's CPU build, measures what it can finish,
drives a usual load and then a fault. Then fleets of servers on simulated accelerators, with rollouts. `inferdoc
collect` scrapes the live pages, and what `inferdoc diagnose` says before and after is checked. Exit code 1 where an
answer is wrong. No GPU, nothing is downloaded beyond the installation, every process is ended.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.real_vllm.fleet.live import play_fleets
from benchmarks.real_vllm.fleet.page import FLEET_HEADING, RECORDED_HEADING, fleet_page, recorded
from benchmarks.real_vllm.page import machine, page
from benchmarks.real_vllm.play import play, say
from benchmarks.real_vllm.scenarios import SCENARIOS

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "real-vllm"


def stop(number: int, frame: object) -> None:
    """A termination ends the run as Ctrl-C does, so that the server is ended too."""
    raise KeyboardInterrupt


PARTS = ("server", "fleet")


def rewritten(document: str, parts: dict[str, str]) -> str:
    """The page with the parts of this run in the place of their older selves."""
    before, _, recordings = document.partition(RECORDED_HEADING)
    server, _, fleet = before.partition(FLEET_HEADING)
    older = {"server": server, "fleet": fleet and FLEET_HEADING + fleet, "recorded": RECORDED_HEADING + recordings}
    whole = [part.strip() for part in (older | parts).values() if part.strip()]
    return "\n\n".join(whole) + "\n"


def make_model(python: Path, model: Path) -> None:
    say("making a model with random weights")
    texts = [str(p) for p in sorted([*ROOT.glob("*.md"), *ROOT.glob("runbooks/*.md"), *ROOT.glob("docs/**/*.md")])]
    maker = Path(__file__).with_name("make_model.py")
    subprocess.run([str(python), str(maker), str(model), *texts], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--parts", nargs="*", default=PARTS, choices=PARTS, help="which to run; the other stays as it is"
    )
    parser.add_argument("--only", nargs="*", default=[], choices=[s.name for s in SCENARIOS], help="prints only")
    parser.add_argument("--work", type=Path, default=WORK, help="stores, logs and the model")
    parser.add_argument("--environment", type=Path, default=WORK / ".venv", help="where vLLM is installed")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "measurements" / "real-vllm.md")
    args = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    began = time.monotonic()
    args.work.mkdir(parents=True, exist_ok=True)
    model = args.work / "model"
    if not (model / "tokenizer_config.json").is_file():
        make_model(args.environment / "bin" / "python", model)
    where, parts, right = machine(args.environment), {}, True
    if "server" in args.parts:
        wanted = [s for s in SCENARIOS if not args.only or s.name in args.only]
        runs = [play(s, args.environment / "bin" / "vllm", model, args.work) for s in wanted]
        parts["server"] = page(runs, where, time.monotonic() - began)
        right = all(r.silent and r.named for r in runs)
    if "fleet" in args.parts and not args.only:
        fleets = play_fleets(args.environment, model, args.work / "fleet")
        parts["fleet"] = fleet_page(fleets, where)
        right = right and all(r.silent and r.right for r in fleets)
    print("\n".join(parts.values()))
    if not args.only:
        entries = json.loads((ROOT / "fixtures" / "fleets" / "labels.json").read_text("utf-8"))["recordings"]
        parts["recorded"] = recorded(entries)
        before = args.out.read_text("utf-8") if args.out.is_file() else ""
        args.out.write_text(rewritten(before, parts), "utf-8")
    return 0 if right else 1


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        try:
            sys.exit(main())
        except RuntimeError as error:
            sys.exit(str(error))
    sys.exit(130)
