"""`inferdoc runbook`."""

from __future__ import annotations

import click

from inferdoc.cli import options
from inferdoc.cli.completion import PAGES
from inferdoc.cli.streams import show
from inferdoc.escaping import page as lines


@click.command("runbook", short_help="Show the runbook of a cause.")
@click.argument("cause", metavar="[ID]", required=False, shell_complete=PAGES)
def command(cause: str | None) -> None:
    """Show the runbook page of a cause; without an ID, list the pages."""
    from inferdoc.report.runbook import page, pages, pretty

    overlays = options.overlays(options.configuration())
    if cause is None:
        click.echo(lines(f"{name:<28} {title}" for name, title in pages(overlays)))
        return
    text = page(cause, overlays)
    coloured = options.coloured()
    show(pretty(text) if coloured else text, coloured=coloured)
