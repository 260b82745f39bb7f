"""One absolute observation on one unit or pool: whether it stands, by how much, and for how much of the window."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferdoc.audit.manifest import FIELDS
from inferdoc.audit.quantities import Amount, pool_mean
from inferdoc.audit.registry import REGISTRY
from inferdoc.audit.window_data import SETTINGS, Watched
from inferdoc.catalogue.standing import QUANTILES, Absolute
from inferdoc.fleet.members import UNKNOWN_TIER, Pool
from inferdoc.judging.view import Unit
from inferdoc.words import figure

LEAST_OF_PART = 0.25
"""A part counts where so much of it is busy and visible."""
QUANTILE_WORDS = {
    "p01": "in all but the lowest hundredth",
    "p05": "in all but the lowest twentieth",
    "p95": "in all but the highest twentieth",
    "p99": "in all but the highest hundredth",
}


@dataclass(frozen=True)
class ObservedUnit:
    """holds: None if undetermined; value, limit in `unit`; held: share of the window; missing: signals;
    quiet: too little traffic; text: in words."""

    name: str
    holds: bool | None
    text: str
    subject: str = ""
    value: float | None = None
    limit: float | None = None
    unit: str = ""
    held: float | None = None
    missing: tuple[str, ...] = ()
    quiet: bool = False
    inapplicable: bool = False


def observe(name: str, one: Absolute, watched: Watched, units: Sequence[Unit], pool: Pool | None) -> ObservedUnit:
    """The observation on a unit, or with `pool` on the mean over the units of a pool."""
    unit = units[0]
    if one.setting is not None:
        return _setting(name, one, watched, units)
    if one.tier is not None:
        return _tier(name, one, watched, unit)
    if not one.always and all(watched.quiet(each) for each in units):
        return ObservedUnit(name, None, "too little traffic", one.subject, quiet=True)
    title, measure, missing = _named(one, watched, units)
    values = _amount(one, watched, unit, pool)
    if values is None:
        optional = all(watched.signals[s].feature for s in missing if s in watched.signals) and bool(missing)
        words = f"{title}: not visible"
        return ObservedUnit(name, None, words, one.subject, missing=missing, inapplicable=optional)
    limit = watched.number(str(one.limit), unit.member.tier)
    mask = np.ones(watched.view.steps, dtype=bool)
    if not one.always:
        mask = np.logical_or.reduce([watched.busy(each) for each in units])
    if not isinstance(values, np.ndarray):
        holds = values > limit if one.above else values < limit
        return ObservedUnit(
            name,
            holds,
            _words(title, one, values, limit, measure, None, holds),
            one.subject,
            float(values),
            limit,
            measure,
        )
    return _over_time(name, one, watched, title, measure, values, limit, mask)


def _over_time(
    name: str,
    one: Absolute,
    watched: Watched,
    title: str,
    measure: str,
    values: np.ndarray,
    limit: float,
    mask: np.ndarray,
) -> ObservedUnit:
    seen = np.where(mask & np.isfinite(values), values, np.nan)
    within = watched.in_parts(seen)
    count = np.isfinite(within).sum(axis=1)
    enough = (count > 0) & (count >= LEAST_OF_PART * within.shape[1])
    parts = np.nansum(within[enough], axis=1) / count[enough]
    if len(parts) < watched.number("standing_least_parts"):
        words = f"{title}: too little of the window shows it"
        return ObservedUnit(name, None, words, one.subject, quiet=True)
    held = float(np.mean(parts > limit if one.above else parts < limit))
    if one.at is not None:
        value = float(np.nanquantile(seen, QUANTILES[one.at]))
        holds = value > limit if one.above else value < limit
    else:
        value = float(np.median(parts))
        holds = held >= watched.number(one.share or "standing_share")
    words = _words(title, one, value, limit, measure, held, holds)
    if measure == "bits":
        beyond = seen[seen > limit] if (seen > limit).any() else seen[np.isfinite(seen)]
        value = float(np.bitwise_or.reduce(beyond.astype(np.int64)))
        words = f"{title}: {figure(value, measure)}" + (f", in {percent(held)} of the busy window" if holds else "")
    return ObservedUnit(name, holds, words, one.subject, value, limit, measure, held)


def _amount(one: Absolute, watched: Watched, unit: Unit, pool: Pool | None) -> Amount:
    if one.signal is not None:
        signal = one.signal
        if pool is None:
            return watched.values(unit, signal)
        return pool_mean(watched, pool, lambda each: watched.values(each, signal), busy=not one.always)
    quantity = REGISTRY[str(one.quantity)]
    if quantity.of_pool is not None:
        return quantity.of_pool(watched, unit.member.pool)
    of_unit = quantity.of_unit
    assert of_unit is not None
    if pool is None:
        return of_unit(watched, unit)
    return pool_mean(watched, pool, lambda each: of_unit(watched, each), busy=not one.always)


def _named(one: Absolute, watched: Watched, units: Sequence[Unit]) -> tuple[str, str, tuple[str, ...]]:
    """Title, unit of measure and those of the signals that nothing supplies."""
    if one.signal is not None:
        declared = watched.signals[one.signal]
        inputs: tuple[str, ...] = (one.signal,)
        title, measure = declared.title, declared.unit
    else:
        quantity = REGISTRY[str(one.quantity)]
        title, measure, inputs = quantity.title, quantity.unit, quantity.inputs
    missing = tuple(name for name in inputs if all(watched.values(unit, name) is None for unit in units))
    if one.quantity is not None and (setting := REGISTRY[one.quantity].setting) is not None:
        missing += () if any(setting in watched.settings.get(u, {}) for u in units) else (_source_of_setting(setting),)
    return title, measure, missing


def _words(title: str, one: Absolute, value: float, limit: float, measure: str, held: float | None, holds: bool) -> str:
    side = "above" if one.above else "below"
    verb = "is" if holds else "is not"
    words = f"{title} {verb} {side} {figure(limit, measure)}: {figure(value, measure)}"
    if holds and one.at is not None:
        return f"{words} {QUANTILE_WORDS[one.at]} of the window"
    return (
        words
        if held is None or not holds
        else f"{words}, in {percent(held)} of the {'' if one.always else 'busy '}window"
    )


def percent(share: float) -> str:
    """0.876 as "88 %"."""
    return f"{100 * share:.0f} %"


def _setting(name: str, one: Absolute, watched: Watched, units: Sequence[Unit]) -> ObservedUnit:
    """A setting counts where every unit shows it and it stood over most of the window."""
    label = str(one.setting)
    shown = [(watched.settings.get(unit) or {}).get(label) for unit in units]
    known = [entry for entry in shown if entry is not None]
    if len(known) < len(shown) or not known:
        return ObservedUnit(name, None, f"{label}: not visible", label, missing=(_source_of_setting(label),))
    value = known[0][0]
    if one.matches is not None:
        holds = all(re.fullmatch(one.matches, each) is not None for each, _ in known)
        words, amount, limit = f"{label} is {value}", None, None
    else:
        try:
            amount = float(value)
        except ValueError:
            return ObservedUnit(name, False, f"{label} is {value}", label)
        limit = watched.number(str(one.limit), units[0].member.tier)
        holds = amount > limit if one.above else amount < limit
        words = f"{label} is {amount:g}, {'above' if one.above else 'below'} {limit:g}"
    holds = holds and min(share for _, share in known) >= watched.number("standing_share")
    return ObservedUnit(name, holds, words, label, amount, limit)


def _source_of_setting(setting: str) -> str:
    """Where a setting would stand."""
    if setting.startswith("--") or setting in FIELDS:
        return f"--manifest: {setting}"
    return f"{SETTINGS}{{{setting}}}"


def _tier(name: str, one: Absolute, watched: Watched, unit: Unit) -> ObservedUnit:
    tier = watched.tiers.tiers.get(unit.member.tier)
    if tier is None or unit.member.tier == UNKNOWN_TIER:
        return ObservedUnit(name, None, "the hardware tier is not known", "tier", missing=("tier",))
    found = getattr(tier, str(one.tier))
    value, limit = (0.0 if found is None else float(found.value)), watched.number(str(one.limit), unit.member.tier)
    holds = value > limit if one.above else value < limit
    words = f"{tier.title}: {TIER_WORDS[str(one.tier)]} {f'{value:g}' if value else 'none'}"
    return ObservedUnit(name, holds, words, "tier", value, limit)


TIER_WORDS = {
    "memory_gib": "memory in GiB",
    "memory_gbps": "memory bandwidth in GB/s",
    "bf16_tflops": "BF16 arithmetic in TFLOPS",
    "fp8_tflops": "FP8 arithmetic in TFLOPS",
    "link_gbps": "link between GPUs in GB/s one way",
}
