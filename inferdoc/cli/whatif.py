"""`inferdoc whatif`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import options
from inferdoc.cli.answers import answer_from_source, print_answer


@click.command("whatif", short_help="Predict a change with a simulator calibrated on a pool.")
@options.source_options
@click.option("--pool", metavar="POOL", help="Pool name; optional if there is one pool.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change, repeatable: replicas, tier, max-num-seqs, batch-tokens, chunk-tokens, kv-tokens, "
    "kv-dtype, router, draft-tokens, accepted; factors on traffic, prompts and answers. Where prefill and decode are "
    "apart, of one side: prefill.replicas, decode.tier and so on.",
)
@click.option(
    "--now",
    "as_now",
    multiple=True,
    metavar="KEY=VALUE",
    help="Current setting that no metric shows: max-num-seqs, batch-tokens, chunk-tokens, router, accepted, kv-tokens.",
)
@click.option("--history", default="1h", show_default=True, metavar="DURATION", help="History to read.")
@click.option("--ttft", metavar="DURATION", help="TTFT limit of a good request (default: the SLO).")
@click.option("--tpot", metavar="DURATION", help="TPOT limit of a good request (default: the SLO).")
@click.option(
    "--model", metavar="FILE|NAME", help="Model: a config.json, its folder, or a known name (default: as served)."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Formula, inputs and source of each number.")
def command(**params: Any) -> int:
    """Simulate a live pool as it is and after a change: latency, goodput, preemptions, GPUs and cost, with prediction
    intervals.

    Step times, lengths, arrivals and shared prefixes are fitted to engine metrics. The first half of the history
    predicts the second half; the errors are printed and widen the intervals. Values outside the measured range are
    named, and their intervals are guesses.

    Exit codes: 0 success, 2 usage, or a pool that cannot be calibrated, 4 source not readable.
    """
    from inferdoc.report.whatif_text import whatif_text
    from inferdoc.whatif.answer import whatif_for_request

    answer, warnings = answer_from_source(params, whatif_for_request)
    print_answer(answer, params, whatif_text, warnings=warnings)
    return 0
