"""How verdicts bear what happens to telemetry and to the one who looks: late, after a rollout, with scrapes missing.

usage: python benchmarks/perturbations.py [FOLDER]... [--only ROW]... [--recording PART] [--jobs N] [--json OUT]
                                          [--write]
       (default: fixtures/recordings and fixtures/heldout)

A folder holds labels.json and the OpenMetrics files it names. Every recording is read once; each row changes its
samples (benchmarks/perturb.py), puts them into a temporary store and asks for a diagnosis. What is right:
benchmarks/labels.py. No Prometheus is asked. The same seed in every run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path

from labels import Label, blamed, read_labels
from measured import measured_line
from perturbation_rows import ROWS, Look, Recording, Row, read_recording
from rich.console import Console
from rich.progress import track
from stores import temporary_store
from workers import results

from inferdoc import diagnose, open_source
from inferdoc.judging.model import Diagnosis

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = [ROOT / "fixtures" / "recordings", ROOT / "fixtures" / "heldout"]
PAGE = ROOT / "docs" / "measurements" / "perturbations.md"
BY_NAME = {row.name: row for row in ROWS}


@dataclass(frozen=True)
class Outcome:
    """One answer. wrong: why it is not right; findings: ids, the first one first; blamed: those on healthy pods."""

    row: str
    folder: str
    file: str
    control: bool
    wrong: tuple[str, ...]
    verdict: str
    findings: tuple[str, ...]
    certainty: str | None
    blamed: tuple[str, ...]
    seconds: float


Task = tuple[Path, Label, tuple[str, ...]]


def run(task: Task) -> list[Outcome]:
    """All rows over one recording."""
    folder, label, names = task
    original = read_recording(folder / label.file, label)
    outcomes = []
    wanted = sorted((BY_NAME[name] for name in names), key=lambda row: row.change.name)
    for _, rows in groupby(wanted, key=lambda row: row.change.name):
        looks = _looks(original, list(rows))
        if not looks:
            continue
        changed = looks[0][1]
        with temporary_store(changed.samples) as path:
            for row, _, look in looks:
                began = time.perf_counter()
                try:
                    answer = ask(path, changed.label, look)
                except Exception as error:  # a row that breaks the judge is a result, and no end of the run
                    outcomes.append(broken(row, folder, label, error, time.perf_counter() - began))
                    continue
                outcomes.append(outcome(row, folder, changed.label, answer, time.perf_counter() - began))
    return outcomes


def _looks(original: Recording, rows: Sequence[Row]) -> list[tuple[Row, Recording, Look]]:
    """Rows of one change that have something to ask, each with the changed recording."""
    changed = rows[0].change.apply(original) if any(row.look(original) for row in rows) else original
    looks = ((row, changed, row.look(changed)) for row in rows)
    return [(row, recording, look) for row, recording, look in looks if look is not None]


def ask(path: Path, label: Label, look: Look) -> Diagnosis:
    """The diagnosis of a window of a store."""
    since = label.since if look.begin is None else None
    until = "latest" if look.until is None else look.until
    with closing(open_source(store=path)) as source:
        return diagnose(source, since=since, from_=look.begin, until=until)


def outcome(row: Row, folder: Path, label: Label, answer: Diagnosis, seconds: float) -> Outcome:
    """What the row says of an answer."""
    first = answer.findings[0] if answer.findings else None
    return Outcome(
        row=row.name,
        folder=folder.name,
        file=label.file,
        control=label.control,
        wrong=tuple(row.judge(label, answer)),
        verdict=answer.verdict,
        findings=tuple(finding.id for finding in answer.findings),
        certainty=first.certainty if first else None,
        blamed=tuple(blamed(label, answer)),
        seconds=round(seconds, 3),
    )


def broken(row: Row, folder: Path, label: Label, error: Exception, seconds: float) -> Outcome:
    """What the row says where there is no answer."""
    why = (f"{type(error).__name__}: {error}",)
    return Outcome(row.name, folder.name, label.file, label.control, why, "error", (), None, (), round(seconds, 3))


COLUMNS = ("row", "right", "HEALTHY, users affected", "UNKNOWN", "controls with a finding", "blames healthy pods")


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """One line for each row that was asked, as markdown."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "| --- |" + " --- |" * (len(COLUMNS) - 1)]
    for row in ROWS:
        faults = [o for o in outcomes if o.row == row.name and not o.control]
        controls = [o for o in outcomes if o.row == row.name and o.control]
        if not faults and not controls:
            continue
        healthy = sum(o.verdict == "healthy" and bool(o.wrong) for o in faults)
        cells = (
            f"`{row.name}`: {row.title}",
            f"{sum(not o.wrong for o in faults)} of {len(faults)}",
            str(healthy) if row.hurt else "-",
            str(sum(o.verdict == "unknown" for o in (*faults, *controls))),
            f"{sum(bool(o.findings and o.wrong) for o in controls)} of {len(controls)}",
            str(sum(bool(o.blamed) for o in (*faults, *controls))),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def misses(outcomes: Sequence[Outcome]) -> list[str]:
    """What was wrong, row by row."""
    lines = []
    for row in ROWS:
        wrong = [o for o in outcomes if o.row == row.name and o.wrong]
        if wrong:
            lines += [
                f"- `{row.name}`: "
                + "; ".join(f"{o.file.removesuffix('.om.gz')} ({', '.join(o.wrong)})" for o in wrong)
            ]
    return lines


HEAD = """\
# Perturbations

How verdicts bear what happens to the telemetry, and when somebody looks. {measured}

Every row does the same to every labelled recording and judges the answer. *Right* counts faults: in rows with the
whole window the first finding must be an accepted cause, on the right pods, with the onset in tolerance; late and
without history the cause is enough. *HEALTHY* counts faults that are called healthy while users are affected (not
where silence is accepted); *controls with a finding* counts recordings without a fault, for which the middle stands
for the
onset. A row leaves out recordings in which it leaves less than 20 s of the fault.
[What the recordings are](recordings.md).
"""


def page(by_folder: dict[str, list[Outcome]]) -> str:
    """The page of the documentation."""
    parts = [HEAD.format(measured=measured_line())]
    for folder, outcomes in by_folder.items():
        parts += [f"\n## {folder}\n", *table(outcomes), "\n### Not right\n", *misses(outcomes)]
    return "\n".join(parts) + "\n"


def work(tasks: Sequence[Task], jobs: int) -> Iterator[list[Outcome]]:
    """The outcomes of each recording, in the order of the tasks; how far it is shows on a terminal."""
    console = Console(stderr=True)
    answers = results(run, tasks, jobs)
    yield from track(answers, "recordings", len(tasks), console=console, disable=not console.is_terminal)


def chosen(only: Collection[str]) -> tuple[str, ...]:
    """Names of the rows that are meant; all without any. only: names, or patterns such as late-*."""
    names = tuple(name for name in BY_NAME if not only or any(fnmatch(name, each) for each in only))
    if not names:
        raise SystemExit(f"no row is called {', '.join(only)}; there are {', '.join(BY_NAME)}")
    return names


def main() -> int:
    """Print a table for each folder."""
    ask_for = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask_for.add_argument("folders", nargs="*", type=Path, default=[f for f in FOLDERS if f.is_dir()])
    ask_for.add_argument("--only", action="append", default=[], metavar="ROW", help="a row, or a pattern: late-*")
    ask_for.add_argument("--recording", default="", metavar="PART", help="recordings whose name holds this")
    ask_for.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    ask_for.add_argument("--json", type=Path, metavar="OUT")
    ask_for.add_argument("--write", action="store_true", help=f"also {PAGE.relative_to(ROOT)}")
    asked = ask_for.parse_args()
    rows = chosen(asked.only)
    tasks = [
        (folder, label, rows)
        for folder in asked.folders
        for label in read_labels(folder)
        if asked.recording in label.file
    ]
    by_folder: defaultdict[str, list[Outcome]] = defaultdict(list)
    for (folder, _, _), outcomes in zip(tasks, work(tasks, asked.jobs), strict=True):
        by_folder[folder.name] += outcomes
        if asked.json:  # again after each recording: a run that is interrupted keeps what it has
            done = [asdict(each) for held in by_folder.values() for each in held]
            asked.json.write_text(json.dumps(done, indent=1), "utf-8")
    for folder, outcomes in by_folder.items():
        print("\n".join(["", f"### {folder}", "", *table(outcomes), "", *misses(outcomes)]))
    if asked.write:
        PAGE.write_text(page(by_folder), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
