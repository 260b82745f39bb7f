"""`inferdoc audit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from inferdoc.cli import options
from inferdoc.cli.answers import print_answer
from inferdoc.cli.streams import show

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue


@click.command("audit", short_help="Find persistent inefficiencies, highest cost first.")
@options.source_options
@click.option("--since", metavar="DURATION", help="How far back from --until: 1h, 24h, 7d (default 24h).")
@click.option("--from", "begin", metavar="TIME", help="Start of the window: RFC 3339 or Unix seconds.")
@options.window_end
@options.part_of_fleet
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "markdown", "html"]), default="text", show_default=True
)
@click.option(
    "--fail-on",
    type=click.Choice(["warning", "info"]),
    default="info",
    help="Lowest severity with exit code 1 (default: any).",
)
@click.option(
    "--manifest",
    "manifests",
    multiple=True,
    metavar="FILE",
    help="Workload YAML whose flags, probes, grace period and autoscaler are checked. Repeatable.",
)
@click.option(
    "--for-tier",
    metavar="NAME",
    help="Hardware tier for a check without a source. Requires --manifest.",
)
@click.option("-v", "--verbose", is_flag=True, help="Reasons, formulas, sources and undetermined issues.")
def command(**params: Any) -> int:
    """Find persistent issues: low draft acceptance, low prefix cache hit rate, constant preemption, idle pools. Each is
    compared with an absolute limit over the busy part of the window. Issues are sorted by cost: money if [prices] is
    configured, else GPUs or replicas.

    With --manifest and --for-tier, check flags before deployment: unsupported dtypes, contexts and batches that do not
    fit, KV heads that cannot be split, and prefill and decode pools that differ.

    Exit codes: 0 no issue, 1 an issue at or above --fail-on, 2 usage, 3 unknown (not enough data), 4 source not
    readable.
    """
    from inferdoc.audit.request import audited, exit_code
    from inferdoc.report.audit_html import audit_html
    from inferdoc.report.audit_markdown import audit_markdown
    from inferdoc.report.audit_text import audit_text

    config = options.configuration()
    catalogue = options.catalogue(config)
    if params["for_tier"] is not None:
        return _before_it_runs(params, catalogue)
    source = options.source(config, params)
    with options.working(f"reading {source.location}"):
        answer = audited(source, config, catalogue, params)
    print_answer(answer, params, audit_text, warnings=answer.source.warnings, markdown=audit_markdown, html=audit_html)
    return exit_code(answer, params["fail_on"])


def _before_it_runs(params: dict[str, Any], catalogue: Catalogue) -> int:
    """Check manifests alone: 1 if a problem was found, 3 if no workload could be checked."""
    from inferdoc.audit.manifest import read_manifests
    from inferdoc.preflight.check import preflight

    if not params["manifests"]:
        raise click.UsageError("--for-tier requires --manifest FILE")
    if params["output"] not in ("text", "json"):
        raise click.UsageError(f"--for-tier and -o {params['output']} are mutually exclusive; use -o text or json")
    answer = preflight(read_manifests(params["manifests"]), params["for_tier"], catalogue)
    show(answer.to_json() + "\n" if params["output"] == "json" else answer.to_text(), coloured=False)
    return 1 if answer.problems else 0 if answer.checked else 3
