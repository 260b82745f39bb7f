"""One absolute observation on one unit or pool: whether it stands, by how much, and for how much of the window."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from inferdoc.audit import declared, latency_shape, quantities, role_imbalance
from inferdoc.audit.manifest import FIELDS
from inferdoc.audit.quantities import Amount, Quantity, pool_mean
from inferdoc.audit.window_data import SETTINGS, Watched
from inferdoc.catalogue.standing import QUANTILES, Absolute
from inferdoc.fleet.members import UNKNOWN_TIER, Pool
from inferdoc.judging.order import middles, ranked_rows, row_percentile, rows_of
from inferdoc.judging.view import Unit
from inferdoc.words import figure, percent

REGISTRY: Mapping[str, Quantity] = {
    name: quantity
    for module in (quantities, declared, latency_shape, role_imbalance)
    for name, quantity in module.QUANTITIES.items()
}
"""Every quantity by the name that observations.yaml and the steps of states use."""
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
    quiet: too little traffic; text: in words, empty if the observation is false, which no report shows."""

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


def observe(
    name: str, one: Absolute, watched: Watched, groups: Sequence[Sequence[Unit]], pool: Pool | None = None
) -> list[ObservedUnit]:
    """The observation on each group of units, in their order: one unit each, or with `pool` all units of the pool,
    whose mean is compared. Series of all groups are evaluated together."""
    if one.setting is not None:
        return [_setting(name, one, watched, units) for units in groups]
    if one.tier is not None:
        return [_tier(name, one, watched, units[0]) for units in groups]
    title, measure, inputs = _named(one, watched)
    subject = one.subject
    limit_of = cache(partial(watched.number, str(one.limit)))
    found: dict[int, ObservedUnit] = {}
    rows: dict[int, np.ndarray] = {}
    for number, units in enumerate(groups):
        if not one.always and all(watched.quiet(each) for each in units):
            found[number] = ObservedUnit(name, None, "too little traffic", subject, quiet=True)
            continue
        values = _amount(one, watched, units[0], pool)
        if isinstance(values, np.ndarray):
            rows[number] = values
        elif values is None:
            missing = _missing(one, watched, units, inputs)
            optional = all(watched.signals[s].feature for s in missing if s in watched.signals) and bool(missing)
            words = f"{title}: not visible"
            found[number] = ObservedUnit(name, None, words, subject, missing=missing, inapplicable=optional)
        else:
            limit = limit_of(units[0].member.tier)
            holds = bool(values > limit if one.above else values < limit)
            words = _words(title, one, values, limit, measure, None) if holds else ""
            found[number] = ObservedUnit(name, holds, words, subject, float(values), limit, measure)
    if rows:
        limits = np.array([limit_of(groups[number][0].member.tier) for number in rows])
        stacked = rows_of(list(rows.values()))
        if not one.always:
            stacked = np.where(watched.busy_in_any([groups[number] for number in rows]), stacked, np.nan)
        found |= zip(rows, _over_time(name, one, watched, title, measure, stacked, limits), strict=True)
    return [found[number] for number in range(len(groups))]


def _over_time(
    name: str, one: Absolute, watched: Watched, title: str, measure: str, values: np.ndarray, limits: np.ndarray
) -> list[ObservedUnit]:
    """The observation on each row of float64[n, T], NaN at steps that do not count. limits: float64[n]."""
    known = np.isfinite(values)
    within = watched.in_parts(np.where(known, values, np.nan))
    count = np.isfinite(within).sum(axis=2)
    enough = (count > 0) & (count >= LEAST_OF_PART * within.shape[2])
    means = np.where(enough, np.nansum(within, axis=2) / np.maximum(count, 1), np.nan)
    parts = enough.sum(axis=1)
    beyond = means > limits[:, np.newaxis] if one.above else means < limits[:, np.newaxis]
    shares = beyond.sum(axis=1) / np.maximum(parts, 1)
    if one.at is not None:
        amounts = row_percentile(ranked_rows(values, known), known.sum(axis=1), QUANTILES[one.at])
        holding = amounts > limits if one.above else amounts < limits
    else:
        amounts = middles(means, enough)
        holding = shares >= watched.number(one.share or "standing_share")
    least = watched.number("standing_least_parts")
    found = list[ObservedUnit]()
    for row, (number, holds) in enumerate(zip(parts.tolist(), holding.tolist(), strict=True)):
        if number < least:
            words = f"{title}: too little of the window shows it"
            found.append(ObservedUnit(name, None, words, one.subject, quiet=True))
            continue
        value, limit, held = float(amounts[row]), float(limits[row]), float(shares[row])
        words = _words(title, one, value, limit, measure, held) if holds else ""
        if measure == "bits":
            seen = values[row][known[row]]
            masks = seen[seen > limit] if (seen > limit).any() else seen
            value = float(np.bitwise_or.reduce(masks.astype(np.int64)))
            words = f"{title}: {figure(value, measure)}, in {percent(held)} of the busy window" if holds else ""
        found.append(ObservedUnit(name, holds, words, one.subject, value, limit, measure, held))
    return found


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


def _named(one: Absolute, watched: Watched) -> tuple[str, str, tuple[str, ...]]:
    """Title, unit of measure and the signals that it needs."""
    if one.signal is not None:
        declared = watched.signals[one.signal]
        return declared.title, declared.unit, (one.signal,)
    quantity = REGISTRY[str(one.quantity)]
    return quantity.title, quantity.unit, quantity.inputs


def _missing(one: Absolute, watched: Watched, units: Sequence[Unit], inputs: tuple[str, ...]) -> tuple[str, ...]:
    """The inputs that no unit has, and the setting of the quantity if no unit shows it."""
    missing = tuple(name for name in inputs if all(watched.values(unit, name) is None for unit in units))
    setting = None if one.quantity is None else REGISTRY[one.quantity].setting
    if setting is not None and not any(setting in watched.settings.get(unit, {}) for unit in units):
        missing += (_source_of_setting(setting),)
    return missing


def _words(title: str, one: Absolute, value: float, limit: float, measure: str, held: float | None) -> str:
    """An observation that is true, in words."""
    side = "above" if one.above else "below"
    words = f"{title} is {side} {figure(limit, measure)}: {figure(value, measure)}"
    if one.at is not None:
        return f"{words} {QUANTILE_WORDS[one.at]} of the window"
    return words if held is None else f"{words}, in {percent(held)} of the {'' if one.always else 'busy '}window"


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
