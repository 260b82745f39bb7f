"""What a Prometheus scrapes from the service: its own health, and the verdict of the last look at the whole fleet."""

from __future__ import annotations

from inferdoc.catalogue.own_metrics import Families, Row
from inferdoc.expose.verdicts import answer_rows
from inferdoc.incidents.looks import counts
from inferdoc.incidents.record import Record
from inferdoc.serve.dispatch import Dispatcher
from inferdoc.serve.overview import Overview
from inferdoc.version import __version__


def text(families: Families, record: Record, dispatcher: Dispatcher, overview: Overview) -> str:
    """The page, in the classic text format."""
    return families.text(_rows(record, dispatcher, overview))


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
        "inferdoc_looks_total": [({"result": result}, float(ours.looks[result])) for result in ("ok", "failed")],
        "inferdoc_posts_total": [
            ({"output": output, "result": result}, float(ours.posts[output, result]))
            for output in dispatcher.names
            for result in ("sent", "again", "failed")
        ],
    }
    if ours.watchdog is not None:
        rows["inferdoc_watchdog_timestamp_seconds"] = [({}, ours.watchdog)]
    if overview.on:
        made = {"ok": overview.done, "failed": overview.failed}
        rows["inferdoc_diagnoses_total"] = [({"result": result}, float(n)) for result, n in made.items()]
        seen = overview.newest()
        if seen is not None:
            rows |= answer_rows(seen.told.document, seen.at, seen.seconds)
    return rows
