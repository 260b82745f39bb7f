"""`inferdoc bench`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import options
from inferdoc.cli.streams import show


@click.command("bench", short_help="What result files of load generators prove: curve, knee, usable rate.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--model", metavar="NAME", help="Of files of several models, this one.")
@click.option(
    "--objective",
    multiple=True,
    metavar="SIGNAL=LIMIT",
    help="ttft_p99=2s, tpot_request_p95=50ms, itl_p99=, e2e_p99=, error_share=0.01 (default: alerts/slo.yaml).",
)
@click.option("--tier", metavar="NAME", help="The hardware of the benchmark, by its name in tiers.yaml.")
@click.option("--against", metavar="POOL", help="A live pool: side by side at one load, and why they differ.")
@click.option(
    "--replicas", type=click.IntRange(1, 100_000), metavar="N", help="Of --against: behind the benchmark (default 1)."
)
@options.source_options
@click.option("--history", default="1d", show_default=True, metavar="DURATION", help="Of --against: how far back.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Also formula, inputs and source of each number, and the files.")
def command(**params: Any) -> int:
    """Read results of GuideLLM (benchmarks.json), AIPerf (profile_export_aiperf.json) and `vllm bench serve
    --save-result`, one level of load each, and say which rate they prove to keep the objectives, where the knee is, and
    what weakens the numbers.

    With --against a pool of --store or --prometheus stands beside them: lengths, prefix hits, latencies at the same
    requests per second of a replica, and what of the difference they explain.

    Exit codes: 0 read, 2 usage, or a file that cannot be read, 4 the source could not be read.
    """
    from inferdoc.bench.production import production_as_asked
    from inferdoc.bench.request import benched_as_asked
    from inferdoc.report import render_bench

    config = options.configuration()
    catalogue, live = options.catalogue(config), None
    if params["against"] is not None:
        source = options.source(config, params)
        with options.working(f"reading {source.location}"):
            live = production_as_asked(source, config, catalogue, params)
    elif params["store"] or params["prometheus"] or params["replicas"]:
        raise click.UsageError("--store, --prometheus and --replicas belong to --against POOL")
    answer = benched_as_asked(params, catalogue, live)
    colour = options.coloured() and params["output"] == "text"
    show(render_bench(answer, params["output"], verbose=params["verbose"], colour=colour), coloured=colour)
    return 0
