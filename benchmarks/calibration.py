"""How often findings are right by certainty: from the outcomes of a scoreboard into diagnostics/calibration.yaml.

    python benchmarks/scoreboard.py --seed N --json outcomes.json
    python benchmarks/calibration.py outcomes.json     writes the probabilities, and docs/measurements/calibration.md
    python benchmarks/calibration.py outcomes.json --out FOLDER     writes both there

A finding is right where it is the first and names a cause that the label accepts, in time, late, or when the fault is
long there. Only simulated incidents that hurt users count: the recordings were looked at while rules were made.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from measured import measured_line

ROOT = Path(__file__).resolve().parent.parent
CERTAINTIES = ("proven", "likely", "possible")
LOOKS = ("whole", "late", "old")
HEAD = "# How often findings are right: written by benchmarks/calibration.py, read for `probability`.\n"


def verdicts(outcome: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """(certainty, whether it is right) of the first finding of each look at an incident that hurts users."""
    accepted = {outcome["cause"], outcome["root"], *outcome["accepts"]}
    for look in LOOKS if outcome["source"] == "simulator" and outcome["group"] == "cause" else ():
        answer = outcome.get(look)
        hurts = outcome["harmful"] if look == "whole" else outcome.get(f"{look}_hurts", False)
        if answer and hurts and answer.get("causes"):
            yield answer["sure"][0], answer["causes"][0] in accepted


def counted(outcomes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The bins as they stand in calibration.yaml."""
    counts = Counter(verdict for outcome in outcomes for verdict in verdicts(outcome))
    return [
        {"certainty": c, "right": counts[c, True], "of": counts[c, True] + counts[c, False]}
        for c in CERTAINTIES
        if counts[c, True] + counts[c, False]
    ]


def main() -> None:
    """Count, write, and print."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("outcomes", type=Path)
    ask.add_argument("--out", type=Path, default=ROOT, help="folder with the folders diagnostics and docs")
    given = ask.parse_args()
    outcomes = json.loads(given.outcomes.read_text("utf-8"))
    bins = counted(outcomes)
    seeds = sorted({outcome["seed"] for outcome in outcomes if outcome["source"] == "simulator"})
    on = f"randomised fleets of the own simulator, seeds {seeds[0]} to {seeds[-1]}"
    document = yaml.safe_dump({"counted_on": on, "bins": bins}, sort_keys=False)
    for folder in ("diagnostics", "docs/measurements"):
        (given.out / folder).mkdir(parents=True, exist_ok=True)
    (given.out / "diagnostics/calibration.yaml").write_text(HEAD + document, "utf-8")
    rows = "\n".join(f"| {b['certainty']} | {b['right']} of {b['of']} | {b['right'] / b['of']:.2f} |" for b in bins)
    page = (
        f"# Calibration\n\nHow often the first finding named an accepted cause, by its certainty, on {on},\n"
        "looked at in time, 60 to 180 s late, and when the fault was long there. `probability` in the JSON is this\n"
        "share.\n\n"
        f"| certainty | right | share |\n| --- | --- | --- |\n{rows}\n\n"
        f"{measured_line()}\n"
        "The outcomes come from `python benchmarks/scoreboard.py --seed N --json FILE`.\n"
        "[scoreboard.md](scoreboard.md) has the same by source, and a reliability table.\n"
    )
    (given.out / "docs/measurements/calibration.md").write_text(page, "utf-8")
    print(page)


if __name__ == "__main__":
    main()
