"""`inferdoc history`."""

from __future__ import annotations

import click

from inferdoc.cli import options
from inferdoc.cli.streams import show


@click.command("history", short_help="List the incidents of `inferdoc serve`.")
@click.argument("incident", required=False)
@options.RECORD
@click.option("--open", "only_open", is_flag=True, help="Only open incidents.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    metavar="N",
    help="Number of incidents, the newest first.",
)
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "markdown", "html"]), default="text", show_default=True
)
def command(incident: str | None, record: str | None, only_open: bool, limit: int, output: str) -> None:
    """List the incidents, or show one: its alerts, its diagnosis runs, and the last incident with the same cause.
    INCIDENT is an id or the start of one; -o json, markdown or html prints its diagnosis."""
    from inferdoc.incidents.capsule import find_conclusive_run
    from inferdoc.report import render, render_incidents
    from inferdoc.report.incidents_text import incident_text

    opened = options.record(record)
    try:
        if incident is None:
            form = "json" if output == "json" else "text"
            show(render_incidents(opened.incidents(only_open=only_open, limit=limit), form))
            return
        one = opened.incident(incident)
        if output != "text":
            show(render(opened.diagnosis(find_conclusive_run(opened, one.id)), output))
            return
        show(incident_text(one, opened.runs(one.id), opened.like(one)))
    finally:
        opened.close()
