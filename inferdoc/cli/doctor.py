"""`inferdoc doctor`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import options
from inferdoc.escaping import page


@click.command("doctor", short_help="Check the metrics of a source and list what is missing.")
@options.source_options
@options.named_sources("40s")
@click.option(
    "--until", default="latest", show_default=True, metavar="TIME", help="End of the window: a time, now, or latest."
)
@click.option("-v", "--verbose", is_flag=True, help="Metrics that would only add evidence.")
def command(**params: Any) -> int:
    """Check a source: reachable, fresh, which engines, roles and tiers, which signals are missing and why.

    URL or PATH is as for `inferdoc diagnose`.

    Exit code 1 if no engine can be diagnosed.
    """
    from inferdoc.report.doctor import examine

    config = options.configuration()
    catalogue, place = options.catalogue(config), ", ".join(params["sources"])
    with options.opened(config, params) as source:
        lines, good = examine(source, config, catalogue, params["until"], place=place, verbose=params["verbose"])
    click.echo(page(lines))
    return 0 if good else 1
