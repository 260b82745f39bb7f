"""Whether a healthy fleet stays quiet whatever happens to its telemetry: intervals that change, other buckets, pairs of
servers, lost scrapes.

usage: python benchmarks/quiet_windows.py [--fleets N] [--windows N] [--seed N] [--only ROW]... [--kind KIND]...
                                          [--jobs N] [--minutes M] [--json OUT]

Each fleet is a control of the simulator in surroundings drawn by chance (inferdoc_dev/incidents/randomisation.py),
scraped every 15 s. Each row does one thing to what was scraped, puts it into a temporary store and diagnoses the same
windows, all of which hold the moment at which it happens. A window counts where a finding is above info and no label of
the control accepts it (a rolling restart may be called engine-down). The same seed in every run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import perturb
import rescraped
from looks import ask
from measured import measured_line
from rich.console import Console
from rich.progress import track
from stores import temporary_store
from workers import results_within

from inferdoc.collect.openmetrics_file import SampleColumns
from inferdoc_dev.incidents import CONTROLS
from inferdoc_dev.incidents.generator import randomised
from inferdoc_dev.incidents.randomisation import RANDOMISATION, Choice, Range
from inferdoc_dev.incidents.recording import record

INTERVAL_MS = 15_000
AS_OFTEN = 2
"""The simulator scrapes so many times as often, so that a second server has scrapes of its own."""
LEAST_SECONDS, MOST_SECONDS = 600.0, 3600.0
"""Length of a window."""
MARGIN = 0.1
"""The moment lies inside the window, by so much of its length."""
SHARE = 0.1
"""Of the scrapes, where some are lost."""
RANGES = replace(
    RANDOMISATION,
    interval=Choice((INTERVAL_MS / 1000 / AS_OFTEN,), (1.0,), "see AS_OFTEN", "s"),
    lost=Range(0.0, 0.0, "of the scrapes", "the rows lose them"),
    hours=Range(1.0, 2.0, "h", "history before the windows"),
)


@dataclass(frozen=True)
class Fleet:
    """What was scraped of a healthy fleet. often: samples, every 7.5 s; samples: every 15 s; moment_ms: when what a row
    does happens; seed: of what it draws."""

    often: SampleColumns
    samples: SampleColumns
    moment_ms: float
    seed: int

    def chance(self, row: str) -> np.random.Generator:
        """The same draws in every run, others for each row."""
        return np.random.default_rng([self.seed, zlib.crc32(row.encode())])


@dataclass(frozen=True)
class Row:
    """One thing that happens to the telemetry of a fleet."""

    name: str
    title: str
    change: Callable[[Fleet], SampleColumns]


def _changed(before: int, after: int) -> Callable[[Fleet], SampleColumns]:
    return lambda fleet: rescraped.interval_changed(fleet.samples, fleet.moment_ms, before, after)


def _rebucketed(change: Callable[[list[str]], rescraped.Bounds], new: bool = True) -> Callable[[Fleet], SampleColumns]:
    def changed(fleet: Fleet) -> SampleColumns:
        names = perturb.replacements(fleet.samples)
        return rescraped.rebucketed(fleet.samples, fleet.moment_ms, names, change, new)

    return changed


def _lost(fleet: Fleet) -> SampleColumns:
    return perturb.lost(fleet.samples, SHARE, fleet.chance("lost"))


def _rounds_lost(fleet: Fleet) -> SampleColumns:
    return rescraped.rounds_lost(fleet.samples, SHARE, INTERVAL_MS, fleet.chance("rounds"))


def _pair_with_losses(fleet: Fleet) -> SampleColumns:
    return perturb.lost(rescraped.paired(fleet.often), SHARE, fleet.chance("pair"))


ROWS = (
    Row("as-is", "nothing happens", lambda fleet: fleet.samples),
    Row("15-to-30", "scrape interval 15 s, then 30 s", _changed(1, 2)),
    Row("30-to-15", "scrape interval 30 s, then 15 s", _changed(2, 1)),
    Row("15-to-60", "scrape interval 15 s, then 60 s", _changed(1, 4)),
    Row("60-to-15", "scrape interval 60 s, then 15 s", _changed(4, 1)),
    Row("le-respelt", "next release spells `le` otherwise (1.0 as 1)", _rebucketed(rescraped.respelt)),
    Row("buckets-fewer", "next release has every other bucket", _rebucketed(rescraped.coarser)),
    Row("buckets-more", "next release has twice the buckets", _rebucketed(rescraped.coarser, new=False)),
    Row("pair", "two Prometheus servers stored side by side", lambda fleet: rescraped.paired(fleet.often)),
    Row("pair-lost", "the same, each losing 10 % of the scrapes", _pair_with_losses),
    Row("lost", "10 % of the scrapes lost, target by target", _lost),
    Row("rounds-lost", "10 % of the scrapes lost, all targets at once", _rounds_lost),
)
"""In the order of the table."""
BY_NAME = {row.name: row for row in ROWS}


@dataclass(frozen=True)
class Outcome:
    """What one window said. above: ids of findings above info that no label accepts; info: those at info."""

    row: str
    kind: str
    seed: int
    from_: float
    until: float
    verdict: str
    above: tuple[str, ...]
    info: tuple[str, ...]
    seconds: float
    details: tuple[str, ...] = field(default=())


Task = tuple[str, int, tuple[str, ...], int]
"""Kind and seed of a fleet, names of rows, number of windows."""


def fleet_of(kind: str, seed: int) -> Fleet:
    """A healthy fleet as it was scraped."""
    recording = record(randomised(kind, seed, CONTROLS, True, RANGES))
    often = rescraped.columns_of(recording.targets)
    first, last = float(often.timestamps_ms.min()), float(often.timestamps_ms.max())
    share = np.random.default_rng([seed, 1]).uniform(0.4, 0.7)
    return Fleet(often, perturb.thinned(often, AS_OFTEN), first + share * (last - first), seed)


def windows_of(fleet: Fleet, count: int) -> list[tuple[float, float]]:
    """Begin and end of windows around the moment, Unix seconds."""
    chance = np.random.default_rng([fleet.seed, 2])
    first, last = fleet.samples.timestamps_ms.min() / 1000, fleet.samples.timestamps_ms.max() / 1000
    moment = fleet.moment_ms / 1000
    windows = []
    for _ in range(count):
        length = min(float(chance.uniform(LEAST_SECONDS, MOST_SECONDS)), last - first)
        before = float(chance.uniform(MARGIN, 1 - MARGIN)) * length
        begin = min(max(moment - before, first), last - length)
        windows.append((begin, begin + length))
    return windows


def run(task: Task) -> list[Outcome]:
    """All windows of a fleet, row by row."""
    kind, seed, names, count = task
    fleet = fleet_of(kind, seed)
    accepted = randomised(kind, seed, CONTROLS, True, RANGES).expect.accepts
    outcomes = []
    for name in names:
        with temporary_store(BY_NAME[name].change(fleet)) as path:
            for window in windows_of(fleet, count):
                outcomes.append(_outcome(path, name, kind, seed, window, accepted))
    return outcomes


def _outcome(
    path: Path, row: str, kind: str, seed: int, window: tuple[float, float], accepted: Sequence[str]
) -> Outcome:
    began = time.perf_counter()
    answer = ask(path, *window)
    wrong = [each for each in answer.findings if each.id not in accepted]
    above = [each for each in wrong if each.severity != "info"]
    return Outcome(
        row,
        kind,
        seed,
        *window,
        answer.verdict,
        tuple(each.id for each in above),
        tuple(each.id for each in wrong if each.severity == "info"),
        round(time.perf_counter() - began, 3),
        tuple(f"{each.id} {each.certainty} {each.scope.pods} {each.onset}" for each in above),
    )


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """One line for each row that was asked, as markdown."""
    lines = [
        "| what happens | windows | with a finding above info | of it | unknown |",
        "| --- | ---: | ---: | --- | ---: |",
    ]
    for row in ROWS:
        own = [each for each in outcomes if each.row == row.name]
        if own:
            ids = Counter(name for each in own for name in dict.fromkeys(each.above))
            named = ", ".join(f"`{name}` {count}" for name, count in ids.most_common())
            loud, unknown = sum(bool(each.above) for each in own), sum(each.verdict == "unknown" for each in own)
            lines.append(f"| {row.title} | {len(own)} | {loud} | {named} | {unknown} |")
    return lines


def main() -> int:
    """Print the table, and the windows that were not quiet."""
    ask_for = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask_for.add_argument("--fleets", type=int, default=40, help="number of fleets (default 40)")
    ask_for.add_argument("--windows", type=int, default=20, help="windows of each fleet (default 20)")
    ask_for.add_argument("--seed", type=int, default=500, help="seed of the first fleet (default 500)")
    ask_for.add_argument("--only", action="append", default=[], metavar="ROW", help="a row, or a pattern: pair*")
    ask_for.add_argument("--kind", action="append", default=[], metavar="KIND", help="a kind of control, or a pattern")
    ask_for.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    ask_for.add_argument("--minutes", type=float, default=10.0, help="no fleet is begun after that (default 10)")
    ask_for.add_argument("--json", type=Path, metavar="OUT", help="every window as JSON")
    asked = ask_for.parse_args()
    rows = tuple(name for name in BY_NAME if not asked.only or any(fnmatch(name, each) for each in asked.only))
    kinds = [kind for kind in CONTROLS if not asked.kind or any(fnmatch(kind, each) for each in asked.kind)]
    if not rows or not kinds:
        raise SystemExit(f"nothing is called so; rows: {', '.join(BY_NAME)}; kinds: {', '.join(CONTROLS)}")
    tasks = [(kinds[n % len(kinds)], asked.seed + n, rows, asked.windows) for n in range(asked.fleets)]
    outcomes: list[Outcome] = []
    fleets, console = 0, Console(stderr=True)
    answers = results_within(run, tasks, asked.jobs, asked.minutes)
    for answer in track(answers, "fleets", len(tasks), console=console, disable=not console.is_terminal):
        outcomes += answer
        fleets += 1
        if asked.json:  # again after each fleet: a run that is interrupted keeps what it has
            asked.json.write_text(json.dumps([asdict(each) for each in outcomes], indent=1), "utf-8")
    print(f"{fleets} fleets x {asked.windows} windows, seeds from {asked.seed}\n", *table(outcomes), sep="\n")
    print(f"\n{measured_line()}\n")
    for each in outcomes:
        for detail in each.details:
            print(f"- {each.row}, {each.kind} {each.seed}, {each.from_:.0f} to {each.until:.0f}: {detail}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
