"""A back-test: recordings under rule sets, in memory, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from inferdoc.backtest.inhibition import Notifying, read_notifying
from inferdoc.backtest.recording import FILE, RecordingLabels, ScrapedSeries, read_file, read_labels, read_store
from inferdoc.backtest.replay import RuleSet, replay
from inferdoc.backtest.score import RecordingOutcome, Totals, outcome, totals
from inferdoc.errors import InferdocError
from inferdoc.generate.alerts import ALERTMANAGER
from inferdoc.generate.pack import RECORDING, RULES

OURS = "inferdoc"
COLD_SECONDS = 120
"""History that a cold start has before the onset: what the newest rate windows need and no more."""
AT_ONCE = 2
SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True)
class Replayed:
    """A recording to replay: its labels, and how to read it."""

    labels: RecordingLabels
    read: Callable[[], ScrapedSeries]


class RuleSetResult(msgspec.Struct, frozen=True):
    """One rule set over all recordings. history: warm (all of it) or cold."""

    rules: str
    history: str
    totals: Totals
    outcomes: tuple[RecordingOutcome, ...]


class AlertsBacktest(msgspec.Struct, frozen=True):
    """A whole back-test."""

    results: tuple[RuleSetResult, ...]


def own_rules(folder: Path) -> RuleSet:
    """The generated pack of a folder. Raises InferdocError where it is not there."""
    for name in (RECORDING, RULES):
        if not (folder / name).is_file():
            raise InferdocError(
                f"{folder / name}: not found; run `inferdoc alerts build` first, or name the folder with --out"
            )
    return RuleSet(OURS, (folder / RECORDING, folder / RULES))


def cases_of(path: Path) -> Iterator[Replayed]:
    """The recordings of a path: a folder of labelled recordings, a store, or OpenMetrics text. Without labels all that
    fires is listed without a verdict."""
    if path.is_dir():
        if (path / FILE).is_file():
            for labels in read_labels(path):
                yield Replayed(labels, lambda file=path / labels.file: read_file(file))  # type: ignore[misc]
            return
        raise InferdocError(f"{path}: no {FILE} with the recordings and their injected faults")
    if not path.is_file():
        raise InferdocError(f"{path}: no such file or folder")
    with path.open("rb") as stream:
        read = read_store if stream.read(len(SQLITE)) == SQLITE else read_file
    yield Replayed(RecordingLabels(path.name, control=True), lambda: read(path))


def backtest(
    cases: Sequence[Replayed],
    rule_sets: Sequence[RuleSet],
    folder: Path,
    *,
    cold: bool = False,
    progress: Callable[[str], None] = lambda name: None,
) -> AlertsBacktest:
    """Every case under every rule set; the inhibit rules of the folder apply to our alerts only.

    Raises InferdocError where something cannot be read, or promtool is missing or refuses rules.
    """
    notifying = {OURS: read_notifying(folder / ALERTMANAGER)}

    def evaluated(case: Replayed) -> list[RecordingOutcome]:
        progress(case.labels.file)
        recording = case.read().with_pods()
        if cold and case.labels.onset is not None:
            recording = recording.since(round((case.labels.onset - COLD_SECONDS) * 1000))
        begin, end = recording.span_ms
        span = (begin / 1000, end / 1000)
        return [
            outcome(case.labels, replay(rules, recording), span, rules, notifying.get(rules.name, Notifying()))
            for rules in rule_sets
        ]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(evaluated, cases))
    history = "cold" if cold else "warm"
    results = []
    for place, rules in enumerate(rule_sets):
        outcomes = tuple(each[place] for each in found)
        results.append(RuleSetResult(rules.name, history, totals(outcomes), outcomes))
    return AlertsBacktest(tuple(results))
