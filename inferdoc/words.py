"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from inferdoc.catalogue.gpu_codes import clock_reasons, sxid, xid


def percent(share: float) -> str:
    """0.876 as "88 %"."""
    return f"{100 * share:.0f} %"


def figure(value: float | None, unit: str = "") -> str:
    """A value with its unit: 0.0237 s -> "23.7 ms", 0.953 ratio -> "95.3 %", 1.2e7 bytes/s -> "12 MB/s"."""
    if value is None or math.isnan(value):
        return "nothing"
    if unit == "bits":
        return clock_reasons(value)
    if unit in ("Xid", "SXid"):
        return xid(value) if unit == "Xid" else sxid(value)
    if unit.endswith("/s"):  # a rate over a counter that was corrected, as of requests without the aborted ones
        value = max(value, 0.0)
    if unit == "ratio":
        return f"{_short(100 * value)} %"
    if unit in ("s", "s/token"):
        tail = "/token" if unit == "s/token" else ""
        if abs(value) >= 1:
            return f"{_short(value)} s{tail}"
        if abs(value) >= 1e-3 or value == 0:
            return f"{_short(1e3 * value)} ms{tail}"
        return f"{_short(1e6 * value)} µs{tail}"
    if unit in ("bytes/s", "bytes"):
        for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= size:
                return f"{_short(value / size)} {prefix}B{unit[5:]}"
    if unit == "bool":
        return "yes" if value >= 0.5 else "no"
    if unit == "1/s":
        return f"{_short(value)}/s"
    if unit == "count":
        return _short(value)
    return f"{_short(value)} {unit}".rstrip()


def _short(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def within_sentence(title: str) -> str:
    """A title inside a sentence: "Requests arriving" -> "requests arriving", "KV cache in use" as it is."""
    return title if title[:2].isupper() else title[:1].lower() + title[1:]


def some(names: Sequence[str], most: int) -> str:
    """At most so many names, and how many are left: "a, b and 3 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def how_many(number: int, thing: str) -> str:
    """A count of things: "1 target", "2,000 targets"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def lasting(seconds: float) -> str:
    """A length of time to the precision that people speak of it: "45 s", "12 min", "3 h 20 min", "4 days"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return how_many(round(seconds / 86_400), "day")
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
