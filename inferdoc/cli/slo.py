"""`inferdoc slo`: how well objectives are kept, and objectives from history."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import messages, options
from inferdoc.cli.streams import show as print_page

SINCE = click.option("--since", metavar="DURATION", help="How far back from --until: 24h, 7d (default 30d).")


@click.group("slo", short_help="Objectives: attainment, error budget, goodput; and objectives from history.")
def command() -> None:
    """What is promised stands in alerts/slo.yaml (an overlay with --catalogue) or in [[slo]] of inferdoc.toml."""


@command.command("show")
@options.source_options
@SINCE
@options.window_end
@options.part_of_pools
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def show(**params: Any) -> int:
    """Show per objective and pool the share of good requests, the error budget that is left, how fast it burns, and the
    requests per second that were within all limits (goodput). Shares are counted in buckets: where a limit lies between
    two bounds, both ends are told and nothing is interpolated.

    Exit codes: 0 all that could be judged are met, 1 one is not, 2 usage, 3 cannot be told, 4 the source could not be
    read.
    """
    from inferdoc.report.slo_text import as_json, as_text
    from inferdoc.slo.show import exit_code, shown

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
    help="Share of the requests that is to be within the target.",
)
@click.option(
    "--hours",
    type=click.FloatRange(0.5, 1.0),
    default=0.95,
    show_default=True,
    help="Share of the calm hours in which it is to be so.",
)
@click.option("-o", "--output", type=click.Choice(["toml", "yaml", "json"]), default="toml", show_default=True)
def suggest(**params: Any) -> int:
    """Print objectives to paste: per model, tier and role the tightest bucket bound that was met in nearly all calm
    hours, with what was attained there and at the next tighter bound. Hours in which an engine was away or requests
    failed do not count.

    Exit codes: 0 something is suggested, 2 usage, 3 the data are too short or broken, 4 the source could not be read.
    """
    from inferdoc.report.slo_text import as_json, as_toml, as_yaml
    from inferdoc.slo.show import chosen_pools, opened, suggested_code
    from inferdoc.slo.suggest import Strictness, suggestions

    config = options.configuration()
    source, catalogue = options.source(config, params), options.catalogue(config)
    with options.working(f"reading {source.location}"):
        history = opened(source, config, catalogue, params)
        found = suggestions(history, chosen_pools(history, params), Strictness(params["percentile"], params["hours"]))
    form = {"toml": as_toml, "yaml": as_yaml, "json": as_json}[params["output"]]
    print_page(form(found), coloured=False)
    messages.warn(source.warnings)
    return suggested_code(found)
