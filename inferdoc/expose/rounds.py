"""Diagnoses and forecasts that are repeated beside collection, and their newest results."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from inferdoc.audit.persistent import diagnosis
from inferdoc.catalogue.load import Catalogue
from inferdoc.config import Config
from inferdoc.errors import InferdocError
from inferdoc.forecast.command import Origin
from inferdoc.forecast.engine import Request, forecast
from inferdoc.forecast.result import Forecast, ForecastLedger
from inferdoc.judging.model import Diagnosis
from inferdoc.source.identified import Identified

T = TypeVar("T")
STALE_ROUNDS = 3
"""A result that is older than so many rounds says nothing of the present."""


@dataclass(frozen=True)
class Result(Generic[T]):
    """value: what the work returned; at: when it was done, Unix seconds; seconds: how long it took."""

    value: T
    at: float
    seconds: float


class Rounds(Generic[T]):
    """Does some work every so many seconds in a thread of its own, until stopped.

    work: raises where it cannot be done; report: gets a line when that begins and when it is over.
    """

    def __init__(self, name: str, work: Callable[[], T], seconds: float, report: Callable[[str], None]) -> None:
        self._name, self._work, self._seconds, self._report = name, work, seconds, report
        self._newest: Result[T] | None = None
        self._trouble: str | None = None
        self.done = 0
        self.failed = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; what is under way is not waited for."""
        self._stop.set()

    def newest(self, now: float | None = None) -> Result[T] | None:
        """The newest result; None where there is none yet, or where it is too old. now: Unix seconds."""
        newest = self._newest
        age = 0.0 if newest is None else (time.time() if now is None else now) - newest.at
        return None if age > STALE_ROUNDS * self._seconds else newest

    def once(self) -> None:
        """Do the work now."""
        started = time.perf_counter()
        try:
            value = self._work()
        except Exception as error:  # whatever it is, the collecting goes on and the next round is tried
            self._fail(str(error) if isinstance(error, InferdocError) else f"{type(error).__name__}: {error}")
            return
        if self._trouble is not None:
            self._report(f"{self._name}: well again")
        self._trouble = None
        self._newest = Result(value, time.time(), time.perf_counter() - started)
        self.done += 1

    def _fail(self, line: str) -> None:
        self.failed += 1
        if line != self._trouble:
            self._trouble = line
            self._report(f"{self._name}: {line}")

    def _run(self) -> None:
        while not self._stop.is_set():
            self.once()
            self._stop.wait(self._seconds)


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
