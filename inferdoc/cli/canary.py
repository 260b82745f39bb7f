"""`inferdoc canary`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import messages, options
from inferdoc.cli.streams import show

SHARE = click.FloatRange(min=0.0, max=1.0, min_open=True, max_open=True)


@click.command("canary", short_help="A rollout gate: does the candidate serve worse than what runs?")
@click.option("--candidate", required=True, metavar="POOL|PODS", help="A pool by its name, or pods: llama-canary-*.")
@click.option("--baseline", metavar="POOL|PODS", help="What it is held against (default: the other pods of its model).")
@options.source_options
@click.option("--since", default="1h", show_default=True, metavar="DURATION", help="How far back from --until.")
@options.window_end
@click.option("-l", "--label", "labels", multiple=True, metavar="LABEL=VALUE", help="Read only series with this label.")
@click.option("--warmup", default="10m", show_default=True, metavar="DURATION", help="Of the candidate, left out.")
@click.option(
    "--objective",
    multiple=True,
    metavar="SIGNAL=LIMIT",
    help="ttft_p99=2s, tpot_request_p99=50ms, e2e_p99= (default: alerts/slo.yaml).",
)
@click.option("--margin", "promise_margin", type=SHARE, metavar="SHARE", help="Requests beyond an objective (0.01).")
@click.option("--usual-margin", type=SHARE, metavar="SHARE", help="Requests slower than nine in ten now (0.05).")
@click.option("--errors-margin", type=SHARE, metavar="SHARE", help="Failed or refused requests (0.005).")
@click.option(
    "--looks", type=click.IntRange(1, 3), default=1, show_default=True, help="How often this rollout is asked about."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Also formula, events and series of each difference.")
def command(**params: Any) -> int:
    """Hold pods of a new version against those that run, over the same minutes: time to first token, between tokens,
    errors and goodput. A share counts as worse when the low end of its interval is beyond the margin, as no worse when
    the high end is within; in between the answer is how many more requests it takes.

    Exit codes: 0 pass, 1 fail, 2 usage, 3 not known yet, 4 the source could not be read.
    """
    from inferdoc.canary.request import canary_as_asked, exit_code
    from inferdoc.report import render_canary

    config = options.configuration()
    source, catalogue = options.source(config, params), options.catalogue(config)
    with options.working(f"reading {source.location}"):
        answer = canary_as_asked(source, config, catalogue, params)
    colour = options.coloured() and params["output"] == "text"
    show(render_canary(answer, params["output"], verbose=params["verbose"], colour=colour), coloured=colour)
    messages.warn(source.warnings)
    return exit_code(answer)
