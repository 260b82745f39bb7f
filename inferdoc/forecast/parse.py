"""Durations, moments and dates as people write them."""

from __future__ import annotations

import re
import time
from datetime import UTC, date, datetime
from pathlib import Path

from inferdoc.errors import InferdocError

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")
PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def seconds_of(text: str, what: str) -> int:
    """`90s 15m 1h 2d 1h30m` as whole seconds; InferdocError otherwise."""
    cleaned = text.strip().lower()
    if not DURATION.fullmatch(cleaned):
        raise InferdocError(f"{what} `{text}` is not a duration; write for example 90s, 15m, 24h or 7d")
    total = sum(float(value) * UNITS[unit] for value, unit in PART.findall(cleaned))
    if total < 1:
        raise InferdocError(f"{what} `{text}` is less than a second")
    return round(total)


def moment_of(text: str, what: str) -> int:
    """RFC 3339, Unix seconds or `now` as Unix seconds; InferdocError otherwise."""
    cleaned = text.strip()
    if cleaned.lower() == "now":
        return int(time.time())
    try:
        return int(float(cleaned))
    except ValueError:
        pass
    try:
        parsed = datetime.fromisoformat(cleaned)
    except ValueError as fault:
        raise InferdocError(
            f"{what} `{text}` is not a time; write RFC 3339 such as 2026-03-01T08:00:00Z, or Unix seconds"
        ) from fault
    return int(parsed.replace(tzinfo=parsed.tzinfo or UTC).timestamp())


def dates_of(path: str | None) -> tuple[date, ...]:
    """The dates of a holiday file: YYYY-MM-DD at the start of a line; the rest of the line, blank lines and # are left
    out."""
    if path is None:
        return ()
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        raise InferdocError(f"{path}: cannot be read as text: {fault}") from fault
    found = []
    for number, line in enumerate(lines, start=1):
        word = line.split("#")[0].replace(",", " ").split()
        if not word:
            continue
        try:
            found.append(date.fromisoformat(word[0]))
        except ValueError as fault:
            raise InferdocError(f"{path}: line {number}: `{word[0][:30]}` is not a date; write YYYY-MM-DD") from fault
    return tuple(found)
