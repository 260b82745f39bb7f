"""`inferdoc doctor`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import options
from inferdoc.escaping import page


@click.command("doctor", short_help="What the source shows, what is missing, and how to switch it on.")
@options.source_options
@options.named_sources("40s")
@click.option("--until", default="latest", show_default=True, metavar="TIME", help="When: a time, now, or latest.")
@click.option("-v", "--verbose", is_flag=True, help="Also what would only add evidence.")
def command(**params: Any) -> int:
    """Check a source: reachable, fresh, which engines, roles and tiers, which signals are missing and why.

    A URL or PATH may be what `inferdoc diagnose` takes: what it is, is found out.

    Exit 1 where no engine can be judged.
    """
    from inferdoc.report.doctor import examine

    config = options.configuration()
    catalogue, place = options.catalogue(config), ", ".join(params["sources"])
    with options.opened(config, params) as source:
        lines, good = examine(source, config, catalogue, params["until"], place=place, verbose=params["verbose"])
    click.echo(page(lines))
    return 0 if good else 1
