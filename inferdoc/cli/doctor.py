"""`inferdoc doctor`."""

from __future__ import annotations

import click


@click.command("doctor")
def command() -> None:
    """..."""
