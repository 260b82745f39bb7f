"""`inferdoc dashboards`: Grafana boards from rows of signals."""

from __future__ import annotations

from pathlib import Path

import click

from inferdoc.cli import options
from inferdoc.escaping import one_line

OUT = options.output_folder("dashboards/generated")


@click.group("dashboards", short_help="Grafana dashboards from the declared signals.")
def command() -> None:
    """Dashboards for Grafana 10.4 and later, ready for file provisioning: data source and scope are variables."""


@command.command("build")
@OUT
@options.CHECK
@options.RUNBOOK_BASE
@click.option(
    "--provisioning", is_flag=True, help="Also a ConfigMap per board for the sidecar, and a provider for files."
)
def build(folder: Path, check: bool, runbook_base: str | None, provisioning: bool) -> int:
    """Write one JSON file per board of the catalogue."""
    from inferdoc.generate.boards import build_boards
    from inferdoc.generate.links import links_of

    config = options.configuration()
    changed = build_boards(
        options.catalogue(config), links_of(config, runbook_base), folder, check=check, provisioned=provisioning
    )
    for line in changed:
        click.echo(one_line(line))
    return 1 if check and changed else 0


@command.command("check")
@OUT
def check(folder: Path) -> int:
    """Lint the generated boards; parse their queries where promtool is installed."""
    from inferdoc.generate.boards import check_boards

    return options.report_problems(*check_boards(folder))
