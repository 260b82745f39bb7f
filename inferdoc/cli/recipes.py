"""`inferdoc recipes`."""

from __future__ import annotations

import click


@click.command("recipes")
def command() -> None:
    """..."""
