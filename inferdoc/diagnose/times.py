"""Times as the user writes them: RFC 3339, Unix seconds, now, latest, durations."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from inferdoc.diagnose.words import seconds
from inferdoc.errors import InferdocError

Moment = str | float | int | datetime | timedelta
DEFAULT_SINCE = "1h"


def moment_ms(value: Moment, latest_ms: int | None, now: float | None = None) -> int:
    """Milliseconds since the epoch. "latest" without any sample falls back to now."""
    now = time.time() if now is None else now
    if isinstance(value, datetime):
        return round((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000)
    if isinstance(value, int | float):
        return round(float(value) * 1000)
    if isinstance(value, timedelta):
        return round((now - value.total_seconds()) * 1000)
    text = value.strip()
    if text == "now":
        return round(now * 1000)
    if text == "latest":
        return latest_ms if latest_ms is not None else round(now * 1000)
    if text.startswith("now-"):
        return round((now - duration_seconds(text[4:])) * 1000)
    try:
        return round(float(text) * 1000)
    except ValueError:
        pass
    try:
        parsed = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise InferdocError(
            f"{value!r} is not a time: write RFC 3339 (2026-11-21T10:00:00Z), Unix seconds, now or latest"
        ) from None
    return round((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)


def duration_seconds(value: str | float | timedelta) -> float:
    """Seconds of "90s", "15m", "1h", "2d", a timedelta, or plain seconds."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, int | float):
        return float(value)
    try:
        found = seconds(value)
    except ValueError:
        raise InferdocError(f"{value!r} is not a duration: write 90s, 15m, 1h or 2d") from None
    if found <= 0:
        raise InferdocError(f"{value!r} is not a duration above zero")
    return found


def resolve_window(since: Moment | None, from_: Moment | None, until: Moment, latest_ms: int | None) -> tuple[int, int]:
    """(from, until) in milliseconds; without `since` and `from_` the last hour."""
    if since is not None and from_ is not None:
        raise InferdocError("--since and --from say the same thing twice: give one of them")
    until_ms = moment_ms(until, latest_ms)
    if from_ is not None:
        from_ms = moment_ms(from_, latest_ms)
    else:
        length = since if since is not None else DEFAULT_SINCE
        if isinstance(length, datetime):
            from_ms = moment_ms(length, latest_ms)
        else:
            from_ms = until_ms - round(duration_seconds(length) * 1000)
    if from_ms >= until_ms:
        raise InferdocError("the window is empty: its beginning is not before its end")
    return from_ms, until_ms
