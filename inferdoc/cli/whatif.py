"""`inferdoc whatif`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import messages, options
from inferdoc.cli.streams import show


@click.command("whatif", short_help="What a change would bring: the simulator, calibrated on a live pool.")
@options.source_options
@click.option("--pool", metavar="POOL", help="May be left out where there is one.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="What changes, any number of times: replicas, tier, max-num-seqs, batch-tokens, chunk-tokens, kv-tokens, "
    "kv-dtype, router, draft-tokens, accepted; factors on traffic, prompts and answers. Where prefill and decode are "
    "apart, of one side: prefill.replicas, decode.tier and so on.",
)
@click.option(
    "--now",
    "as_now",
    multiple=True,
    metavar="KEY=VALUE",
    help="What no metric tells of the pool as it is: max-num-seqs, batch-tokens, chunk-tokens, router, accepted, "
    "kv-tokens.",
)
@click.option("--history", default="1h", show_default=True, metavar="DURATION", help="How far to read back.")
@click.option("--ttft", metavar="DURATION", help="First tokens within it are good (default: the objective in force).")
@click.option("--tpot", metavar="DURATION", help="Requests at most so slow per token are good (default likewise).")
@click.option("--model", metavar="FILE|NAME", help="A config.json, its folder, or a known model (default: as served).")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Also formula, inputs and source of each number.")
def command(**params: Any) -> int:
    """Play a live pool in the simulator, as it is and after a change: latency, goodput, preemptions, GPUs and money
    with their bands.

    Step times, lengths, arrivals and shared prefixes are fitted to what the engines counted. The first half of the
    history is played over the second, and the errors are printed and widen the bands. What lies outside of what was
    measured is named, and the bands there are guesses.

    Exit codes: 0 told, 2 usage, or a pool that cannot be calibrated, 4 the source could not be read.
    """
    from inferdoc.report import render_whatif
    from inferdoc.whatif.answer import whatif_as_asked

    config = options.configuration()
    source, catalogue = options.source(config, params), options.catalogue(config)
    with options.working(f"playing what {source.location} shows"):
        answer = whatif_as_asked(source, config, catalogue, params)
    colour = options.coloured() and params["output"] == "text"
    show(render_whatif(answer, params["output"], verbose=params["verbose"], colour=colour), coloured=colour)
    messages.warn(source.warnings)
    return 0
