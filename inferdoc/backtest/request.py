"""Runs `inferdoc alerts backtest` and `backfill` from the options of the command line."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from inferdoc.backtest.backfill import Backfilled, backfill
from inferdoc.backtest.recording import RecordingLabels, ScrapedSeries, of_answers, openmetrics, read_store
from inferdoc.backtest.replay import RuleSet, metrics_of
from inferdoc.backtest.run import AlertsBacktest, Replayed, backtest, cases_of, own_rules
from inferdoc.errors import InferdocError
from inferdoc.source.identified import Identified
from inferdoc.source.prometheus import PrometheusSource
from inferdoc.times import moment_ms, seconds_of


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
    """What the rules would have recorded, as blocks. path: a store or OpenMetrics text, None for the source; options:
    folder, since, until and blocks of the command line. Raises InferdocError."""
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
