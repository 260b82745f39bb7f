"""Real stacks on this machine, under load and under faults, diagnosed from a real Prometheus: `make real-stacks`.

    python -m benchmarks.real_stacks [STACK | STACK/FAULT ...] [--side-by-side N] [--fixtures FOLDER] [--out FILE]

Dynamo with its mocker workers, and vLLM servers on simulated accelerators behind routers. Exit code 1 if an answer is
wrong. No GPU, nothing is downloaded beyond the installation, every process is ended.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import time
from pathlib import Path

from benchmarks.real_stacks.cases import STACKS
from benchmarks.real_stacks.judge import GOOD, outcome
from benchmarks.real_stacks.model import make_model
from benchmarks.real_stacks.page import page
from benchmarks.real_stacks.play import Played, play
from benchmarks.real_stacks.stacks import Places
from benchmarks.real_vllm.fleet.record import allow_connections
from benchmarks.real_vllm.fleet.starts import Starts

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "real-stacks"
VLLM = ROOT / "build" / "real-vllm" / ".venv"
STAGGER_SECONDS = 8.0
"""Between two starts, which need a core each for seconds."""


async def play_all(cases: list[tuple[str, str]], places: Places, out: Path, side_by_side: int) -> list[Played]:
    """Play the cases, so many at a time. A signal ends all of them, and their processes."""
    turn = asyncio.Semaphore(side_by_side)

    async def queued(number: int, stack: str, fault: str) -> Played | None:
        async with turn:
            await asyncio.sleep(STAGGER_SECONDS * (number % side_by_side))
            try:
                return await play(stack, fault, places, out)
            except (RuntimeError, ValueError) as error:
                print(f"{time.strftime('%H:%M:%S')} {stack}/{fault} FAILED: {error}", file=sys.stderr, flush=True)
                return None

    whole = asyncio.gather(*(queued(number, *case) for number, case in enumerate(cases)))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, whole.cancel)
    return [played for played in await whole if played is not None]


def save(played: list[Played], folder: Path) -> None:
    """Put entries into labels.json in the place of older ones of the same file."""
    path = folder / "labels.json"
    older = json.loads(path.read_text("utf-8"))["recordings"] if path.is_file() else []
    entries = {entry["file"]: entry for entry in [*older, *(one.label for one in played)]}
    document = {"format": 1, "recordings": [entries[file] for file in sorted(entries)]}
    path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="STACK[/FAULT]", help="what to play; default: everything")
    parser.add_argument("--side-by-side", type=int, default=6, metavar="N", help="stacks at a time")
    parser.add_argument("--fixtures", type=Path, default=WORK / "recordings", help="folder for the recordings")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "measurements" / "real-stacks.md")
    args = parser.parse_args()
    known = [(stack, fault) for stack, kind in STACKS.items() for fault in kind.faults]
    names = set(args.cases)
    unknown = names - {*STACKS, *("/".join(case) for case in known)}
    if unknown:
        parser.error(f"unknown case: {', '.join(sorted(unknown))}; known stacks: {', '.join(STACKS)}")
    cases = [case for case in known if not names or names & {case[0], "/".join(case)}]
    skipped = [] if VLLM.is_dir() else sorted({stack for stack, _ in cases if STACKS[stack].needs_vllm})
    cases = [case for case in cases if case[0] not in skipped]
    began = time.monotonic()
    args.fixtures.mkdir(parents=True, exist_ok=True)
    model = WORK / "model"
    make_model(model)
    allow_connections()
    with contextlib.ExitStack() as stack:
        starts = None
        if VLLM.is_dir():
            starts = stack.enter_context(Starts(VLLM / "bin" / "python", WORK / "nursery.log"))
        places = Places(WORK, starts, model, WORK / "runs")
        played = asyncio.run(play_all(cases, places, args.fixtures, args.side_by_side))
    save(played, args.fixtures)
    text = page(played, time.monotonic() - began, skipped)
    print(text)
    if not names:
        args.out.write_text(text, "utf-8")
    return 0 if len(played) == len(cases) and all(outcome(one.fault, one.whole) in GOOD for one in played) else 1


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        try:
            sys.exit(main())
        except RuntimeError as error:
            sys.exit(str(error))
    sys.exit(130)
