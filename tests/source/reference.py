"""Prometheus' range functions written out sample by sample, as promql/functions.go (2.42) does: the yardstick."""

from __future__ import annotations

import math

Points = list[tuple[int, float]]


def inside(points: Points, end_ms: int, length_ms: int) -> Points:
    return [(t, v) for t, v in points if end_ms - length_ms <= t <= end_ms]


def extrapolated_rate(points: Points, end_ms: int, length_ms: int, per_second: bool) -> float | None:
    window = inside(points, end_ms, length_ms)
    if len(window) < 2:
        return None
    (first_t, first), (last_t, last) = window[0], window[-1]
    result = last - first
    previous = first
    for _, value in window[1:]:
        if value < previous:
            result += previous
        previous = value
    to_start = (first_t - (end_ms - length_ms)) / 1000
    to_end = (end_ms - last_t) / 1000
    sampled = (last_t - first_t) / 1000
    average = sampled / (len(window) - 1)
    if result > 0 and first >= 0:
        to_zero = sampled * (first / result)
        if to_zero < to_start:
            to_start = to_zero
    threshold = average * 1.1
    extrapolated = sampled
    extrapolated += to_start if to_start < threshold else average / 2
    extrapolated += to_end if to_end < threshold else average / 2
    factor = extrapolated / sampled
    if per_second:
        factor /= length_ms / 1000
    return result * factor


def over_time(points: Points, end_ms: int, length_ms: int, fn: str) -> float | None:
    values = [v for _, v in inside(points, end_ms, length_ms)]
    if not values:
        return None
    if fn == "last":
        return values[-1]
    if fn == "mean":
        return sum(values) / len(values)
    best = values[0]
    for value in values:
        if math.isnan(best) or (value > best if fn == "max" else value < best):
            best = value
    return best


def evaluate(points: Points, end_ms: int, length_ms: int, fn: str) -> float | None:
    if fn in ("rate", "increase"):
        return extrapolated_rate(points, end_ms, length_ms, fn == "rate")
    return over_time(points, end_ms, length_ms, fn)


def combine(values: list[float], agg: str) -> float:
    if agg == "sum":
        return sum(values)
    best = values[0]
    for value in values:
        if math.isnan(best) or (value > best if agg == "max" else value < best):
            best = value
    return best
