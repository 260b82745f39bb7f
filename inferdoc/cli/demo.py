"""`inferdoc demo`."""

from __future__ import annotations

import click


@click.command("demo")
def command() -> None:
    """..."""
