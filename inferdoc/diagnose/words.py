"""Numbers and durations as people read them."""

from __future__ import annotations

import math

DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def figure(value: float | None, unit: str = "") -> str:
    """A value with its unit: 0.0237 s -> "23.7 ms", 0.953 ratio -> "95.3 %", 1.2e7 bytes/s -> "12 MB/s"."""
    if value is None or math.isnan(value):
        return "nothing"
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
    return f"{_short(value)} {unit}".rstrip()


def _short(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def seconds(text: str) -> float:
    """Seconds of a Prometheus-like duration ("90s", "15m", "1h30m"); raises ValueError."""
    total, number = 0.0, ""
    rest = text.strip()
    if not rest:
        raise ValueError("empty duration")
    while rest:
        digits = len(rest) - len(rest.lstrip("0123456789."))
        number, rest = rest[:digits], rest[digits:]
        unit = next((u for u in ("ms", "s", "m", "h", "d", "w") if rest.startswith(u)), None)
        if not number or unit is None:
            raise ValueError(f"{text!r} is not a duration such as 90s, 15m, 1h, 2d")
        total += float(number) * DURATION_UNITS[unit]
        rest = rest[len(unit) :]
    return total
