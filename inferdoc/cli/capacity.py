"""Capacity and cost: `inferdoc size`, `cost`, `headroom`, `bench`, `kv`, `whatif`."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from inferdoc.cli import options
from inferdoc.cli.forecast import ZONE_HELP, calendar_options, model_options, per_pool
from inferdoc.cli.options import answer_from_source, print_answer
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
@click.option("--requests", type=COUNT, metavar="N", help="Total requests of that loop (default: 10 a stream).")
@click.option("--prefix-share", type=float, metavar="SHARE", help="Prefix cache hit rate of prompt tokens: 0.4.")
@click.option("--slo", metavar="NAME=..,..", help="Both objectives: ttft=2s,itl=50ms.")
@click.option("--ttft", metavar="DURATION", help="Objective for p95 TTFT (default 2s).")
@click.option("--itl", metavar="DURATION", help="Objective for mean ITL (default 50ms).")
@click.option(
    "--server",
    type=click.Choice(["vllm", "sglang", "trtllm"]),
    default="vllm",
    help="Server that runs the model.",
)
@click.option("--max-num-seqs", type=COUNT, metavar="N", help="vLLM flag (default: as vLLM).")
@click.option("--max-num-batched-tokens", type=COUNT, metavar="N", help="vLLM flag (default: as vLLM).")
@click.option("--scheduler-recv-interval", type=COUNT, metavar="N", help="SGLang flag (default 1).")
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
@click.option("--history", default="1d", metavar="DURATION", help="History to read from the pool in --like.")
@click.option("--price", metavar="TIER=N,..", help="Price of a GPU-hour, overrides [prices.tiers]: h100-80=2.95.")
@options.output("text", "json", "html")
@click.option("-v", "--verbose", is_flag=True, help="Formula, inputs and source of each number, and all assumptions.")
def size(**params: Any) -> int:
    """Estimate a model on a hardware tier: memory, KV tokens, concurrent requests, latency, requests per second within
    the objectives, replicas, and disaggregated prefill and decode. Every number has a range; assumptions are printed.

    With several tiers (--tier any, or --tier a,b) and a load, compare tiers, precisions and layouts, aggregated or P/D,
    sorted by cost, with the reason why others are rejected. -o html plots cost against latency.

    With --like, hardware efficiency is measured on the pool, and the prediction error on its own history is printed.

    Exit codes: 0 success, 2 usage, or a model that does not fit or meets no objective, 4 source not readable.
    """
    from inferdoc.cost.prices import priced
    from inferdoc.report.decision import decision_html, decision_text
    from inferdoc.report.estimates import size_text, steps_text
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


@click.command("cost", short_help="Report cost per token and request, and wasted GPU time.")
@options.source_options
@click.option("--since", metavar="DURATION", help="How far back from --until: 1h, 24h, 7d (default 24h).")
@options.FROM
@options.window_end
@options.part_of_fleet
@click.option(
    "--by",
    type=click.Choice(["pool", "model", "tier", "tenant", "hour", "day"]),
    default="pool",
    help="Row of the table.",
)
@click.option(
    "--cascade",
    type=float,
    metavar="SHARE",
    help="Share of requests routed to the cheapest model, for a cost estimate. Requires --by model.",
)
@options.output(
    "text", "json", "csv", "html", "prometheus", words="prometheus: for the textfile collector of a node exporter."
)
@click.option("-v", "--verbose", is_flag=True, help="Formulas and their series.")
def cost(**params: Any) -> int:
    """Split the GPU-hours of a window into useful work and waste, and compute the cost of a million tokens and of a
    request: money if [prices] has the tier, else GPU-hours. The parts add up to the whole. --since 7d adds the week by
    day and pool.

    Exit codes: 0 success, 2 usage, 3 part of the data was not read, 4 source not readable or without engines.
    """
    from inferdoc.cost.bill import billed
    from inferdoc.report.cost import cost_csv, cost_metrics, cost_text
    from inferdoc.report.cost_html import cost_html
    from inferdoc.source.base import incomplete

    answer, warnings = answer_from_source(params, billed)
    html = partial(cost_html, verbose=params["verbose"])
    print_answer(answer, params, cost_text, warnings=warnings, csv=cost_csv, html=html, prometheus=cost_metrics)
    return 3 if incomplete(warnings) else 0


REPLICAS = "Replicas that count. Default: those of the peak, or of now where they are more."


@click.command("headroom", short_help="Report the headroom of pools: now, after a loss, over time.")
@click.argument("pool", required=False)
@options.source_options
@click.option("--since", default="7d", metavar="DURATION", help="Time range whose peak counts.")
@options.window_end
@click.option("--history", default="28d", metavar="DURATION", help="History of the forecast.")
@click.option("--horizon", default="7d", metavar="DURATION", help="Forecast horizon.")
@click.option("--tz", "zone", metavar="ZONE", help=ZONE_HELP)
@click.option("--namespace", metavar="NAME", help="Only pools of this namespace.")
@per_pool("--replicas", "replicas", click.IntRange(1, 10_000), words=REPLICAS)
@model_options
@calendar_options
@options.output("text", "json", "html", "prometheus", words="Output format; prometheus is for the textfile collector.")
@options.NUMBERS
def headroom(**params: Any) -> int:
    """Compare the load of each pool with the capacity of its replicas at the SLO, measured in its history: headroom now
    and at the peak; whether the peak fits after the loss of a pod, the fullest node or the fullest zone; when the
    forecast load exceeds capacity, and the deadline for new replicas.

    Exit codes: 0 success, 2 usage, 3 not enough data, or part of it was not read, 4 source not readable.
    """
    from inferdoc.forecast.command import spoken_zone
    from inferdoc.headroom.request import headroom_for_request
    from inferdoc.report.headroom import headroom_html, headroom_metrics, headroom_text
    from inferdoc.source.base import incomplete

    params["zone"] = spoken_zone(params["zone"])
    answer, warnings = answer_from_source(params, headroom_for_request)
    print_answer(answer, params, headroom_text, warnings=warnings, html=headroom_html, prometheus=headroom_metrics)
    return 0 if answer.pools and not incomplete(warnings) else 3


@click.command("bench", short_help="Find curve, knee and usable rate in load test results.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--model", metavar="NAME", help="Model to read if the files contain several.")
@click.option(
    "--objective",
    multiple=True,
    metavar="SIGNAL=LIMIT",
    help="ttft_p99=2s, tpot_request_p95=50ms, itl_p99=, e2e_p99=, error_share=0.01 (default: alerts/slo.yaml).",
)
@click.option("--tier", metavar="NAME", help="Hardware tier of the benchmark, as named in tiers.yaml.")
@click.option("--against", metavar="POOL", help="Live pool to compare with at the same load.")
@click.option(
    "--replicas",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Replicas of the benchmark (default 1). Requires --against.",
)
@options.source_options
@click.option("--history", default="1d", metavar="DURATION", help="History to read from the pool in --against.")
@options.output("text", "json")
@click.option("-v", "--verbose", is_flag=True, help="Formula, inputs and source of each number, and the files.")
def bench(**params: Any) -> int:
    """Read results of GuideLLM (benchmarks.json), AIPerf (profile_export_aiperf.json) and `vllm bench serve
    --save-result`, one load level per run. Report the highest rate that meets the objectives, the knee, and what
    weakens the result.

    With --against, compare with a live pool: lengths, prefix cache hit rate, and latency at the same requests per
    second and replica.

    Exit codes: 0 success, 2 usage or unreadable file, 4 source not readable.
    """
    from inferdoc.bench.compare import production_for_request
    from inferdoc.bench.request import benched_for_request
    from inferdoc.report.estimates import bench_text

    config = options.configuration()
    catalogue, live = options.catalogue(config), None
    if params["against"] is not None:
        source = options.source(config, params)
        with options.working(f"reading {source.location}"):
            live = production_for_request(source, config, catalogue, params)
    elif params["store"] or params["prometheus"] or params["replicas"]:
        raise click.UsageError("--store, --prometheus and --replicas require --against POOL")
    answer = benched_for_request(params, catalogue, live)
    print_answer(answer, params, bench_text)
    return 0


@click.command("kv", short_help="Estimate the savings of prefix caching by cache size.")
@click.argument("pool", required=False)
@options.source_options
@click.option("--history", default="1d", metavar="DURATION", help="History to read.")
@click.option("--host-gib", type=float, metavar="GIB", help="Host memory for the KV of one replica.")
@click.option("--nvme-gib", type=float, metavar="GIB", help="NVMe for the KV of one replica.")
@click.option("--nvme-gbps", type=float, metavar="N", help="Read bandwidth of NVMe per replica in GB/s (default 7).")
@click.option("--gpus", type=click.IntRange(1, 1024), metavar="N", help="GPUs of a pod (default: from its exporter).")
@options.SERVED_MODEL
@click.option(
    "--kv-dtype",
    type=click.Choice(["bf16", "fp16", "fp8", "int8", "nvfp4"]),
    help="Data type of the KV cache (default: from the engine; auto counts as 16 bits).",
)
@click.option("--tenant-label", metavar="NAME", help="Label of the engine metrics that identifies tenants.")
@options.output("text", "json", "html")
@options.NUMBERS
def kv(**params: Any) -> int:
    """Report the prefix cache hit rate of a live pool and predict it for other caches: half, twice and ten times the
    size, FP8, host memory or NVMe; the GPUs that the cache saves; reload compared with recompute. POOL is optional if
    there is one.

    Smaller caches are predicted from reuse gaps of blocks (vLLM --kv-cache-metrics). Larger caches are predicted from
    other hours of the pods, else extrapolated, with a range from no gain to twice the expected gain.

    Exit codes: 0 success, 2 usage, or a pool without prefix caching, 3 not enough data, 4 source not readable.
    """
    from inferdoc.kv.answer import kv_for_request
    from inferdoc.report.kv import kv_html, kv_text

    answer, warnings = answer_from_source(params, kv_for_request)
    print_answer(answer, params, kv_text, warnings=warnings, html=kv_html)
    return 0 if answer.other_sizes else 3


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
@click.option("--history", default="1h", metavar="DURATION", help="History to read.")
@options.GOOD_REQUEST
@options.SERVED_MODEL
@options.output("text", "json")
@options.NUMBERS
def whatif(**params: Any) -> int:
    """Simulate a live pool as it is and after a change: latency, goodput, preemptions, GPUs and cost, with prediction
    intervals.

    Step times, lengths, arrivals and shared prefixes are fitted to engine metrics. The first half of the history
    predicts the second half; the errors are printed and widen the intervals. Values outside the measured range are
    named, and their intervals are guesses.

    Exit codes: 0 success, 2 usage, or a pool that cannot be calibrated, 4 source not readable.
    """
    from inferdoc.report.estimates import whatif_text
    from inferdoc.whatif.answer import whatif_for_request

    answer, warnings = answer_from_source(params, whatif_for_request)
    print_answer(answer, params, whatif_text, warnings=warnings)
    return 0
