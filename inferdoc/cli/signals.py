"""`inferdoc signals`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import options


@click.command("signals", short_help="Show the newest signals and their target range.")
@options.source_options
@options.named_sources("40s")
@click.option(
    "--until", default="latest", show_default=True, metavar="TIME", help="End of the window: a time, now, or latest."
)
@click.option("--pod", help="Pod to show.")
@click.option("--namespace", help="Namespace to show.")
@click.option("--signal", "signals", multiple=True, help="Signal to show. Repeatable.")
@click.option("--health", is_flag=True, help="Monitoring table with target ranges and SLOs.")
@click.option("--list", "listed", is_flag=True, help="List of all signals; no source is read.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(**params: Any) -> int:
    """Show the newest value of every signal per pod. With --health, the monitoring table: each row per tier and role
    against its target band, its objective and what was usual before, and how to switch on what is not visible. ! marks
    what affects users, with what it means and what to do; ~ what is outside its target and affects nobody. Exit 1 if
    anything affects users.

    URL or PATH is as for `inferdoc diagnose`.
    """
    from inferdoc.report.health import HURTING, table
    from inferdoc.report.health import as_json as health_json
    from inferdoc.report.health import as_text as health_text
    from inferdoc.report.signal_filter import Shown
    from inferdoc.report.signals import as_json, as_text, listing, readings

    config = options.configuration()
    catalogue = options.catalogue(config)
    if params["listed"]:
        click.echo(listing(catalogue))
        return 0
    as_document, shown = params["output"] == "json", Shown(params["pod"], params["namespace"], params["signals"])
    with options.opened(config, params) as source:
        if not params["health"]:
            rows = shown.rows(readings(source, config, catalogue, params["until"]), catalogue)
            click.echo(as_json(rows) if as_document else as_text(rows))
            return 0
        lines = shown.lines(table(source, config, catalogue, params["until"]), catalogue)
    click.echo(health_json(lines) if as_document else health_text(lines))
    return 1 if any(line.state in HURTING for line in lines) else 0
