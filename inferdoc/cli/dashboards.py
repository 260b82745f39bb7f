"""`inferdoc dashboards`."""

from __future__ import annotations

import click


@click.command("dashboards")
def command() -> None:
    """..."""
