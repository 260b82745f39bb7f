"""What `inferdoc alerts backtest` was asked for, as cases and rule sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from inferdoc.backtest.labels import Told
from inferdoc.backtest.recording import ScrapedSeries, of_answers, read_store
from inferdoc.backtest.replay import RuleSet, metrics_of
from inferdoc.backtest.run import AlertsBacktest, Replayed, backtest, cases_of, own_rules
from inferdoc.errors import InferdocError
from inferdoc.source.identified import Identified
from inferdoc.source.prometheus import PrometheusSource
from inferdoc.times import seconds_of


def replayed(
    inputs: Sequence[str], source: Identified | None, asked: Mapping[str, Any], say: Callable[[str], None]
) -> AlertsBacktest:
    """The back-test. asked: folder, others, cold and since, as the command line names them. Raises InferdocError."""
    sets = [own_rules(asked["folder"]), *(RuleSet(path.name, (path,)) for path in asked["others"])]
    cases = [case for text in inputs for case in cases_of(Path(text))]
    if source is not None:
        cases.append(Replayed(Told(source.location, control=True), lambda: _of_source(source, sets, asked["since"])))
    return backtest(cases, sets, asked["folder"], cold=asked["cold"], progress=lambda name: say(f"replaying {name}"))


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
