"""Quantiles by name: `ttft_p95` is the histogram of `ttft_p99`, read at another place.

A declared signal says where a quantile comes from; which percentile an objective names, or a user looks at, is theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import structs

from inferdoc.catalogue.signal import Signal

NAME = re.compile(r"(?P<family>.+)_p(?P<digits>\d{2,6})")


def families(signals: Mapping[str, Signal]) -> dict[str, str]:
    """The signals that are quantiles of one histogram: family (`ttft`) -> the highest that is declared (`ttft_p99`)."""
    found: dict[str, str] = {}
    for name, signal in signals.items():
        match = NAME.fullmatch(name)
        if match and all(reading.quantile for reading in signal.readings):
            found[match["family"]] = max(name, found.get(match["family"], name), key=share_of)
    return found


def quantile_name(family: str, percentile: float) -> str:
    """("ttft", 99.9) -> "ttft_p999"."""
    whole, _, rest = f"{percentile:.4f}".rstrip("0").partition(".")
    return f"{family}_p{whole:0>2}{rest}"


def share_of(name: str) -> float:
    """The share of observations at or below a quantile, by its name: ttft_p999 -> 0.999; 0 for another name."""
    match = NAME.fullmatch(name)
    return float(f"0.{match['digits']}") if match else 0.0


def with_quantiles(signals: Mapping[str, Signal], names: Iterable[str]) -> dict[str, Signal]:
    """The signals, and those of the names that are another quantile of a declared family."""
    found, known = dict(signals), families(signals)
    for name in names:
        match = NAME.fullmatch(name)
        if name not in found and match and match["family"] in known:
            found[name] = _at(signals[known[match["family"]]], match["digits"])
    return found


def _at(signal: Signal, digits: str) -> Signal:
    readings = tuple(structs.replace(reading, q=float(f"0.{digits}")) for reading in signal.readings)
    title = re.sub(r"\bp\d{2,6}\b|\bmedian\b", f"p{digits}", signal.title)
    return structs.replace(signal, title=title, readings=readings)
