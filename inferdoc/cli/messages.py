"""Messages on standard error as text or JSON lines (--log-format json): notes, warnings, errors."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

import click

from inferdoc.errors import ExitCode, InferdocError
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


class Progress:
    """Tenths of the work on stderr, only on a terminal."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._tenth = 0

    def __call__(self, share: float) -> None:
        tenth = int(share * 10)
        if tenth > self._tenth and sys.stderr.isatty():
            self._tenth = tenth
            note(f"{self._title}: {tenth * 10} %")


OWN_FAULT = 70
"""EX_SOFTWARE of sysexits.h: a fault in inferdoc itself, never one of its input."""


def describe_error(error: BaseException) -> tuple[str, int]:
    """The error line (empty: print nothing) and the exit code of an exception."""
    if isinstance(error, click.exceptions.Exit):
        return "", int(error.exit_code)
    if isinstance(error, click.exceptions.Abort | KeyboardInterrupt):
        return "", int(ExitCode.INTERRUPTED)
    if isinstance(error, click.UsageError):
        named = error.ctx is not None and error.ctx.info_name != "inferdoc"
        hint = f" (inferdoc {error.ctx.info_name} --help)" if named and error.ctx is not None else ""
        return f"{error.format_message()}{hint}", int(ExitCode.USAGE)
    if isinstance(error, click.ClickException):
        return error.format_message(), int(ExitCode.USAGE)
    if isinstance(error, InferdocError):
        return str(error), int(error.exit_code)
    if isinstance(error, OSError) and error.strerror:
        where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "standard output"
        return f"{where}: {error.strerror.lower()}; check the path, its permissions and the space left", ExitCode.SOURCE
    if (
        isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason
    ):  # bytes of the command line, as Python has them
        return f"{error.object[:100]!r} is not UTF-8; write it so", ExitCode.USAGE
    return (
        f"a fault in inferdoc itself: {type(error).__name__}: {error}; run again with --debug and report it",
        OWN_FAULT,
    )


def traced(error: BaseException) -> tuple[str, int]:
    """The same, with the traceback on standard error."""
    message, code = describe_error(error)
    if message and not isinstance(error, click.ClickException):
        trace("".join(traceback.format_exception(error)).rstrip())
    return message, code


def report(error: BaseException, *, debug: bool = False) -> int:
    """Print an exception as one line on standard error; its exit code. debug: with the traceback."""
    message, code = traced(error) if debug else describe_error(error)
    if message:
        fail(" ".join(message.split()))
    return code
