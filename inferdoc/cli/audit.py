"""`inferdoc audit`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import messages, options
from inferdoc.cli.streams import show


@click.command("audit", short_help="What is wrong without having changed, dearest first.")
@options.source_options
@click.option("--since", metavar="DURATION", help="How far back from --until: 1h, 24h, 7d (default 24h).")
@click.option("--from", "begin", metavar="TIME", help="Where the window begins: RFC 3339 or Unix seconds.")
@options.window_end
@options.part_of_fleet
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "markdown", "html"]), default="text", show_default=True
)
@click.option(
    "--fail-on",
    type=click.Choice(["warning", "info"]),
    default="info",
    help="Exit 1 only from this severity on (default: any state).",
)
@click.option(
    "--manifest",
    "manifests",
    multiple=True,
    metavar="FILE",
    help="Also judge flags, probes, grace period and autoscaler of the workloads in this YAML; may be repeated.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also reasons, formulas, sources, and what cannot be told and why.")
def command(**asked: Any) -> int:
    """Look for standing states: drafts that do not pay, hits at the level of chance, preemption all the time, idle
    pools. They are judged by absolute limits on the busy part of the window and ranked by what they cost: money where
    [prices] of the configuration names some, else GPUs or replicas.

    Exit codes: 0 nothing stands, 1 a state at or above --fail-on, 2 usage, 3 unknown (not enough data), 4 the source
    could not be read.
    """
    from inferdoc.audit.request import audited, exit_code
    from inferdoc.report import render_audit

    config = options.configuration()
    source = options.source(config, asked)
    catalogue = options.catalogue(config)
    with options.working(f"reading {source.location}"):
        answer = audited(source, config, catalogue, asked)
    colour = options.coloured() and asked["output"] == "text"
    show(render_audit(answer, asked["output"], verbose=asked["verbose"], colour=colour), coloured=colour)
    messages.warn(answer.source.warnings)
    return exit_code(answer, asked["fail_on"])
