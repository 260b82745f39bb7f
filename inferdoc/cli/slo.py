"""`inferdoc slo`: how well objectives are kept, and objectives from history."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import messages, options
from inferdoc.cli.streams import show as print_page

SINCE = click.option("--since", metavar="DURATION", help="How far back from --until: 24h, 7d (default 30d).")


@click.group("slo", short_help="Report SLOs and error budgets, or suggest objectives.")
def command() -> None:
    """SLOs come from alerts/slo.yaml (overlay: --catalogue) or from [[slo]] in inferdoc.toml."""


@command.command("show")
@options.source_options
@SINCE
@options.window_end
@options.part_of_pools
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def show(**params: Any) -> int:
    """Show per objective and pool: the share of good requests, the remaining error budget, the burn rate, and the
    requests per second within all limits (goodput). If a limit lies between two histogram buckets, both bounds are
    printed.

    Exit codes: 0 all evaluated objectives are met, 1 one is missed, 2 usage, 3 not enough data, 4 source not readable.
    """
    from inferdoc.report.slo_text import as_json, as_text
    from inferdoc.slo.attainment import exit_code, shown

    config = options.configuration()
    source, catalogue = options.source(config, params), options.catalogue(config)
    with options.working(f"reading {source.location}"):
        report = shown(source, config, catalogue, params)
    print_page(as_json(report) if params["output"] == "json" else as_text(report), coloured=False)
    messages.warn(source.warnings)
    return exit_code(report)


@command.command("suggest")
@options.source_options
@SINCE
@options.window_end
@options.part_of_pools
@click.option(
    "--percentile",
    type=click.FloatRange(50, 99.99),
    default=99.0,
    show_default=True,
    help="Share of requests within the target, in percent.",
)
@click.option(
    "--hours",
    type=click.FloatRange(0.5, 1.0),
    default=0.95,
    show_default=True,
    help="Share of healthy hours in which the target is met.",
)
@click.option("-o", "--output", type=click.Choice(["toml", "yaml", "json"]), default="toml", show_default=True)
def suggest(**params: Any) -> int:
    """Print objectives to paste: per model, tier and role, the tightest bucket bound that was met in nearly all healthy
    hours, and the share at the next tighter bound. Hours with a missing engine or failed requests do not count.

    Exit codes: 0 at least one suggestion, 2 usage, 3 not enough data, 4 source not readable.
    """
    from inferdoc.report.slo_text import as_json, as_toml, as_yaml
    from inferdoc.slo.attainment import chosen_pools, opened
    from inferdoc.slo.suggest import Strictness, suggested_code, suggestions

    config = options.configuration()
    source, catalogue = options.source(config, params), options.catalogue(config)
    with options.working(f"reading {source.location}"):
        history = opened(source, config, catalogue, params)
        found = suggestions(history, chosen_pools(history, params), Strictness(params["percentile"], params["hours"]))
    form = {"toml": as_toml, "yaml": as_yaml, "json": as_json}[params["output"]]
    print_page(form(found), coloured=False)
    messages.warn(source.warnings)
    return suggested_code(found)
