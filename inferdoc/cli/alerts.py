"""Rules and boards: `inferdoc alerts`, `dashboards`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from inferdoc.cli import messages, options
from inferdoc.escaping import one_line

PATH = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


def output_folder(default: str) -> options.Decorator:
    """--out of a command that generates files."""
    return click.option(
        "--out",
        "folder",
        type=FOLDER,
        default=Path(default),
        metavar="DIR",
        help="Folder of the generated files.",
    )


CHECK = click.option("--check", is_flag=True, help="Check only; exit code 1 if files are out of date.")
RUNBOOK_BASE = click.option(
    "--runbook-base", metavar="URL", help="Base URL of the runbooks (default: `runbook_base` of the configuration)."
)


def print_lines(lines: Iterable[str], *, failing: bool = True) -> int:
    """Print changes or problems; 1 where there are any and they are a failure, else 0."""
    found = list(lines)
    for line in found:
        click.echo(one_line(line))
    return 1 if found and failing else 0


def report_problems(problems: Iterable[str], summary: str) -> int:
    """Print the problems of a check; its exit code."""
    code = print_lines(problems)
    messages.note(summary)
    return code


OUT = output_folder("alerts/generated")
RULE_SET = click.option(
    "--set",
    "rule_set",
    type=click.Choice(["pages", "standard", "full"]),
    default="full",
    help="pages: what wakes someone; standard: and the usual tickets; full: every cause.",
)


@click.group("alerts", short_help="Alert rules, and Alertmanager routes.")
def alerts() -> None:
    """Prometheus rules for causes, service level objectives and the monitoring itself.

    Rules load in Prometheus 2.42 and later.
    """


@alerts.command("build")
@OUT
@CHECK
@RUNBOOK_BASE
@click.option("--dashboard-base", metavar="URL", help="Address of Grafana, for `dashboard_url`.")
@RULE_SET
def build(folder: Path, check: bool, runbook_base: str | None, dashboard_base: str | None, rule_set: Any) -> int:
    """Write recording rules, alert rules and the Alertmanager configuration.

    Prints the size of the rule set and its measured cost.
    """
    from inferdoc.fleet.members import assignments_of
    from inferdoc.generate.alerts import build_alerts
    from inferdoc.generate.links import links_of

    config = options.configuration()
    links = links_of(config, runbook_base, dashboard_base)
    changed, remarks = build_alerts(
        options.catalogue(config),
        links,
        folder,
        assignments_of(config.pods),
        rule_set=rule_set,
        check=check,
    )
    for line in remarks:
        messages.note(line)
    return print_lines(changed, failing=check)


@alerts.command("routes")
@click.option("--merge", "path", type=PATH, metavar="FILE", help="Alertmanager configuration to put the routes into.")
@click.option(
    "--receiver",
    "receivers",
    multiple=True,
    metavar="OURS=THEIRS",
    help="Receiver of FILE to use for ours: inferdoc-page=oncall. Only with --merge.",
)
@RULE_SET
def routes(path: Path | None, receivers: tuple[str, ...], rule_set: Any) -> int:
    """Print the routes and inhibit rules, or put them into a configuration.

    They take alerts with component="inferdoc" only. Everything else in FILE stays as it is; a second merge replaces the
    first. amtool checks the result where it is installed. --set leaves out the inhibit rules that no alert of the set
    needs.
    """
    from inferdoc.generate.alerts import merge_alerts, route_fragments

    catalogue = options.catalogue(options.configuration())
    if path is None:
        if receivers:
            raise click.UsageError("--receiver requires --merge")
        click.echo(route_fragments(catalogue, rule_set), nl=False)
        return 0
    pairs = [text.partition("=") for text in receivers]
    if any(not (ours and theirs) for ours, _, theirs in pairs):
        raise click.UsageError("--receiver: write OURS=THEIRS, such as inferdoc-page=oncall")
    for line in merge_alerts(catalogue, path, {ours: theirs for ours, _, theirs in pairs}, rule_set):
        messages.note(line)
    click.echo(f"{path}: updated")
    return 0


@alerts.command("check")
@OUT
def check(folder: Path) -> int:
    """Check the generated rules with promtool, and the routes with amtool where it is installed."""
    from inferdoc.generate.alerts import check_alerts

    return report_problems(*check_alerts(folder))


@alerts.command("test")
@OUT
@click.argument("names", nargs=-1, metavar="[ID]...")
def test(folder: Path, names: tuple[str, ...]) -> int:
    """Run the unit tests of the generated rules with promtool: all of them, or those of the causes named.

    In a checkout of inferdoc, `python -m inferdoc_dev.rule_tests --out FOLDER` writes rules and tests.
    """
    from inferdoc.generate.alerts import run_alert_tests

    return report_problems(*run_alert_tests(folder, names))


@alerts.command("backtest")
@OUT
@click.argument("inputs", nargs=-1, metavar="[PATH]...")
@options.source_options
@click.option("--since", default="6h", metavar="DURATION", help="How far back a server is read.")
@click.option("--rules", "others", multiple=True, type=PATH, metavar="FILE", help="A rule file to put beside ours.")
@click.option("--cold", is_flag=True, help="Without the history before an incident, as after an install.")
@click.option("-v", "--verbose", is_flag=True, help="Every alert of every recording.")
@options.output("text", "json")
def backtest(inputs: tuple[str, ...], **params: Any) -> int:
    """Replay recordings under the rules with promtool, and say which alerts would have fired when.

    A PATH is a folder of recordings with labels.json, a store, or OpenMetrics text; --prometheus reads a server. With
    labels an alert is right or wrong, and totals are given; without, all that fires counts as noise.
    """
    from inferdoc.backtest.run import replayed
    from inferdoc.report.alerts_backtest import as_text

    source = options.source(options.configuration(), params) if params["prometheus"] or params["store"] else None
    if source is None and not inputs:
        raise click.UsageError("name a recording, a folder of them or a store, or give --prometheus")
    report = replayed(inputs, source, params, messages.note)
    if params["output"] == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        click.echo(as_text(report, verbose=params["verbose"]), nl=False)
    return 0


@alerts.command("backfill")
@OUT
@click.argument("path", required=False, metavar="[PATH]")
@options.source_options
@click.option("--since", default="6h", metavar="DURATION", help="How far back a server is read.")
@click.option("--until", default="latest", metavar="TIME", help="The last evaluation: a time, latest.")
@click.option("--blocks", required=True, type=FOLDER, metavar="FOLDER", help="Where the blocks are written to.")
def backfill(path: str | None, **params: Any) -> int:
    """Give the rules a past: write what they would have recorded of raw samples, as blocks of a Prometheus.

    Usual values rest on six hours of records, which a server does not have after the rules are installed. PATH is a
    store or OpenMetrics text; --prometheus reads a server. The rules are evaluated by a prometheus of our own, which
    must be on the PATH with promtool. Move the blocks into the data folder of your server.
    """
    from inferdoc.backtest.run import backfilled

    source = options.source(options.configuration(), params) if params["prometheus"] or params["store"] else None
    made = backfilled(path, source, params, messages.note)
    click.echo(f"{made.samples:,} samples in {made.series:,} series of {made.rules} rules: {params['blocks']}")
    return 0 if made.samples else 1


BOARDS = output_folder("dashboards/generated")


@click.group("dashboards", short_help="Grafana dashboards from the declared signals.")
def dashboards() -> None:
    """Dashboards for Grafana 10.4 and later, ready for file provisioning: data source and scope are variables."""


@dashboards.command("build")
@BOARDS
@CHECK
@RUNBOOK_BASE
@click.option(
    "--provisioning", is_flag=True, help="Also a ConfigMap per board for the sidecar, and a provider for files."
)
def build_dashboards(folder: Path, check: bool, runbook_base: str | None, provisioning: bool) -> int:
    """Write one JSON file per board of the catalogue."""
    from inferdoc.generate.boards import build_boards
    from inferdoc.generate.links import links_of

    config = options.configuration()
    links = links_of(config, runbook_base)
    changed = build_boards(options.catalogue(config), links, folder, check=check, provisioned=provisioning)
    return print_lines(changed, failing=check)


@dashboards.command("check")
@BOARDS
def check_dashboards(folder: Path) -> int:
    """Lint the generated boards; parse their queries where promtool is installed."""
    from inferdoc.generate.boards import check_boards

    return report_problems(*check_boards(folder))
