"""Runs `inferdoc alerts backtest` and `backfill`: recordings under rule sets, in memory, several at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from inferdoc.backtest.backfill import Backfilled, backfill
from inferdoc.backtest.recording import (
    FILE,
    RecordingLabels,
    ScrapedSeries,
    of_answers,
    openmetrics,
    read_file,
    read_labels,
    read_store,
)
from inferdoc.backtest.replay import RuleSet, metrics_of, replay
from inferdoc.backtest.score import Notifying, RecordingOutcome, Totals, outcome, read_notifying, totals
from inferdoc.errors import InferdocError
from inferdoc.generate.alerts import ALERTMANAGER
from inferdoc.generate.pack import RECORDING, RULES
from inferdoc.source.identified import Identified
from inferdoc.source.prometheus import PrometheusSource
from inferdoc.times import moment_ms, seconds_of

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


def replayed(
    inputs: Sequence[str], source: Identified | None, options: Mapping[str, Any], say: Callable[[str], None]
) -> AlertsBacktest:
    """The back-test. options: folder, others, cold and since of the command line. Raises InferdocError."""
    sets = [own_rules(options["folder"]), *(RuleSet(path.name, (path,)) for path in options["others"])]
    cases = [case for text in inputs for case in cases_of(Path(text))]
    if source is not None:
        cases.append(
            Replayed(RecordingLabels(source.location, control=True), lambda: _of_source(source, sets, options["since"]))
        )
    return backtest(
        cases, sets, options["folder"], cold=options["cold"], progress=lambda name: say(f"replaying {name}")
    )


def backfilled(
    path: str | None, source: Identified | None, options: Mapping[str, Any], say: Callable[[str], None]
) -> Backfilled:
    """Writes blocks of what the rules would have recorded. path: a store or OpenMetrics text, None for the source;
    options: folder, since, until and blocks of the command line. Raises InferdocError."""
    rules = own_rules(options["folder"])
    if path is not None:
        recording = next(cases_of(Path(path))).read()
    elif source is not None:
        recording = _of_source(source, [rules], options["since"])
    else:
        raise InferdocError("no input: name a store or OpenMetrics text, or give --prometheus")
    names, patterns = metrics_of(rules)
    read = recording.narrowed(names | {"up"}, patterns)
    begin_ms, end_ms = read.span_ms
    end_ms = min(end_ms, moment_ms(options["until"], end_ms, what="--until"))
    with tempfile.TemporaryDirectory(prefix="inferdoc-") as folder:
        raw = Path(folder) / "raw.om"
        with raw.open("w", encoding="utf-8") as stream:
            stream.writelines(openmetrics(read))
        return backfill(rules, raw, (begin_ms / 1000, end_ms / 1000), options["blocks"], say)


def _of_source(source: Identified, sets: Sequence[RuleSet], since: str) -> ScrapedSeries:
    if not isinstance(source.raw, PrometheusSource):
        return read_store(Path(source.location))
    end_ms = source.latest_ms()
    if end_ms is None:
        raise InferdocError(f"{source.location}: no samples of an inference server in it")
    begin_ms = end_ms - seconds_of(since, "--since") * 1000
    words = {word for rules in sets for word in metrics_of(rules)[0]} | {"up"}
    stored = [name for name in sorted(words & source.raw.names(begin_ms, end_ms)) if ":inferdoc_" not in name]
    return of_answers(source.location, source.raw.samples(stored, begin_ms, end_ms))
