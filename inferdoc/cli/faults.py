"""A fault as one line on standard error and an exit code: what, where, what to do."""

from __future__ import annotations

import os
import traceback

import click

from inferdoc.cli import messages
from inferdoc.errors import ExitCode, InferdocError

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
        messages.trace("".join(traceback.format_exception(error)).rstrip())
    return message, code


def report(error: BaseException, *, debug: bool = False) -> int:
    """Print an exception as one line on standard error; its exit code. debug: with the traceback."""
    message, code = traced(error) if debug else describe_error(error)
    if message:
        messages.fail(" ".join(message.split()))
    return code
