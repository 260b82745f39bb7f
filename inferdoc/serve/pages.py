"""What the service shows: the web pages, and its own metrics."""

from __future__ import annotations

import glob
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from inferdoc.catalogue.own_metrics import Families, Row
from inferdoc.escaping import is_web, one_line
from inferdoc.expose.exporter import answer_rows
from inferdoc.expose.rounds import Rounds
from inferdoc.extras import needed
from inferdoc.forecast.result import Forecast, forecast_rows
from inferdoc.incidents.model import DiagnosisRun, Incident, ReceivedAlert
from inferdoc.incidents.record import Record, alert_names
from inferdoc.incidents.runs import counts, pending
from inferdoc.report.html_page import style
from inferdoc.report.runbook import page as runbook_text
from inferdoc.serve.dispatch import Dispatcher
from inferdoc.serve.note import note
from inferdoc.serve.run_process import PoolSummary
from inferdoc.serve.runner import Overview
from inferdoc.times import rfc3339
from inferdoc.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment


TABS = (("/", "Fleet"), ("/incidents", "Incidents"), ("/health", "Health"))
MORE_STYLE = """
nav{display:flex;gap:1.2rem;padding-bottom:.8rem;border-bottom:1px solid var(--line)}
nav a{text-decoration:none;font-weight:600}nav a[aria-current]{color:var(--text);border-bottom:2px solid currentColor}
a.button{display:inline-block;margin:.3rem .4rem 0 0;padding:.3rem .8rem;border:1px solid var(--line);border-radius:6px;
background:var(--card);text-decoration:none}
th.wrap{white-space:normal;max-width:9rem}
.good{color:var(--healthy)}
@media screen and (max-width:640px){
table.cards td.num{text-align:left}
table.cards td[data-name]::before{content:attr(data-name) ": ";color:var(--soft)}
}
"""
WHY = {
    "alert": "an alert",
    "joined": "another alert",
    "reopened": "the alert fired again",
    "again": "follow-up",
    "repeat": "repeated notification",
    "resolved": "the alerts resolved",
}


BESIDE = re.compile(r"\]\(([a-z0-9-]+)\.md(#[^)]*)?\)")
"""A link from one runbook file to another: the pages are served by their ids."""


class ServicePages:
    """Fills the templates."""

    def __init__(self, record: Record, overview: Overview, dispatcher: Dispatcher, overlays: Sequence[str]) -> None:
        self._record, self._overview, self._dispatcher, self._overlays = record, overview, dispatcher, overlays

    @cached_property
    def _templates(self) -> Environment:
        with needed("jinja2", "inferdoc serve"):
            from jinja2 import Environment, PackageLoader, StrictUndefined

        made = Environment(
            loader=PackageLoader("inferdoc.serve"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=lambda value: one_line(value) if type(value) is str else value,
        )
        made.filters["dict"] = dict
        return made

    def _page(self, template: str, title: str, here: str, **given: Any) -> str:
        from markupsafe import Markup

        listing = self._templates.get_template("listing.html").module.incidents  # type: ignore[attr-defined]
        sheet = Markup(style() + MORE_STYLE)
        return self._templates.get_template(template).render(
            title=title, here=here, tabs=TABS, style=sheet, version=__version__, now=_minute(time.time()),
            listing=listing, **given,
        )  # fmt: skip

    def fleet(self) -> str:
        """Every pool, by model, with role and tier."""
        seen = self._overview.newest()
        pools = seen.result.pools if seen is not None else []
        groups: dict[str, list[PoolSummary]] = {}
        for pool in pools:
            words = " · ".join(word for word in (pool.cluster, pool.namespace, pool.model) if word)
            groups.setdefault(words or "no model name", []).append(pool)
        return self._page(
            "fleet.html",
            "Fleet",
            "/",
            seen=seen is not None,
            answer=seen.result.document if seen is not None else None,
            seen_at=_minute(seen.at) if seen is not None else "",
            trouble=self._overview.trouble,
            looking=self._overview.on,
            groups=list(groups.items()),
            titles=list(dict.fromkeys(title for pool in pools for title, _ in pool.readings)),
            open_incidents=[_row(each) for each in self._record.incidents(only_open=True)],
        )

    def incidents(self) -> str:
        """The newest incidents."""
        every = self._record.incidents(limit=200)
        going = sum(incident.resolved is None for incident in every)
        words = f"{going} open, the newest {len(every)} shown" if every else ""
        return self._page("incidents.html", "Incidents", "/incidents", rows=[_row(each) for each in every], words=words)

    def incident(self, name: str) -> str:
        """One incident. Raises InferdocError where there is none."""
        incident = self._record.incident(name)
        runs = self._record.runs(incident.id)
        concluded = next((run for run in reversed(runs) if run.state == "done" and run.story and run.story.cause), None)
        concluded = concluded or next((run for run in reversed(runs) if run.state in ("done", "failed")), None)
        answer = self._record.diagnosis(concluded.number) if concluded and concluded.state == "done" else None
        nothing = DiagnosisRun(
            0, incident.id, "alert", "waiting", incident.opened, incident.opened, failure="the diagnosis is running"
        )
        about = note(incident, concluded or nothing, answer, self._record.like(incident))
        steps = answer.findings[0].next_steps if answer is not None and answer.findings else []
        links = list(about.links)
        if answer is not None and answer.findings and not any(words == "Runbook" for words, _ in links):
            links.append(("Runbook", f"/runbooks/{answer.findings[0].runbook}"))
        return self._page(
            "incident.html",
            about.title,
            "",
            incident=incident,
            note=about,
            links=links,
            steps=steps,
            report=answer is not None,
            alerts=[_alert(alert) for alert in incident.alerts],
            runs=[_run_row(run) for run in runs],
        )

    def report(self, name: str) -> str | None:
        """The HTML report of the last run that found a cause. Raises InferdocError for an unknown incident."""
        incident = self._record.incident(name)
        concluded = self._record.conclusive_run(incident.id)
        return self._record.page(concluded.number) if concluded is not None else None

    def runbook(self, cause: str) -> str:
        """A runbook page. Raises InferdocError with the nearest."""
        from markdown_it import MarkdownIt
        from markupsafe import Markup

        text = BESIDE.sub(r"](\1\2)", runbook_text(cause, self._overlays))
        body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
        return self._page("page.html", cause, "", body=Markup(body))

    def health(self) -> str:
        """How the service itself is."""
        return self._page("health.html", "Health", "/health", facts=self._facts())

    def _facts(self) -> list[tuple[str, str]]:
        found, ours = counts(self._record), self._dispatcher.counts
        facts = [
            ("open incidents", str(found["open"])),
            ("diagnosis runs pending", str(found.get("waiting", 0))),
            ("diagnosis runs in progress", str(found.get("running", 0))),
            ("diagnosis runs since start", f"{ours.runs['ok']} succeeded, {ours.runs['failed']} failed"),
            (
                "messages since start",
                ", ".join(f"{n} {what}" for what, n in sorted(ours.messages.items())) or "none",
            ),
            ("watchdog", "not received" if ours.watchdog is None else f"last received {_minute(ours.watchdog)}"),
        ]
        waiting = pending(self._record)
        for output in self._dispatcher.names:
            made = [f"{ours.posts[output, result]} {result}" for result in ("sent", "again", "failed")]
            facts.append((f"output {output}", ", ".join([f"{waiting.get(output, 0)} waiting", *made])))
        facts += [(f"task {name}", f"fails: {why}") for name, why in self._dispatcher.tasks.down.items()]
        if self._overview.trouble:
            facts.append(("fleet", self._overview.trouble))
        return facts


def _row(incident: Incident) -> dict[str, str]:
    story = incident.story
    state = "open" if incident.resolved is None else f"resolved {_minute(incident.resolved)}"
    severity = (story.severity or "info") if story is not None else "unknown"
    return {
        "id": incident.id,
        "opened": _minute(incident.opened),
        "title": (story.title or story.summary) if story is not None else "not diagnosed yet",
        "where": incident.place.words(),
        "alerts": ", ".join(alert_names(incident.alerts)),
        "state": state,
        "colour": severity if incident.resolved is None else "soft",
    }


def _alert(alert: ReceivedAlert) -> dict[str, str]:
    return {
        "name": alert.name,
        "starts": _minute(alert.starts),
        "ends": "" if alert.ends is None else _minute(alert.ends),
        "summary": alert.annotations.get("summary", ""),
        "url": alert.url if is_web(alert.url) else "",
    }


def _run_row(run: DiagnosisRun) -> dict[str, str]:
    words = {"waiting": f"due {_minute(run.due)}", "running": "in progress", "failed": run.failure or ""}
    concluded = run.story.summary if run.story is not None else ""
    return {"at": _minute(run.started or run.requested), "why": WHY[run.why], "words": words.get(run.state, concluded)}


def _minute(seconds: float) -> str:
    return rfc3339(seconds, "seconds").replace("T", " ").rstrip("Z")


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
