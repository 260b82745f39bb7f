"""`inferdoc runbook`."""

from __future__ import annotations

import click


@click.command("runbook")
def command() -> None:
    """..."""
