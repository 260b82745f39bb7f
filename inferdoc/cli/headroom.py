"""`inferdoc headroom`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import messages, options
from inferdoc.cli.forecast import ZONE_HELP, calendar_options, model_options
from inferdoc.cli.per_pool import per_pool
from inferdoc.cli.streams import show

REPLICAS = "Replicas that count. Default: those of the peak, or of now where they are more."


@click.command("headroom", short_help="How much room a pool has at its SLO: now, after a loss, until when.")
@click.argument("pool", required=False)
@options.source_options
@click.option("--since", default="7d", show_default=True, metavar="DURATION", help="The stretch whose peak counts.")
@options.window_end
@click.option("--history", default="28d", show_default=True, metavar="DURATION", help="What the forecast learns from.")
@click.option("--horizon", default="7d", show_default=True, metavar="DURATION", help="How far ahead the clock looks.")
@click.option("--tz", "zone", metavar="ZONE", help=ZONE_HELP)
@click.option("--namespace", metavar="NAME", help="Only pools of this namespace.")
@per_pool("--replicas", "replicas", click.IntRange(1, 10_000), words=REPLICAS)
@model_options
@calendar_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "html", "prometheus"]),
    default="text",
    show_default=True,
    help="prometheus: for the textfile collector of a node exporter.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also formula, inputs and source of each number.")
def command(**params: Any) -> int:
    """Hold the load of each pool against what its replicas carry at the SLO, as its own history shows it: room now and
    at the peak; whether the peak still fits after a pod, the fullest node or the fullest zone is lost; when the
    forecast load passes it, and by when how many replicas must be asked for.

    Exit codes: 0 told, 2 usage, 3 nothing can be told of any pool, or part of the data was not read, 4 the source could
    not be read.
    """
    from inferdoc.forecast.command import spoken_zone
    from inferdoc.headroom.request import headroom_as_asked
    from inferdoc.report import render_headroom
    from inferdoc.source.base import incomplete

    config = options.configuration()
    source, catalogue = options.source(config, params), options.catalogue(config)
    params["zone"] = spoken_zone(params["zone"])
    with options.working(f"reading {source.location}"):
        answer = headroom_as_asked(source, config, catalogue, params)
    colour = options.coloured() and params["output"] == "text"
    show(render_headroom(answer, params["output"], verbose=params["verbose"], colour=colour), coloured=colour)
    messages.warn(source.warnings)
    return 0 if answer.pools and not incomplete(source.warnings) else 3
