"""What is done beside the collecting: diagnoses and forecasts of the store that is being filled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from inferdoc.audit.persistent import diagnosis
from inferdoc.catalogue.load import Catalogue
from inferdoc.config import Config
from inferdoc.forecast.command import Origin
from inferdoc.forecast.engine import Request, forecast
from inferdoc.forecast.result import Forecast, ForecastLedger
from inferdoc.judging.model import Diagnosis
from inferdoc.source.identified import Identified

JUDGED = "15m"
"""Window of a diagnosis; the history before it is read as the baseline."""
FORECAST_SECONDS = 86_400


def diagnoses(
    open_source: Callable[[], Identified], config: Config, catalogue: Catalogue, since: str
) -> Callable[[], Diagnosis]:
    """Diagnose the last `since` (a duration) of a source, opened again each time."""
    params: dict[str, Any] = {"since": since, "until": "latest"}

    def work() -> Diagnosis:
        source = open_source()
        try:
            return diagnosis(source, config, catalogue, params)
        finally:
            source.close()

    return work


def forecasts(origin: Origin, horizon: int) -> Callable[[], Sequence[Forecast]]:
    """Forecasts the load of every pool, so many seconds ahead, and says how far the ones before missed."""
    ledgers: dict[str, ForecastLedger] = defaultdict(ForecastLedger)

    def work() -> Sequence[Forecast]:
        found = []
        for series in origin.series():
            ledger = ledgers[series.name]
            made = replace(forecast(series, Request(horizon=horizon)), missed=ledger.missed(series))
            ledger.write(made)
            found.append(made)
        return found

    return work
