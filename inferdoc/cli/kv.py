"""`inferdoc kv`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import options
from inferdoc.cli.answers import answer_from_source, print_answer


@click.command("kv", short_help="Estimate the savings of prefix caching by cache size.")
@click.argument("pool", required=False)
@options.source_options
@click.option("--history", default="1d", show_default=True, metavar="DURATION", help="History to read.")
@click.option("--host-gib", type=float, metavar="GIB", help="Host memory for the KV of one replica.")
@click.option("--nvme-gib", type=float, metavar="GIB", help="NVMe for the KV of one replica.")
@click.option("--nvme-gbps", type=float, metavar="N", help="Read bandwidth of NVMe per replica in GB/s (default 7).")
@click.option("--gpus", type=click.IntRange(1, 1024), metavar="N", help="GPUs of a pod (default: from its exporter).")
@click.option(
    "--model", metavar="FILE|NAME", help="Model: a config.json, its folder, or a known name (default: as served)."
)
@click.option(
    "--kv-dtype",
    type=click.Choice(["bf16", "fp16", "fp8", "int8", "nvfp4"]),
    help="Data type of the KV cache (default: from the engine; auto counts as 16 bits).",
)
@click.option("--tenant-label", metavar="NAME", help="Label of the engine metrics that identifies tenants.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "html"]), default="text", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Formula, inputs and source of each number.")
def command(**params: Any) -> int:
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
