"""`inferdoc size`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import options
from inferdoc.cli.answers import print_answer
from inferdoc.cli.streams import show

COUNT = click.IntRange(min=1, max=10_000_000)


@click.command("size", short_help="Size a model on a hardware tier.")
@click.option("--model", metavar="FILE|NAME", help="Model: a config.json, its folder, or a known name.")
@click.option("--tier", metavar="NAME", help="Hardware tier in tiers.yaml; several, or any, are compared.")
@click.option(
    "--dtype",
    type=click.Choice(["bf16", "fp16", "fp8", "int8", "int4", "mxfp4", "nvfp4"]),
    help="Data type of the weights (default: from config.json).",
)
@click.option(
    "--kv-dtype",
    type=click.Choice(["bf16", "fp16", "fp8", "int8", "nvfp4"]),
    help="Data type of the KV cache (default: as vLLM).",
)
@click.option("--tp", type=COUNT, metavar="N", help="Tensor parallelism (default: fewest GPUs).")
@click.option("--pp", type=COUNT, metavar="N", help="Pipeline parallelism (default: 1 if it fits).")
@click.option("--dp", type=COUNT, metavar="N", help="Data-parallel ranks of a replica (default 1).")
@click.option("--prompt-tokens", metavar="MEAN[,P95]", help="Length of prompts: 1500 or 1500,4000.")
@click.option("--output-tokens", metavar="MEAN[,P95]", help="Length of outputs: 300 or 300,900.")
@click.option(
    "--class",
    "classes",
    multiple=True,
    metavar="NAME KEY=VALUE ..",
    help='Lengths and share of one kind of request: "chat share=0.7 prompt=1500,4000 output=300 ttft=1s".',
)
@click.option("--rate", type=float, metavar="N", help="Peak requests per second of the fleet.")
@click.option("--concurrency", type=COUNT, metavar="N", help="Concurrent requests (closed loop).")
@click.option("--prefix-share", type=float, metavar="SHARE", help="Prefix cache hit rate of prompt tokens: 0.4.")
@click.option("--slo", metavar="NAME=..,..", help="Both objectives: ttft=2s,itl=50ms.")
@click.option("--ttft", metavar="DURATION", help="Objective for p95 TTFT (default 2s).")
@click.option("--itl", metavar="DURATION", help="Objective for mean ITL (default 50ms).")
@click.option(
    "--server",
    type=click.Choice(["vllm", "sglang", "trtllm"]),
    default="vllm",
    show_default=True,
    help="Server that runs the model.",
)
@click.option("--max-num-seqs", type=COUNT, metavar="N", help="vLLM flag (default: as vLLM).")
@click.option("--max-num-batched-tokens", type=COUNT, metavar="N", help="vLLM flag (default: as vLLM).")
@click.option("--gpu-memory-utilization", type=float, metavar="SHARE", help="vLLM flag (default 0.92).")
@click.option("--max-loras", type=COUNT, metavar="N", help="vLLM flag (default: no LoRA).")
@click.option("--max-lora-rank", type=COUNT, metavar="N", help="vLLM flag (default 16).")
@click.option("--accepted", metavar="A1,A2,..", help="Draft acceptance rate by position: 0.8,0.6,0.42.")
@click.option(
    "--draft-cost", type=float, metavar="SHARE", help="Time of a draft token as a share of a step (default 0.05)."
)
@click.option(
    "--batch", metavar="KEY=VALUE ..", help='Off-peak job: "requests=200000 prompt=3000 output=300 window=8h load=0.2".'
)
@click.option("--escalate-to", metavar="FILE|NAME", help="Large model of a cascade; --model answers first.")
@click.option("--escalated", type=float, metavar="SHARE", help="Share of requests that --escalate-to answers: 0.2.")
@click.option("--steps", is_flag=True, help="The 13 steps of the sizing guide, filled in.")
@click.option("--safety", type=float, metavar="FACTOR", help="Factor on the rate (default 1.5).")
@click.option("--like", metavar="POOL", help="Live pool from which lengths, rate and hit rate are read.")
@options.source_options
@click.option(
    "--history", default="1d", show_default=True, metavar="DURATION", help="History to read from the pool in --like."
)
@click.option("--price", metavar="TIER=N,..", help="Price of a GPU-hour, overrides [prices.tiers]: h100-80=2.95.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "html"]), default="text", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Formula, inputs and source of each number, and all assumptions.")
def command(**params: Any) -> int:
    """Estimate a model on a hardware tier: memory, KV tokens, concurrent requests, latency, requests per second within
    the objectives, replicas, and disaggregated prefill and decode. Every number has a range; assumptions are printed.

    With several tiers (--tier any, or --tier a,b) and a load, compare tiers, precisions and layouts, aggregated or P/D,
    sorted by cost, with the reason why others are rejected. -o html plots cost against latency.

    With --like, hardware efficiency is measured on the pool, and the prediction error on its own history is printed.

    Exit codes: 0 success, 2 usage, or a model that does not fit or meets no objective, 4 source not readable.
    """
    from inferdoc.cost.prices import priced
    from inferdoc.report.decision import decision_html, decision_text
    from inferdoc.report.size_text import size_text, steps_text
    from inferdoc.sizing.cascade import cascaded
    from inferdoc.sizing.decision import compared, decided
    from inferdoc.sizing.live import live_for_request
    from inferdoc.sizing.request import sized_for_request, steps_for_request, with_slo

    config = options.configuration()
    catalogue, like = options.catalogue(config), None
    if params["like"] is not None:
        source = options.source(config, params)
        with options.working(f"reading {source.location}"):
            like = live_for_request(source, config, catalogue, params)
    elif params["store"] or params["prometheus"]:
        raise click.UsageError("--store and --prometheus require --like POOL")
    params = with_slo(params)
    prices = priced(config.prices, params["price"], catalogue.tiers.tiers)
    if (params["escalate_to"] is None) != (params["escalated"] is None):
        raise click.UsageError("--escalate-to and --escalated are needed together")
    if compared(params):
        if like is not None and compared({**params, "batch": None}):
            raise click.UsageError("--like is mutually exclusive with several tiers and --escalate-to")
        if params["batch"] is not None and params["rate"] is None and like is None:
            raise click.UsageError("--batch needs --rate: the job runs beside the load of the peak")
        if params["steps"]:
            raise click.UsageError("--steps needs one tier, without --escalate-to and --batch")
        alone = params["escalate_to"] is None
        decision = decided(params, catalogue, prices, like) if alone else cascaded(params, catalogue, prices)
        print_answer(decision, params, decision_text, html=decision_html)
        return 0
    if params["steps"]:
        if params["output"] != "text":
            raise click.UsageError("--steps is mutually exclusive with -o json and -o html")
        show(steps_text(*steps_for_request(params, catalogue, like, prices)))
        return 0
    if params["output"] == "html":
        raise click.UsageError("-o html requires --tier any or --tier a,b")
    answer = sized_for_request(params, catalogue, like, prices)
    print_answer(answer, params, size_text)
    return 0
