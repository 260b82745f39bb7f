"""`inferdoc signals`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import options


@click.command("signals", short_help="The signals now, against the target bands of their tier.")
@options.source_options
@click.option("--until", default="latest", show_default=True, metavar="TIME", help="When: a time, now, or latest.")
@click.option("--health", is_flag=True, help="Only signals that have a target band, with the band.")
@click.option("--list", "listed", is_flag=True, help="The signals that exist, without reading a source.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(**asked: Any) -> int:
    """Show the newest value of every signal per pod. With --health, exit 1 where one is outside its band."""
    from inferdoc.report.signals import as_json, as_text, listing, readings

    config = options.configuration()
    catalogue = options.catalogue(config)
    if asked["listed"]:
        click.echo(listing(catalogue))
        return 0
    rows = readings(options.source(config, asked), config, catalogue, asked["until"], only_bands=asked["health"])
    click.echo(as_json(rows) if asked["output"] == "json" else as_text(rows))
    return 1 if asked["health"] and any(row.outside for row in rows) else 0
