"""`inferdoc size`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import options
from inferdoc.cli.streams import show

COUNT = click.IntRange(min=1, max=10_000_000)


@click.command("size", short_help="What a model needs on a tier, and what it can carry.")
@click.option("--model", metavar="FILE|NAME", help="A config.json, its folder, or a known model.")
@click.option("--tier", metavar="NAME", help="The hardware, by its name in tiers.yaml; several or any: compared.")
@click.option(
    "--dtype",
    type=click.Choice(["bf16", "fp16", "fp8", "int8", "int4", "mxfp4", "nvfp4"]),
    help="Of the weights (default: as its config says).",
)
@click.option(
    "--kv-dtype",
    type=click.Choice(["bf16", "fp16", "fp8", "int8", "nvfp4"]),
    help="Of the KV cache, which FP8 weights do not change (default: that of vLLM).",
)
@click.option("--tp", type=COUNT, metavar="N", help="Tensor parallelism (default: what takes the fewest GPUs).")
@click.option("--pp", type=COUNT, metavar="N", help="Pipeline parallelism (default: 1 where that fits).")
@click.option("--dp", type=COUNT, metavar="N", help="Data-parallel ranks of a replica (default 1).")
@click.option("--prompt-tokens", metavar="MEAN[,P95]", help="Length of prompts: 1500 or 1500,4000.")
@click.option("--output-tokens", metavar="MEAN[,P95]", help="Length of answers: 300 or 300,900.")
@click.option(
    "--class",
    "classes",
    multiple=True,
    metavar="NAME KEY=VALUE ..",
    help='Instead of both, for each kind of requests: "chat share=0.7 prompt=1500,4000 output=300 ttft=1s".',
)
@click.option("--rate", type=float, metavar="N", help="Requests per second of the fleet at its peak.")
@click.option("--concurrency", type=COUNT, metavar="N", help="Requests at once, each followed by the next.")
@click.option("--prefix-share", type=float, metavar="SHARE", help="Of prompt tokens, served by the prefix cache: 0.4.")
@click.option("--slo", metavar="NAME=..,..", help="Both objectives in one: ttft=2s,itl=50ms.")
@click.option("--ttft", metavar="DURATION", help="Objective for the p95 of the time to first token (default 2s).")
@click.option("--itl", metavar="DURATION", help="Objective for the mean time between tokens (default 50ms).")
@click.option("--max-num-seqs", type=COUNT, metavar="N", help="As given to vLLM (default: its own).")
@click.option("--max-num-batched-tokens", type=COUNT, metavar="N", help="As given to vLLM (default: its own).")
@click.option("--gpu-memory-utilization", type=float, metavar="SHARE", help="As given to vLLM (default 0.92).")
@click.option("--max-loras", type=COUNT, metavar="N", help="As given to vLLM (default: no adapters).")
@click.option("--max-lora-rank", type=COUNT, metavar="N", help="As given to vLLM (default 16).")
@click.option("--accepted", metavar="A1,A2,..", help="Share of drafts accepted up to each position: 0.8,0.6,0.42.")
@click.option("--draft-cost", type=float, metavar="SHARE", help="Time of a drafted token over a step (default 0.05).")
@click.option("--safety", type=float, metavar="FACTOR", help="Replicas for so many times the rate (default 1.5).")
@click.option("--like", metavar="POOL", help="A live pool: lengths, rate, hits and shares are as it shows them.")
@options.source_options
@click.option("--history", default="1d", show_default=True, metavar="DURATION", help="Of --like: how far to read back.")
@click.option("--price", metavar="TIER=N,..", help="Money of a GPU-hour, before [prices.tiers]: h100-80=2.95.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "html"]), default="text", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Also formula, inputs and source of each number, and all assumed.")
def command(**params: Any) -> int:
    """Work out what a model takes on a tier: memory by part, KV tokens, requests at once, latency, requests per second
    within the objectives, replicas, and prefill and decode apart. Every number has a range; what nobody gave is said.

    With several tiers (--tier any, or --tier a,b) and a load it is one decision: tiers, precisions and layouts,
    aggregated or P/D, sorted by cost, and why the others are not taken. -o html draws cost against latency.

    With --like the shares that the hardware reaches are measured on the pool, and the prediction is tried on its own
    history: the error is in the answer.

    Exit codes: 0 sized, 2 usage, or a model that does not fit or keeps no objective, 4 the source could not be read.
    """
    from inferdoc.cost.prices import priced
    from inferdoc.report import render_decision, render_size
    from inferdoc.sizing.decision import decided, several
    from inferdoc.sizing.live import live_as_asked
    from inferdoc.sizing.request import sized_as_asked, with_slo

    config = options.configuration()
    catalogue, like = options.catalogue(config), None
    if params["like"] is not None:
        source = options.source(config, params)
        with options.working(f"reading {source.location}"):
            like = live_as_asked(source, config, catalogue, params)
    elif params["store"] or params["prometheus"]:
        raise click.UsageError("--store and --prometheus belong to --like POOL")
    params = with_slo(params)
    prices = priced(config.prices, params["price"], catalogue.tiers.tiers)
    colour = options.coloured() and params["output"] == "text"
    if several(params["tier"]):
        if like is not None:
            raise click.UsageError("--like and several tiers are mutually exclusive")
        decision = decided(params, catalogue, prices)
        show(render_decision(decision, params["output"], verbose=params["verbose"], colour=colour), coloured=colour)
        return 0
    if params["output"] == "html":
        raise click.UsageError("-o html compares tiers: give --tier any or --tier a,b")
    answer = sized_as_asked(params, catalogue, like, prices)
    show(render_size(answer, params["output"], verbose=params["verbose"], colour=colour), coloured=colour)
    return 0
