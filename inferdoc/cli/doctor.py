"""`inferdoc doctor`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import options
from inferdoc.escaping import page


@click.command("doctor", short_help="What the source shows, what is missing, and how to switch it on.")
@options.source_options
@click.option("--until", default="latest", show_default=True, metavar="TIME", help="When: a time, now, or latest.")
@click.option("-v", "--verbose", is_flag=True, help="Also what would only add evidence.")
def command(**asked: Any) -> int:
    """Check a source: reachable, fresh, which engines, roles and tiers, which signals are missing and why.

    Exit 1 where no engine can be judged.
    """
    from inferdoc.report.doctor import examine

    config = options.configuration()
    source, catalogue = options.source(config, asked), options.catalogue(config)
    lines, good = examine(source, config, catalogue, asked["until"], verbose=asked["verbose"])
    click.echo(page(lines))
    return 0 if good else 1
