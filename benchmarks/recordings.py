"""The verdicts on labelled recordings, as a table.

usage: python benchmarks/recordings.py [FOLDER]...
       (default: fixtures/recordings and fixtures/heldout)

A folder holds labels.json and the OpenMetrics files it names; benchmarks/labels.py says what is right. The same
recordings less often, cut off, seen late and with other names: benchmarks/perturbations.py.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from labels import Label, judge_whole, read_labels, unix
from measured import measured_line
from stores import temporary_store

from inferdoc import diagnose, open_source
from inferdoc.judging.model import Diagnosis

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = [ROOT / "fixtures" / "recordings", ROOT / "fixtures" / "heldout"]


def row(label: Label, answer: Diagnosis, wrong: list[str]) -> str:
    """The row of one recording."""
    first = answer.findings[0] if answer.findings else None
    cause = "control" if label.control else f"`{label.expected[0]}`"
    verdict = f"`{first.id}`, {first.certainty}" if first else "nothing"
    effects = ", ".join(f"`{e}`" for e in first.effects) if first else ""
    off = f"{unix(first.onset) - label.onset:+.0f}" if first and label.onset else ""
    mark = "WRONG: " + "; ".join(wrong) if wrong else ("right (debatable)" if label.edge else "right")
    return f"| {label.name} | {cause} | {verdict} | {effects} | {off} | {mark} |"


def main() -> int:
    """Print a table for each folder; the exit code says whether every answer is right."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("folders", nargs="*", type=Path, default=[f for f in FOLDERS if f.is_dir()])
    bad = 0
    for folder in ask.parse_args().folders:
        labels = read_labels(folder)
        print(f"\n### {folder.name}\n")
        print("| recording | what was done | first finding | effects folded | onset off, s | |")
        print("| --- | --- | --- | --- | --- | --- |")
        right = 0
        for number, label in enumerate(labels, start=1):
            print(f"\r{number}/{len(labels)} {label.file:<50}", end="", file=sys.stderr, flush=True)
            with temporary_store(folder / label.file) as path:
                answer = diagnose(open_source(store=path), since=label.since, until="latest")
            wrong = judge_whole(label, answer)
            right += not wrong
            bad += bool(wrong)
            print(row(label, answer, wrong))
        print(file=sys.stderr)
        print(f"\n{right} right of {len(labels)}.")
    print(f"\n{measured_line()}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
