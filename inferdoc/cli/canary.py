"""`inferdoc canary`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import options
from inferdoc.cli.answers import answer_from_source, print_answer

SHARE = click.FloatRange(min=0.0, max=1.0, min_open=True, max_open=True)


@click.command("canary", short_help="Compare a rollout candidate with the running pods.")
@click.option("--candidate", required=True, metavar="POOL|PODS", help="Pool name, or pods: llama-canary-*.")
@click.option(
    "--baseline", metavar="POOL|PODS", help="Pool or pods to compare with (default: other pods of the model)."
)
@options.source_options
@click.option("--since", default="1h", show_default=True, metavar="DURATION", help="How far back from --until.")
@options.window_end
@click.option("-l", "--label", "labels", multiple=True, metavar="LABEL=VALUE", help="Read only series with this label.")
@click.option(
    "--warmup", default="10m", show_default=True, metavar="DURATION", help="Start of the candidate that is ignored."
)
@click.option(
    "--objective",
    multiple=True,
    metavar="SIGNAL=LIMIT",
    help="ttft_p99=2s, tpot_request_p99=50ms, e2e_p99= (default: alerts/slo.yaml).",
)
@click.option(
    "--margin",
    "promise_margin",
    type=SHARE,
    metavar="SHARE",
    help="Allowed increase in requests over an objective (0.01).",
)
@click.option(
    "--usual-margin", type=SHARE, metavar="SHARE", help="Allowed increase in requests over the baseline p90 (0.05)."
)
@click.option(
    "--errors-margin", type=SHARE, metavar="SHARE", help="Allowed increase in failed or refused requests (0.005)."
)
@click.option(
    "--looks", type=click.IntRange(1, 3), default=1, show_default=True, help="Planned interim analyses of this rollout."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Formula, events and series of each difference.")
def command(**params: Any) -> int:
    """Compare pods of a new version with running pods over the same minutes: TTFT, inter-token latency, errors and
    goodput. A share is worse if the low end of its confidence interval is above the margin, and not worse if the high
    end is within it. Otherwise the result is the number of requests that are still needed.

    Exit codes: 0 pass, 1 fail, 2 usage, 3 not decided yet, 4 source not readable.
    """
    from inferdoc.canary.request import canary_for_request, exit_code
    from inferdoc.report.canary_text import canary_text

    answer, warnings = answer_from_source(params, canary_for_request)
    print_answer(answer, params, canary_text, warnings=warnings)
    return exit_code(answer)
