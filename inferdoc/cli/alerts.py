"""`inferdoc alerts`: rules, their unit tests and the Alertmanager configuration, from the declared causes."""

from __future__ import annotations

from pathlib import Path

import click

from inferdoc.cli import options

OUT = click.option(
    "--out",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("alerts/generated"),
    show_default=True,
    metavar="DIR",
    help="The folder of the generated files.",
)


@click.group("alerts", short_help="Alert rules with unit tests, and Alertmanager routes.")
def command() -> None:
    """Prometheus rules for the causes that a rule can tell, for service level objectives and for the monitoring itself.

    Rules load in Prometheus 2.42 and later.
    """


@command.command("build")
@OUT
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where the files are out of date.")
@click.option(
    "--runbook-base", metavar="URL", help="Runbooks lie under it (default: `runbook_base` of the configuration)."
)
@click.option("--dashboard-base", metavar="URL", help="Address of the fleet board, for `dashboard_url`.")
def build(folder: Path, check: bool, runbook_base: str | None, dashboard_base: str | None) -> int:
    """Write recording rules, alert rules, their unit tests and the Alertmanager configuration."""
    from inferdoc.generate.alerts import build_alerts
    from inferdoc.generate.links import links_of

    config = options.configuration()
    links = links_of(config.links, runbook_base, dashboard_base)
    changed, remarks = build_alerts(options.catalogue(config), links, folder, check=check)
    for line in remarks:
        click.echo(line, err=True)
    for line in changed:
        click.echo(line)
    return 1 if check and changed else 0


@command.command("check")
@OUT
def check(folder: Path) -> int:
    """Check the generated rules with promtool, and the routes with amtool where it is installed."""
    from inferdoc.generate.alerts import check_alerts

    problems, summary = check_alerts(folder)
    for line in problems:
        click.echo(line)
    click.echo(summary, err=True)
    return 1 if problems else 0


@command.command("test")
@OUT
@click.argument("names", nargs=-1, metavar="[ID]...")
def test(folder: Path, names: tuple[str, ...]) -> int:
    """Run the unit tests of the generated rules with promtool: all of them, or those of the causes named."""
    from inferdoc.generate.alerts import run_alert_tests

    problems, summary = run_alert_tests(folder, names)
    for line in problems:
        click.echo(line)
    click.echo(summary, err=True)
    return 1 if problems else 0
