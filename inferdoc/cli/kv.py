"""`inferdoc kv`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import messages, options
from inferdoc.cli.streams import show


@click.command("kv", short_help="What prefix caching saves, and what a larger cache or a tier below would.")
@click.argument("pool", required=False)
@options.source_options
@click.option("--history", default="1d", show_default=True, metavar="DURATION", help="How far to read back.")
@click.option("--host-gib", type=float, metavar="GIB", help="Host memory for the KV of one replica.")
@click.option("--nvme-gib", type=float, metavar="GIB", help="NVMe for the KV of one replica.")
@click.option("--nvme-gbps", type=float, metavar="N", help="GB/s that its drives read together (default 7).")
@click.option(
    "--gpus", type=click.IntRange(1, 1024), metavar="N", help="GPUs of a pod (default: as its exporter tells)."
)
@click.option("--model", metavar="FILE|NAME", help="A config.json, its folder, or a known model (default: as served).")
@click.option(
    "--kv-dtype",
    type=click.Choice(["bf16", "fp16", "fp8", "int8", "nvfp4"]),
    help="Of the KV cache (default: as the engine says; its auto is taken for 16 bits).",
)
@click.option("--tenant-label", metavar="NAME", help="A label of the engines' series that tells tenants.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "html"]), default="text", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Also formula, inputs and source of each number.")
def command(**params: Any) -> int:
    """Work out what the prefix cache of a live pool gives, and what another would: hits at half, twice and ten times
    the size, with FP8, host memory or NVMe; GPUs that it saves; reload against recompute. POOL may be left out where
    there is one.

    Smaller caches are told from the gaps between uses of blocks (vLLM --kv-cache-metrics), larger ones from what pods
    showed at other hours, else by extrapolation, with a range from no gain to twice what is expected.

    Exit codes: 0 told, 2 usage, or a pool whose cache was never at work, 3 no other size can be told, 4 the source
    could not be read.
    """
    from inferdoc.kv.answer import kv_as_asked
    from inferdoc.report import render_kv

    config = options.configuration()
    source, catalogue = options.source(config, params), options.catalogue(config)
    with options.working(f"reading {source.location}"):
        answer = kv_as_asked(source, config, catalogue, params)
    colour = options.coloured() and params["output"] == "text"
    show(render_kv(answer, params["output"], verbose=params["verbose"], colour=colour), coloured=colour)
    messages.warn(source.warnings)
    return 0 if answer.other_sizes else 3
