"""`inferdoc signals`."""

from __future__ import annotations

import click


@click.command("signals")
def command() -> None:
    """..."""
