"""`inferdoc audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from inferdoc.cli import messages, options
from inferdoc.cli.streams import show

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue


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
@click.option(
    "--for-tier",
    metavar="NAME",
    help="Only with --manifest: check the workloads for this tier before they run; no source is read.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also reasons, formulas, sources, and what cannot be told and why.")
def command(**params: Any) -> int:
    """Look for standing states: drafts that do not pay, hits at the level of chance, preemption all the time, idle
    pools. They are judged by absolute limits on the busy part of the window and ranked by what they cost: money where
    [prices] of the configuration names some, else GPUs or replicas.

    With --manifest and --for-tier flags are checked before anything runs: dtypes that the GPU has not, contexts and
    batches that cannot fit, KV heads that cannot be shared, pairs of prefill and decode that differ.

    Exit codes: 0 nothing stands, 1 a state at or above --fail-on, 2 usage, 3 unknown (not enough data), 4 the source
    could not be read.
    """
    from inferdoc.audit.request import audited, exit_code
    from inferdoc.report import render_audit

    config = options.configuration()
    catalogue = options.catalogue(config)
    if params["for_tier"] is not None:
        return _before_it_runs(params, catalogue)
    source = options.source(config, params)
    with options.working(f"reading {source.location}"):
        answer = audited(source, config, catalogue, params)
    colour = options.coloured() and params["output"] == "text"
    show(render_audit(answer, params["output"], verbose=params["verbose"], colour=colour), coloured=colour)
    messages.warn(answer.source.warnings)
    return exit_code(answer, params["fail_on"])


def _before_it_runs(params: dict[str, Any], catalogue: Catalogue) -> int:
    """Check manifests alone: 1 if a problem was found, 3 if no workload could be checked."""
    from inferdoc.audit.manifest import read_manifests
    from inferdoc.preflight.check import preflight

    if not params["manifests"]:
        raise click.UsageError("--for-tier needs --manifest FILE")
    if params["output"] not in ("text", "json"):
        raise click.UsageError(f"--for-tier and -o {params['output']} are mutually exclusive; use -o text or json")
    answer = preflight(read_manifests(params["manifests"]), params["for_tier"], catalogue)
    show(answer.to_json() + "\n" if params["output"] == "json" else answer.to_text(), coloured=False)
    return 1 if answer.problems else 0 if answer.checked else 3
