"""`inferdoc alerts`."""

from __future__ import annotations

import click


@click.command("alerts")
def command() -> None:
    """..."""
