"""`inferdoc headroom`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import options
from inferdoc.cli.answers import answer_from_source, print_answer
from inferdoc.cli.forecast import ZONE_HELP, calendar_options, model_options
from inferdoc.cli.per_pool import per_pool

REPLICAS = "Replicas that count. Default: those of the peak, or of now where they are more."


@click.command("headroom", short_help="Report the headroom of pools: now, after a loss, over time.")
@click.argument("pool", required=False)
@options.source_options
@click.option("--since", default="7d", show_default=True, metavar="DURATION", help="Time range whose peak counts.")
@options.window_end
@click.option("--history", default="28d", show_default=True, metavar="DURATION", help="History of the forecast.")
@click.option("--horizon", default="7d", show_default=True, metavar="DURATION", help="Forecast horizon.")
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
    help="Output format; prometheus is for the textfile collector.",
)
@click.option("-v", "--verbose", is_flag=True, help="Formula, inputs and source of each number.")
def command(**params: Any) -> int:
    """Compare the load of each pool with the capacity of its replicas at the SLO, measured in its history: headroom now
    and at the peak; whether the peak fits after the loss of a pod, the fullest node or the fullest zone; when the
    forecast load exceeds capacity, and the deadline for new replicas.

    Exit codes: 0 success, 2 usage, 3 not enough data, or part of it was not read, 4 source not readable.
    """
    from inferdoc.forecast.command import spoken_zone
    from inferdoc.headroom.request import headroom_for_request
    from inferdoc.report.headroom_html import headroom_html
    from inferdoc.report.headroom_text import headroom_metrics, headroom_text
    from inferdoc.source.base import incomplete

    params["zone"] = spoken_zone(params["zone"])
    answer, warnings = answer_from_source(params, headroom_for_request)
    print_answer(answer, params, headroom_text, warnings=warnings, html=headroom_html, prometheus=headroom_metrics)
    return 0 if answer.pools and not incomplete(warnings) else 3
