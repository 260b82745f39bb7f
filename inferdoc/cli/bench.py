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
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Also formula, inputs and source of each number, and the files.")
def command(**asked: Any) -> int:
    """Read results of GuideLLM (benchmarks.json), AIPerf (profile_export_aiperf.json) and `vllm bench serve
    --save-result`, one level of load each, and say which rate they prove to keep the objectives, where the knee is, and
    what weakens the numbers.

    Exit codes: 0 read, 2 usage, or a file that cannot be read.
    """
    from inferdoc.bench.request import benched_as_asked
    from inferdoc.report import render_bench

    answer = benched_as_asked(asked, options.catalogue(options.configuration()))
    colour = options.coloured() and asked["output"] == "text"
    show(render_bench(answer, asked["output"], verbose=asked["verbose"], colour=colour), coloured=colour)
    return 0
