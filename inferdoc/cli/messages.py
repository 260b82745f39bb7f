"""Messages on standard error: notes, warnings and the final error, as text or as JSON lines (--log-format json)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

import click

from inferdoc.escaping import one_line
from inferdoc.times import rfc3339

Level = Literal["debug", "info", "warning", "error"]
Form = Literal["text", "json"]
_PREFIX = {"debug": "", "info": "", "warning": "warning: ", "error": "inferdoc: "}


_form: Form = "text"


def write_as(form: Form) -> None:
    """Set the format of messages, for all threads."""
    global _form
    _form = form


def note(line: str) -> None:
    """Print a note."""
    _write("info", line)


def warn(warnings: Iterable[str]) -> None:
    """Each warning as a line of its own."""
    for warning in warnings:
        _write("warning", warning)


def fail(line: str) -> None:
    """Print the error that ends a command."""
    _write("error", line)


def trace(text: str) -> None:
    """The traceback of an error, for --debug: lines of their own as text, one object as JSON."""
    if _form == "json":
        _write("debug", text)
        return
    click.echo(text, err=True)


def _write(level: Level, line: str) -> None:
    if _form == "json":
        now = rfc3339(datetime.now(UTC), "milliseconds")
        click.echo(json.dumps({"time": now, "level": level, "message": line}), err=True)
        return
    click.echo(_PREFIX[level] + one_line(line), err=True)
