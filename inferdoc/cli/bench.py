"""`inferdoc bench`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import options
from inferdoc.cli.answers import print_answer


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
@click.option(
    "--history", default="1d", show_default=True, metavar="DURATION", help="History to read from the pool in --against."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Formula, inputs and source of each number, and the files.")
def command(**params: Any) -> int:
    """Read results of GuideLLM (benchmarks.json), AIPerf (profile_export_aiperf.json) and `vllm bench serve
    --save-result`, one load level per run. Report the highest rate that meets the objectives, the knee, and what
    weakens the result.

    With --against, compare with a live pool: lengths, prefix cache hit rate, and latency at the same requests per
    second and replica.

    Exit codes: 0 success, 2 usage or unreadable file, 4 source not readable.
    """
    from inferdoc.bench.compare import production_for_request
    from inferdoc.bench.request import benched_for_request
    from inferdoc.report.bench_text import bench_text

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
