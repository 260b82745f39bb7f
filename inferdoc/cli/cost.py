"""`inferdoc cost`."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from inferdoc.cli import options
from inferdoc.cli.answers import answer_from_source, print_answer


@click.command("cost", short_help="Report cost per token and request, and wasted GPU time.")
@options.source_options
@click.option("--since", metavar="DURATION", help="How far back from --until: 1h, 24h, 7d (default 24h).")
@click.option("--from", "begin", metavar="TIME", help="Start of the window: RFC 3339 or Unix seconds.")
@options.window_end
@options.part_of_fleet
@click.option(
    "--by",
    type=click.Choice(["pool", "model", "tier", "tenant", "hour", "day"]),
    default="pool",
    show_default=True,
    help="Row of the table.",
)
@click.option(
    "--cascade",
    type=float,
    metavar="SHARE",
    help="Share of requests routed to the cheapest model, for a cost estimate. Requires --by model.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "csv", "html", "prometheus"]),
    default="text",
    show_default=True,
    help="prometheus: for the textfile collector of a node exporter.",
)
@click.option("-v", "--verbose", is_flag=True, help="Formulas and their series.")
def command(**params: Any) -> int:
    """Split the GPU-hours of a window into useful work and waste, and compute the cost of a million tokens and of a
    request: money if [prices] has the tier, else GPU-hours. The parts add up to the whole. --since 7d adds the week by
    day and pool.

    Exit codes: 0 success, 2 usage, 3 part of the data was not read, 4 source not readable or without engines.
    """
    from inferdoc.cost.bill import billed
    from inferdoc.report.cost_export import cost_csv, cost_metrics
    from inferdoc.report.cost_html import cost_html
    from inferdoc.report.cost_text import cost_text
    from inferdoc.source.base import incomplete

    answer, warnings = answer_from_source(params, billed)
    html = partial(cost_html, verbose=params["verbose"])
    print_answer(answer, params, cost_text, warnings=warnings, csv=cost_csv, html=html, prometheus=cost_metrics)
    return 3 if incomplete(warnings) else 0
