"""Metrics of `inferdoc serve`: its health, fleet verdicts and textfiles."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from inferdoc.catalogue.own_metrics import Families, Row
from inferdoc.expose.rounds import Rounds
from inferdoc.expose.verdicts import answer_rows
from inferdoc.forecast.result import Forecast, forecast_rows
from inferdoc.incidents.record import Record
from inferdoc.incidents.runs import counts, pending
from inferdoc.serve.dispatch import Dispatcher
from inferdoc.serve.overview import Overview
from inferdoc.version import __version__

LARGEST_FILE = 4 << 20
MOST_FILES = 100


class TextFiles:
    """patterns: of paths; log: gets a line when a file cannot be read, once for each trouble."""

    def __init__(self, patterns: Sequence[str], log: Callable[[str], None]) -> None:
        self._patterns, self._log = patterns, log
        self._troubles: dict[str, str] = {}

    def text(self, own: Iterable[str]) -> str:
        """The families of all files in the classic text format; of a name that stands twice, or is one of `own`, the
        first counts."""
        seen, families = set(own), list[Metric]()
        for path in self._paths():
            for family in self._families(path):
                if family.name not in seen:
                    families.append(family)
            seen.update(family.name for family in families)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Given(families))
        return generate_latest(registry).decode()

    def _paths(self) -> list[Path]:
        paths = sorted({path for pattern in self._patterns for path in glob.glob(pattern)})  # noqa: PTH207
        return [Path(path) for path in paths[:MOST_FILES]]

    def _families(self, path: Path) -> list[Metric]:
        try:
            if path.stat().st_size > LARGEST_FILE:
                raise ValueError(f"more than {LARGEST_FILE >> 20} MiB")
            families = list(text_string_to_metric_families(path.read_text("utf-8")))
        except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
            line = f"{path}: its metrics are left out: {getattr(error, 'strerror', None) or error}"
            if self._troubles.get(str(path)) != line:
                self._log(line)
            self._troubles[str(path)] = line
            return []
        self._troubles.pop(str(path), None)
        return families


class _Given(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


@dataclass(frozen=True)
class MetricsPage:
    """forecasts: None without --forecast-every; files: textfiles of other commands."""

    families: Families
    record: Record
    dispatcher: Dispatcher
    overview: Overview
    files: TextFiles
    forecasts: Rounds[Sequence[Forecast]] | None = None

    def text(self) -> str:
        """The page, in the classic text format."""
        rows = _rows(self.record, self.dispatcher, self.overview)
        newest = self.forecasts.newest() if self.forecasts is not None else None
        if newest is not None:
            rows |= forecast_rows(newest.value, newest.at)
        return self.families.text(rows) + self.files.text(name.removesuffix("_total") for name in rows)


def _rows(record: Record, dispatcher: Dispatcher, overview: Overview) -> dict[str, list[Row]]:
    found, ours = counts(record), dispatcher.counts
    rows: dict[str, list[Row]] = {
        "inferdoc_build_info": [({"version": __version__}, 1.0)],
        "inferdoc_webhook_messages_total": [
            ({"result": result}, float(ours.messages[result]))
            for result in ("accepted", "merged", "ignored", "refused", "invalid")
        ],
        "inferdoc_incidents_open": [({}, float(found["open"]))],
        "inferdoc_looks_waiting": [({}, float(found.get("waiting", 0)))],
        "inferdoc_looks_total": [({"result": result}, float(ours.runs[result])) for result in ("ok", "failed")],
        "inferdoc_posts_total": [
            ({"output": output, "result": result}, float(ours.posts[output, result]))
            for output in dispatcher.names
            for result in ("sent", "again", "failed")
        ],
    }
    tasks = dispatcher.tasks
    rows["inferdoc_task_up"] = [({"task": name}, float(name not in tasks.down)) for name in tasks.names]
    rows["inferdoc_task_failures_total"] = [({"task": name}, float(tasks.failures[name])) for name in tasks.names]
    waiting = pending(record)
    rows["inferdoc_posts_waiting"] = [({"output": name}, float(waiting.get(name, 0))) for name in dispatcher.names]
    if ours.watchdog is not None:
        rows["inferdoc_watchdog_timestamp_seconds"] = [({}, ours.watchdog)]
    if overview.on:
        made = {"ok": overview.done, "failed": overview.failed}
        rows["inferdoc_diagnoses_total"] = [({"result": result}, float(n)) for result, n in made.items()]
        seen = overview.newest()
        if seen is not None:
            rows |= answer_rows(seen.result.document, seen.at, seen.seconds)
    return rows
