"""`inferdoc runbook`."""

from __future__ import annotations

import sys

import click

from inferdoc.cli import options


@click.command("runbook", short_help="The page of a cause, in the terminal.")
@click.argument("cause", metavar="[ID]", required=False)
def command(cause: str | None) -> None:
    """Show the runbook page of a cause; without an ID, list the pages."""
    from inferdoc.report.runbook import page, pages, pretty

    overlays = options.overlays(options.configuration())
    if cause is None:
        for name, title in pages(overlays):
            click.echo(f"{name:<28} {title}")
        return
    text = page(cause, overlays)
    coloured = click.get_current_context().color is not False and sys.stdout.isatty()
    click.echo(pretty(text) if coloured else text)
