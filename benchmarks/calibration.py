"""How often findings are right by certainty, counted on labelled recordings, into diagnostics/calibration.yaml.

    python benchmarks/calibration.py FOLDER...            prints the table
    python benchmarks/calibration.py --write FOLDER...    writes what `probability` says, and docs/calibration.md

Every recording is judged as a whole and begun late (60 and 180 s after the onset, the earlier data still in the
source). A finding is right where it is the first and names a cause that the label accepts. Give folders that no rule
was made on: what is counted on recordings that rules were made on says nothing of the next incident.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml
from labels import LEAST_SECONDS, Label, read_labels

from inferdoc.catalogue.load import load_catalogue
from inferdoc.judging.api import Options, diagnose
from inferdoc.judging.model import Diagnosis
from inferdoc.source.open import open_source
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store

ROOT = Path(__file__).resolve().parent.parent
LATE_SECONDS = (60.0, 180.0)
CERTAINTIES = ("proven", "likely", "possible")
Count = Counter[tuple[str, bool, bool]]
"""(certainty, whether the second opinion agreed, right) -> findings."""


def answers(folder: Path, label: Label) -> Iterator[Diagnosis]:
    """The recording judged as a whole, and by somebody who looks late."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "store.db"
        with Store.open(path, "w") as store:
            import_file(store, str(folder / label.file))
        source = open_source(store=path)
        options = Options(catalogue=load_catalogue())
        yield diagnose(source, since=label.since, options=options)
        for late in LATE_SECONDS:
            begin = (label.onset or 0.0) + late
            if label.onset is not None and (label.end is None or begin < label.end - LEAST_SECONDS):
                yield diagnose(source, from_=begin, options=options)
        source.close()


def count(folder: Path) -> Count:
    """First findings of a folder, by certainty, agreement and whether they are right."""
    counted: Count = Counter()
    for label in read_labels(folder):
        for answer in answers(folder, label) if not label.control else ():
            if answer.findings:
                first = answer.findings[0]
                agrees = not first.differential or first.differential[0].probability < 0.5
                counted[first.certainty, agrees, first.id in label.accepted] += 1
    return counted


def table(counts: dict[str, Count]) -> str:
    """Markdown: how often each certainty was right, by source."""
    lines = ["| source | " + " | ".join(CERTAINTIES) + " |", "| --- |" + " --- |" * len(CERTAINTIES)]
    for name, counted in {**counts, "all": sum(counts.values(), Counter())}.items():
        cells = []
        for certainty in CERTAINTIES:
            right = sum(counted[certainty, agrees, True] for agrees in (True, False))
            of = right + sum(counted[certainty, agrees, False] for agrees in (True, False))
            cells.append(f"{right} of {of} ({right / of:.2f})" if of else "-")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def bins(counted: Count) -> list[dict[str, object]]:
    """The counts as they stand in calibration.yaml."""
    return [
        {"certainty": certainty, "agrees": agrees, "right": right, "of": right + counted[certainty, agrees, False]}
        for certainty in CERTAINTIES
        for agrees in (True, False)
        if (right := counted[certainty, agrees, True]) + counted[certainty, agrees, False]
    ]


def main() -> None:
    """Count, print, and write where asked."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("folders", nargs="+", type=Path)
    ask.add_argument("--write", action="store_true")
    asked = ask.parse_args()
    counts = {folder.name: count(folder) for folder in asked.folders}
    shown = table(counts)
    print(shown)
    if asked.write:
        document = {"sources": list(counts), "bins": bins(sum(counts.values(), Counter()))}
        head = "# How often findings are right: written by benchmarks/calibration.py, read for `probability`.\n"
        (ROOT / "diagnostics/calibration.yaml").write_text(head + yaml.safe_dump(document, sort_keys=False), "utf-8")
        page = (
            "# Calibration\n\nHow often the first finding named an accepted cause, by its certainty; each recording\n"
            f"judged as a whole and begun {', '.join(f'{s:g} s' for s in LATE_SECONDS)} after the onset.\n\n{shown}\n\n"
            "`python benchmarks/calibration.py --write FOLDER...` reproduces it. `probability` in the JSON is the\n"
            "share of the last row, by certainty and by whether the second opinion agreed.\n\n"
            "**Rules were mended while looking at these recordings**: the figures are the best case. What to expect\n"
            "of an incident nobody has seen is in docs/scoreboard.md, on seeds that were not looked at.\n"
        )
        (ROOT / "docs/calibration.md").write_text(page, "utf-8")


if __name__ == "__main__":
    main()
