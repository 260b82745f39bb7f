"""What a Prometheus scrapes from the service: its own health, and the verdict of the last look at the whole fleet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inferdoc.catalogue.own_metrics import Families, Row
from inferdoc.expose.rounds import Rounds
from inferdoc.expose.verdicts import answer_rows
from inferdoc.forecast.output import forecast_rows
from inferdoc.forecast.result import Forecast
from inferdoc.incidents.posts import pending
from inferdoc.incidents.record import Record
from inferdoc.incidents.runs import counts
from inferdoc.serve.dispatch import Dispatcher
from inferdoc.serve.overview import Overview
from inferdoc.serve.textfiles import TextFiles
from inferdoc.version import __version__


@dataclass(frozen=True)
class MetricsPage:
    """forecasts: made beside the rest, where they are asked for; files: metrics that other commands left."""

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
