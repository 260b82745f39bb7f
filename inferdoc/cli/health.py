"""Objectives and comparisons: `inferdoc audit`, `slo`, `baseline`, `canary`, `verify`."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import messages, options
from inferdoc.cli.options import answer_from_source, print_answer
from inferdoc.cli.streams import show
from inferdoc.escaping import one_line


@click.command("audit", short_help="Find persistent inefficiencies, highest cost first.")
@options.source_options
@click.option("--since", metavar="DURATION", help="How far back from --until: 1h, 24h, 7d (default 24h).")
@options.FROM
@options.window_end
@options.part_of_fleet
@options.output("text", "json", "markdown", "html")
@click.option(
    "--fail-on",
    type=click.Choice(["warning", "info"]),
    default="info",
    show_default=False,
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
def audit(**params: Any) -> int:
    """Find persistent issues: low draft acceptance, low prefix cache hit rate, constant preemption, idle pools. Each is
    compared with an absolute limit over the busy part of the window. Issues are sorted by cost: money if [prices] is
    configured, else GPUs or replicas.

    With --manifest and --for-tier, check flags before deployment: unsupported dtypes, contexts and batches that do not
    fit, KV heads that cannot be split, and prefill and decode pools that differ.

    Exit codes: 0 no issue, 1 an issue at or above --fail-on, 2 usage, 3 unknown (not enough data), 4 source not
    readable.
    """
    from inferdoc.audit.request import audited, exit_code
    from inferdoc.report.audit import audit_html, audit_text
    from inferdoc.report.markdown import audit_markdown

    if params["for_tier"] is not None:
        return _before_it_runs(params)
    answer, _ = answer_from_source(params, audited)
    print_answer(answer, params, audit_text, warnings=answer.source.warnings, markdown=audit_markdown, html=audit_html)
    return exit_code(answer, params["fail_on"])


def _before_it_runs(params: dict[str, Any]) -> int:
    """Check manifests alone: 1 if a problem was found, 3 if no workload could be checked."""
    from inferdoc.audit.manifest import read_manifests
    from inferdoc.preflight.check import preflight

    if not params["manifests"]:
        raise click.UsageError("--for-tier requires --manifest FILE")
    if params["output"] not in ("text", "json"):
        raise click.UsageError(f"--for-tier and -o {params['output']} are mutually exclusive; use -o text or json")
    catalogue = options.catalogue(options.configuration())
    answer = preflight(read_manifests(params["manifests"]), params["for_tier"], catalogue)
    show(answer.to_json() + "\n" if params["output"] == "json" else answer.to_text(), coloured=False)
    return 1 if answer.problems else 0 if answer.checked else 3


SINCE = click.option("--since", metavar="DURATION", help="How far back from --until: 24h, 7d (default 30d).")


@click.group("slo", short_help="Report SLOs and error budgets, or suggest objectives.")
def slo() -> None:
    """SLOs come from alerts/slo.yaml (overlay: --catalogue) or from [[slo]] in inferdoc.toml."""


@slo.command("show")
@options.source_options
@SINCE
@options.window_end
@options.part_of_pools
@options.output("text", "json")
def show_slo(**params: Any) -> int:
    """Show per objective and pool: the share of good requests, the remaining error budget, the burn rate, and the
    requests per second within all limits (goodput). If a limit lies between two histogram buckets, both bounds are
    printed.

    Exit codes: 0 all evaluated objectives are met, 1 one is missed, 2 usage, 3 not enough data, 4 source not readable.
    """
    from inferdoc.report.slo import as_json, as_text
    from inferdoc.slo.attainment import exit_code, shown

    report, warnings = answer_from_source(params, shown)
    show(as_json(report) if params["output"] == "json" else as_text(report), coloured=False)
    messages.warn(warnings)
    return exit_code(report)


@slo.command("suggest")
@options.source_options
@SINCE
@options.window_end
@options.part_of_pools
@click.option(
    "--percentile",
    type=click.FloatRange(50, 99.99),
    default=99.0,
    help="Share of requests within the target, in percent.",
)
@click.option(
    "--hours",
    type=click.FloatRange(0.5, 1.0),
    default=0.95,
    help="Share of healthy hours in which the target is met.",
)
@options.output("toml", "yaml", "json")
def suggest(**params: Any) -> int:
    """Print objectives to paste: per model, tier and role, the tightest bucket bound that was met in nearly all healthy
    hours, and the share at the next tighter bound. Hours with a missing engine or failed requests do not count.

    Exit codes: 0 at least one suggestion, 2 usage, 3 not enough data, 4 source not readable.
    """
    from inferdoc.report.slo import as_json, as_toml, as_yaml
    from inferdoc.slo.attainment import chosen_pools, opened
    from inferdoc.slo.suggest import Strictness, Suggestion, suggestions

    config = options.configuration()
    source, catalogue = options.source(config, params), options.catalogue(config)
    with options.working(f"reading {source.location}"):
        history = opened(source, config, catalogue, params)
        found = suggestions(history, chosen_pools(history, params), Strictness(params["percentile"], params["hours"]))
    form = {"toml": as_toml, "yaml": as_yaml, "json": as_json}[params["output"]]
    show(form(found), coloured=False)
    messages.warn(source.warnings)
    return 0 if any(isinstance(one, Suggestion) for one in found) else 3


@click.group("baseline", short_help="Manage stored baselines for windows without history.")
def baseline() -> None:
    """Stored baselines. `diagnose` uses one by itself where the source holds nothing before the window, and by name
    with --baseline NAME. It must be of the same pools (model, role, tier) and vLLM release."""


@baseline.command("save", short_help="Save a healthy time range.")
@options.source_options
@click.option("--name", default="default", help="Name of the baseline.")
@click.option("--file", metavar="PATH", help="Output file instead of the baseline folder.")
@click.option("--since", metavar="DURATION", help="How far back from --until: 15m, 1h, 2d (default 1h).")
@click.option("--from", "begin", metavar="TIME", help="Start of the time range: RFC 3339 or Unix seconds.")
@options.window_end
@click.option("-l", "--label", "labels", multiple=True, metavar="LABEL=VALUE", help="Only series with this label.")
@click.option("--force", is_flag=True, help="Save a time range that is not healthy.")
def save_baseline(**params: Any) -> int:
    """Diagnose a time range and save its signals as a baseline.

    Exit codes: 0 saved, 1 the time range contains an incident, 2 usage, 3 not enough data, 4 source not readable.
    """
    from inferdoc.judging.references import save as baseline

    (path, header), warnings = answer_from_source(params, baseline.save)
    click.echo(one_line(f"{path}: {baseline.described(header)}"))
    messages.warn(warnings)
    return 0


@baseline.command("show", short_help="List the stored baselines, or show one.")
@click.argument("name", required=False)
@options.output("text", "json")
def show_baseline(name: str | None, output: str) -> int:
    """List the stored baselines; with a NAME (or a path) its span, its pools, and the medians of what users waited
    for."""
    from inferdoc.config import baselines_folder
    from inferdoc.judging.references.stored import named
    from inferdoc.report import stores

    config = options.configuration()
    folder = baselines_folder(config)
    if name is None:
        rows = stores.listed(folder)
        click.echo(stores.list_json(rows) if output == "json" else stores.list_text(rows, folder))
        return 0
    stored = named(folder, name)
    click.echo(stores.as_json(stored) if output == "json" else stores.text(stored, options.catalogue(config)))
    return 0


SHARE = click.FloatRange(min=0.0, max=1.0, min_open=True, max_open=True)


@click.command("canary", short_help="Compare a rollout candidate with the running pods.")
@click.option("--candidate", required=True, metavar="POOL|PODS", help="Pool name, or pods: llama-canary-*.")
@click.option(
    "--baseline", metavar="POOL|PODS", help="Pool or pods to compare with (default: other pods of the model)."
)
@options.source_options
@click.option("--since", default="1h", metavar="DURATION", help="How far back from --until.")
@options.window_end
@click.option("-l", "--label", "labels", multiple=True, metavar="LABEL=VALUE", help="Read only series with this label.")
@click.option("--warmup", default="10m", metavar="DURATION", help="Start of the candidate that is ignored.")
@click.option(
    "--objective",
    multiple=True,
    metavar="SIGNAL=LIMIT",
    help="ttft_p99=2s, tpot_request_p99=50ms, e2e_p99= (default: alerts/slo.yaml).",
)
@click.option(
    "--margin",
    "promise_margin",
    type=SHARE,
    metavar="SHARE",
    help="Allowed increase in requests over an objective (0.01).",
)
@click.option(
    "--usual-margin", type=SHARE, metavar="SHARE", help="Allowed increase in requests over the baseline p90 (0.05)."
)
@click.option(
    "--errors-margin", type=SHARE, metavar="SHARE", help="Allowed increase in failed or refused requests (0.005)."
)
@click.option("--looks", type=click.IntRange(1, 3), default=1, help="Planned interim analyses of this rollout.")
@options.output("text", "json")
@click.option("-v", "--verbose", is_flag=True, help="Formula, events and series of each difference.")
def canary(**params: Any) -> int:
    """Compare pods of a new version with running pods over the same minutes: TTFT, inter-token latency, errors and
    goodput. A share is worse if the low end of its confidence interval is above the margin, and not worse if the high
    end is within it. Otherwise the result is the number of requests that are still needed.

    Exit codes: 0 pass, 1 fail, 2 usage, 3 not decided yet, 4 source not readable.
    """
    from inferdoc.canary.request import canary_for_request, exit_code
    from inferdoc.report.comparisons import canary_text

    answer, warnings = answer_from_source(params, canary_for_request)
    print_answer(answer, params, canary_text, warnings=warnings)
    return exit_code(answer)


@click.command("verify", short_help="Measure the effect of a step after a finding.")
@click.argument("finding", required=False)
@options.source_options
@click.option("--at", "step_at", metavar="TIME", help="Time of the step.")
@click.option("--diagnosis", metavar="FILE", help="Output of `diagnose -o json`, for onset and evidence.")
@click.option("--onset", metavar="TIME", help="Onset, if there is no --diagnosis.")
@click.option("--pool", metavar="POOL", help="Pool name; optional if there is one pool.")
@click.option("--prediction", metavar="FILE", help="Output of `whatif -o json` to compare with the result.")
@options.GOOD_REQUEST
@click.option("--ledger", metavar="FILE", help="Ledger file (default: beside the store).")
@click.option("--list", "listed", is_flag=True, help="List of the ledger.")
@options.output("text", "json")
def verify(**params: Any) -> int:
    """Compare the time before a step with the time after it: requests over their limits, mean latencies, and the
    signals of the finding. FINDING is the id of a cause.

    The result is helped, no difference, worse or cannot tell. It is added to the ledger with the what-if prediction, if
    there is one.

    Exit codes: 0 helped or no difference, 1 worse, 2 usage, or too little time on a side, 3 not enough data, 4 source
    not readable.
    """
    from inferdoc.report.comparisons import ledger_text, verify_text
    from inferdoc.verify.answer import exit_code, verified
    from inferdoc.verify.model import appended, ledger_lines, ledger_path

    config = options.configuration()
    store = None if params["prometheus"] else options.store_path(config, params["store"])
    path = ledger_path(params["ledger"], store)
    if params["listed"]:
        options.show_as(params["output"], ledger_lines(path), ledger_text)
        return 0
    answer, warnings = answer_from_source(params, verified)
    appended(path, answer)
    print_answer(answer, params, verify_text, warnings=warnings)
    return exit_code(answer)
