"""The errors a user can meet. Each is one line: what, where, and what to do."""

from __future__ import annotations

from enum import IntEnum

NOT_JSON = (ValueError, RecursionError)
"""What a decoder of JSON raises for a text that is none: malformed, of another type, not UTF-8, a number with thousands
of digits, or nested too deep."""


class ExitCode(IntEnum):
    """Exit codes of the command line; a contract that is never changed."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    UNKNOWN = 3
    SOURCE = 4
    INTERRUPTED = 130


class InferdocError(Exception):
    """A fault the user can act on; printed as one line, never as a traceback."""

    exit_code: int = ExitCode.USAGE


class CatalogueError(InferdocError):
    """A YAML file of the catalogue is wrong: names the file, the line or path, and what was expected."""


class ConfigError(InferdocError):
    """The configuration is wrong."""


class SourceError(InferdocError):
    """A source could not be read."""

    exit_code: int = ExitCode.SOURCE


class TooSlowError(SourceError):
    """A source was not read within the time that a read may take; a shorter time range may do."""
