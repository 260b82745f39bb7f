"""Record incidents of fleets of real vLLM servers on simulated accelerators.

    python -m benchmarks.real_vllm.fleet [NAME ...] [--side-by-side N] [--out FOLDER]

Needs the environment and the model of `make real-vllm`. A recording takes five to seven minutes, three fleets side by
side some 1.2 cores. Writes NAME.om.gz and the entry of labels.json for each.
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
from typing import Any

from benchmarks.real_vllm.fleet.incidents import INCIDENTS, Incident
from benchmarks.real_vllm.fleet.record import Places, export, hurt_as_meant, label, record
from benchmarks.real_vllm.fleet.starts import Starts

ROOT = Path(__file__).resolve().parents[3]
WORK = ROOT / "build" / "real-vllm"
ABOUT = (
    "Fleets of real vLLM 0.32.0 servers whose accelerator is simulated (benchmarks/real_vllm/fleet): engine, "
    "scheduler, KV manager, API server and pages are vLLM's own. Times are Unix seconds; onset is the moment of the "
    "deed, onset_latest when clients were first seen hurt. Absolute latencies mean nothing, changes do."
)


def save(entry: dict[str, Any], folder: Path) -> None:
    """Put an entry into labels.json in the place of an older one of the same file."""
    path = folder / "labels.json"
    empty: dict[str, Any] = {"format": 1, "about": ABOUT, "recordings": []}
    document = json.loads(path.read_text("utf-8")) if path.is_file() else empty
    kept = [other for other in document["recordings"] if other["file"] != entry["file"]]
    document["recordings"] = sorted([*kept, entry], key=lambda e: (e["control"], e["file"]))
    path.write_text(json.dumps(document, indent=1, sort_keys=False) + "\n", "utf-8")


async def one(incident: Incident, places: Places, out: Path) -> bool:
    say(f"{incident.name}: starting {incident.pods} pods")
    file = f"{incident.name}.om.gz"
    try:
        recording = await record(incident, places)
        await asyncio.to_thread(export, recording.store, out / file)
    except RuntimeError as error:
        say(f"{incident.name}: FAILED: {error}")
        return False
    entry = label(recording, file)
    (places.work / incident.name / "attempts.json").write_text(json.dumps(recording.attempts), "utf-8")
    save(entry, out)
    size = (out / file).stat().st_size / 1000
    problem = hurt_as_meant(entry)
    say(f"{incident.name}: {size:.0f} kB; {json.dumps(entry['clients'])}; CPU wait {entry['cpu_wait_before']:.0%}")
    if problem:
        say(f"{incident.name}: NO USE: {problem}")
    return problem is None


def say(words: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {words}", file=sys.stderr, flush=True)


async def main(wanted: list[Incident], places: Places, out: Path, side_by_side: int) -> bool:
    """Play them, so many at a time. A signal ends all of them, and their processes."""
    turn = asyncio.Semaphore(side_by_side)

    async def queued(incident: Incident) -> bool:
        async with turn:
            return await one(incident, places, out)

    whole = asyncio.gather(*(queued(incident) for incident in wanted))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, whole.cancel)
    return all(await whole)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="incidents to record; all where none is named")
    parser.add_argument("--side-by-side", type=int, default=1, metavar="N", help="fleets at a time")
    parser.add_argument("--out", type=Path, default=ROOT / "fixtures" / "fleets")
    parser.add_argument("--environment", type=Path, default=WORK / ".venv", help="where vLLM is installed")
    args = parser.parse_args()
    unknown = set(args.names) - {incident.name for incident in INCIDENTS}
    if unknown:
        parser.error(f"no such incident: {', '.join(sorted(unknown))}")
    chosen = [incident for incident in INCIDENTS if not args.names or incident.name in args.names]
    args.out.mkdir(parents=True, exist_ok=True)
    (WORK / "fleet").mkdir(parents=True, exist_ok=True)
    with (
        contextlib.suppress(asyncio.CancelledError),
        Starts(args.environment / "bin" / "python", WORK / "fleet" / "nursery.log") as starts,
    ):
        where = Places(starts, WORK / "model", WORK / "fleet")
        sys.exit(0 if asyncio.run(main(chosen, where, args.out, args.side_by_side)) else 1)
    sys.exit(130)
