"""Times as people write them: durations, RFC 3339, Unix seconds, now, latest."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

from inferdoc.errors import InferdocError

Moment = str | float | int | datetime | timedelta
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+")
PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
DEFAULT_SINCE = "1h"
AROUND_MS = 1_800_000
"""Half an hour on either side of a time, the default hour in all: an alert waits minutes in `for` and in its rate
windows, so that what it shows started before it did."""
LONGEST_SECONDS = 36_500 * 86_400.0
"""A duration beyond a hundred years is a slip of the keyboard."""
LATEST_SECONDS = 7_258_118_400.0
"""The year 2200. Beyond it, and before 1970, no fleet was scraped: most such times are Unix milliseconds."""


def length_of(text: str, what: str = "duration") -> float:
    """Seconds of `500ms 90s 15m 1h 2d 1h30m`; InferdocError otherwise."""
    cleaned = text.strip().lower()
    if not DURATION.fullmatch(cleaned):
        raise InferdocError(f"{what} `{text}` is not a duration; write for example 90s, 15m, 24h or 7d")
    total = sum(float(value) * UNITS[unit] for value, unit in PART.findall(cleaned))
    if total > LONGEST_SECONDS:
        raise InferdocError(f"{what} `{text}` is longer than a hundred years; write for example 90s, 15m, 24h or 7d")
    return total


def timeout_of(text: str, what: str = "--timeout") -> float:
    """A duration after which to give up, in seconds: above 0 and at most a day, which is what sockets take."""
    total = length_of(text, what)
    if not 0 < total <= UNITS["d"]:
        raise InferdocError(f"{what} `{text}` is not between 1ms and 1d")
    return total


def seconds_of(text: str, what: str) -> int:
    """A duration as whole seconds, at least one."""
    total = length_of(text, what)
    if total < 1:
        raise InferdocError(f"{what} `{text}` is less than a second")
    return round(total)


def moment_of(text: str, what: str) -> int:
    """RFC 3339, Unix seconds or `now` as Unix seconds; InferdocError otherwise."""
    return moment_ms(text, None, what=what) // 1000


def moment_ms(value: Moment, latest_ms: int | None, now: float | None = None, what: str = "time") -> int:
    """Milliseconds since the epoch. "latest" is the newest sample; without any it falls back to now."""
    found = _moment_ms(value, latest_ms, time.time() if now is None else now, what)
    if not 0 <= found <= LATEST_SECONDS * 1000:
        if latest_ms is not None and found == latest_ms:
            raise InferdocError(
                f"{what} `latest`: the newest sample is dated {found // 1000} s, not within the years 1970 to 2200; "
                "say a time instead"
            )
        raise InferdocError(
            f"{what} `{value}` is not within the years 1970 to 2200; a number counts Unix seconds, not milliseconds"
        )
    return found


def _moment_ms(value: Moment, latest_ms: int | None, now: float, what: str) -> int:
    if isinstance(value, datetime):
        return round((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000)
    if isinstance(value, int | float):
        return round(float(value) * 1000)
    if isinstance(value, timedelta):
        return round((now - value.total_seconds()) * 1000)
    text = value.strip()
    lower = text.lower()
    if lower == "now":
        return round(now * 1000)
    if lower == "latest":
        return latest_ms if latest_ms is not None else round(now * 1000)
    if lower.startswith("now-"):
        return round((now - length_of(text[4:], what)) * 1000)
    try:
        return round(float(text) * 1000)
    except (ValueError, OverflowError):
        pass
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise InferdocError(
            f"{what} `{value}` is not a time; write RFC 3339 such as 2026-03-01T08:00:00Z, Unix seconds, now or latest"
        ) from None
    return round((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)


def resolve_window(since: Moment | None, from_: Moment | None, until: Moment, latest_ms: int | None) -> tuple[int, int]:
    """(from, until) in milliseconds; without `since` and `from_` the last hour."""
    if since is not None and from_ is not None:
        raise InferdocError("--since and --from say the same thing twice: give one of them")
    until_ms = moment_ms(until, latest_ms, what="--until")
    if from_ is not None:
        from_ms = moment_ms(from_, latest_ms, what="--from")
    else:
        length = since if since is not None else DEFAULT_SINCE
        if isinstance(length, str):
            length = length_of(length, "--since")
        elif isinstance(length, timedelta):
            length = length.total_seconds()
        from_ms = (
            moment_ms(length, latest_ms) if isinstance(length, datetime) else max(0, until_ms - round(length * 1000))
        )
    if from_ms >= until_ms:
        raise InferdocError("the window is empty: its beginning is not before its end")
    return from_ms, until_ms


def rfc3339(moment: datetime | float, timespec: str = "auto") -> str:
    """A time, or Unix seconds, as RFC 3339 in UTC. timespec: as of `datetime.isoformat`."""
    known = datetime.fromtimestamp(moment, UTC) if isinstance(moment, (int, float)) else moment.astimezone(UTC)
    return known.isoformat(timespec=timespec).replace("+00:00", "Z")


def around_window(around: Moment, until: Moment, latest_ms: int | None) -> tuple[float, Moment]:
    """(from in Unix seconds, until) of the window around a time; an `until` that is a time of its own is kept."""
    middle_ms = moment_ms(around, latest_ms, what="--around")
    begin = max(0, middle_ms - AROUND_MS) / 1000
    if latest_ms is not None and 1000 * begin >= latest_ms:
        newest = moment_text(latest_ms)
        raise InferdocError(f"--around is more than half an hour after the newest sample, of {newest}: --until latest")
    if until not in ("now", "latest"):
        return begin, until
    end_ms = middle_ms + AROUND_MS
    return begin, "latest" if latest_ms is None or end_ms >= latest_ms else end_ms / 1000


def moment_text(milliseconds: int) -> str:
    """Milliseconds since 1970 as RFC 3339 in seconds; the number itself where no calendar reaches: a damaged time can
    be any number."""
    try:
        return rfc3339(milliseconds / 1000, "seconds")
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"
