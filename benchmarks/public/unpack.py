"""Puts the recordings of the public benchmark into a folder, under names that tell nothing.

    python benchmarks/public/unpack.py FOLDER     recordings copied, scenarios played; and questions.json
    python benchmarks/public/unpack.py --labels   labels.json anew, from the labels of fixtures/
    python benchmarks/public/unpack.py FOLDER --only ID...   some of the cases

A folder that is complete is left as it is. Takes minutes: some seventy fleets are simulated.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cases import LABELS, QUESTIONS, Case, labels_text, read_cases

from inferdoc.simulate.output import write_file
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scenario_files import scenarios
from inferdoc.simulate.scrape import simulate
from inferdoc.times import seconds_of

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
RECORDED = ("recordings", "heldout", "fleets")
SCENARIOS = "incidents"
SILENCE = "none"
"""What a label that accepts silence calls it."""


def opaque(origin: str) -> str:
    """An id that does not tell the cause, and that further cases do not change."""
    return hashlib.sha256(origin.encode()).hexdigest()[:10]


def cases() -> list[Case]:
    """All of them, ordered by id. A fault that metrics cannot show is no case."""
    found = [*_recorded(), *(_simulated(one) for one in scenarios() if one.expect.not_visible is None)]
    return sorted(found, key=lambda case: case.id)


def _recorded() -> Iterator[Case]:
    for folder in RECORDED:
        for row in json.loads((FIXTURES / folder / "labels.json").read_text("utf-8"))["recordings"]:
            origin = f"{folder}/{row['file']}"
            begin, end = row.get("window") or (row["end"] - seconds_of(row["since"], "since"), row["end"])
            yield Case(opaque(origin), origin, begin, end, **_right(row))


def _right(row: dict[str, Any]) -> dict[str, Any]:
    accepted = tuple(dict.fromkeys((*row["expected"], *(row.get("edge_accepts") or ()))))
    return {
        "control": row["control"],
        "accepts": tuple(name for name in accepted if name != SILENCE),
        "silence": SILENCE in accepted,
        "pods": tuple(row.get("affected_pods") or ()),
        "healthy": tuple(row.get("healthy_pods") or ()),
        "onset": row["onset"],
        "onset_latest": row.get("onset_latest"),
    }


def _simulated(scenario: Scenario) -> Case:
    expect, origin = scenario.expect, f"{SCENARIOS}/{scenario.id}.yaml"
    accepted = dict.fromkeys(name for name in (expect.root, expect.cause, *expect.accepts) if name is not None)
    return Case(
        opaque(origin),
        origin,
        scenario.start,
        scenario.start + scenario.duration,
        control=expect.cause is None,
        accepts=tuple(accepted),
        pods=() if expect.pool is not None else expect.pods,
        onset=None if expect.onset is None else scenario.start + expect.onset,
    )


def unpack(folder: Path, wanted: Sequence[Case]) -> None:
    """The recording of each case that is not there yet, and the questions."""
    played = {f"{SCENARIOS}/{one.id}.yaml": one for one in scenarios()}
    folder.mkdir(parents=True, exist_ok=True)
    for number, case in enumerate(wanted, start=1):
        place = folder / case.file
        if place.exists():
            continue
        print(f"{number}/{len(wanted)} {case.id}", file=sys.stderr)
        part = place.with_name(f"part-{case.file}")
        if case.origin in played:
            write_file(simulate(played[case.origin]), part)
        else:
            shutil.copyfile(FIXTURES / case.origin, part)
        part.replace(place)
    questions = [case.question() for case in wanted]
    (folder / QUESTIONS).write_text(json.dumps(questions, indent=1) + "\n", "utf-8")


def main() -> int:
    """See the module."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("folder", nargs="?", type=Path)
    ask.add_argument("--labels", action="store_true")
    ask.add_argument("--only", nargs="+", metavar="ID", help="these cases")
    given = ask.parse_args()
    if given.labels:
        LABELS.write_text(labels_text(cases()), "utf-8")
    if given.folder is not None:
        unpack(given.folder, read_cases(only=given.only))
    return 0


if __name__ == "__main__":
    sys.exit(main())
