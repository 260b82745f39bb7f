"""Can `signals --health` be trusted? Recordings at the height of their fault, controls again and again.

    python benchmarks/health.py fixtures/fleets fixtures/heldout
    python benchmarks/health.py --drawn 82000

Of a fault the moment is the end that its label gives (else of the recording); of a control the end and every three
minutes before it, from the first at which there is a past. Right is exit 1 for a fault and 0 for a control.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from looks import catalogue
from measured import measured_line
from stores import temporary_store

from inferdoc.config import Config
from inferdoc.report.health import HURTING, table
from inferdoc.source.store_source import StoreSource
from inferdoc_dev.incidents import CONTROLS
from inferdoc_dev.incidents.generator import draw
from inferdoc_dev.incidents.recording import record

EVERY_SECONDS, PAST_SECONDS = 180.0, 120.0


def hurting(path: Path, at: float) -> list[str]:
    """The rows that are beyond a limit at a moment, with one sight of each."""
    with closing(StoreSource(path)) as source:
        lines = table(source, Config(), catalogue(), str(at))
    worst = [line for line in lines if line.state in HURTING]
    return [f"{line.row.title}: {line.sights[0].text if line.sights else line.signal}" for line in worst]


def moments(path: Path) -> Iterator[float]:
    """Of a control, latest first."""
    source = StoreSource(path)
    latest = (source.latest_ms() or 0) / 1000
    begin = min(s.times_ms[0] for s in source.scrapes(0, int(1000 * latest)) if len(s.times_ms)) / 1000
    source.close()
    at = latest
    while at >= begin + PAST_SECONDS:
        yield at
        at -= EVERY_SECONDS


def main() -> None:
    """Count, and name what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="recordings with labels.json")
    parser.add_argument("--drawn", type=int, metavar="SEED", help="also a draw of every simulated control")
    asked = parser.parse_args()
    rows: list[tuple[str, int, int, int, int]] = []
    for folder in asked.folders:
        labels = json.loads((folder / "labels.json").read_text())["recordings"]
        rows.append(_counted(str(folder), ((label, folder / label["file"]) for label in labels)))
    if asked.drawn is not None:
        rows.append(
            _counted(f"drawn, {asked.drawn}", (({"file": n, "control": True}, None) for n in CONTROLS), asked.drawn)
        )
    print("| recordings | controls quiet | looks at them | faults told |\n| --- | --- | --- | --- |")
    for name, quiet, looks, told, faults in rows:
        print(f"| {name} | {quiet} of {looks} | {looks} | {told} of {faults} |")
    print(f"\n{measured_line()}")


def _counted(name: str, recordings, seed: int = 0) -> tuple[str, int, int, int, int]:
    quiet = looks = told = faults = 0
    for label, file in recordings:
        with temporary_store(file or record(draw(label["file"], seed, CONTROLS, True)).targets) as path:
            if label["control"]:
                answers = {at: hurting(path, at) for at in moments(path)}
                looks, quiet = looks + len(answers), quiet + sum(not rows for rows in answers.values())
                loud = {round(at): rows for at, rows in answers.items() if rows}
                if loud:
                    print(f"{label['file']}: {loud}", flush=True)
                continue
            faults += 1
            rows = hurting(path, label.get("end") or next(moments(path)))
            told += bool(rows)
            if not rows:
                print(f"{label['file']}: nothing", flush=True)
    return name, quiet, looks, told, faults


if __name__ == "__main__":
    main()
