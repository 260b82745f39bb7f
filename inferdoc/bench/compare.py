"""Compare a benchmark with a live pool at one load, and list why they differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from inferdoc.bench.curve import Curve
from inferdoc.catalogue.document import nearest
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import assignments_of
from inferdoc.forecast.fromsource import Gathered, Key, gather, pool_name
from inferdoc.forecast.series import DAY
from inferdoc.json_document import JsonDocument
from inferdoc.judging.settings import CACHE_SETTINGS, newest_settings, settings_of
from inferdoc.sizing.model import Predicted
from inferdoc.slo.model import Objective
from inferdoc.source.grid import make_grid, scrape_interval_ms
from inferdoc.times import seconds_of
from inferdoc.words import figure

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.config import Config
    from inferdoc.fleet.members import Pool
    from inferdoc.source.identified import Identified


BENCH_SCHEMA_ID = "inferdoc.bench/v1"


class LevelRow(msgspec.Struct, frozen=True, rename={"requested": "asked"}):
    """One level. requested: requests/s, or requests at a time, by `drive`; served: requests/s; seconds: of the
    measurement; latencies: signal -> seconds; within: whether it keeps all objectives that it has readings of, None
    where it has none; marks: what to know about it."""

    file: str
    drive: str
    requested: float | None
    served: float
    seconds: float
    completed: int
    failed: int
    prompt_tokens: float | None
    output_tokens: float | None
    latencies: dict[str, float]
    within: bool | None
    marks: list[str]


class BenchCurve(msgspec.Struct, frozen=True):
    """Levels that differ in their load alone. numbers: what they prove; notes: what to know before using them."""

    title: str
    settings: dict[str, str]
    levels: list[LevelRow]
    numbers: list[Predicted]
    notes: list[str]

    def number(self, name: str) -> Predicted | None:
        """One of the numbers."""
        return next((each for each in self.numbers if each.name == name), None)


class Beside(msgspec.Struct, frozen=True):
    """One quantity of both. ratio: production over benchmark; None where one is not known."""

    name: str
    title: str
    unit: str
    benchmark: float | None
    production: float | None
    ratio: float | None


class Reason(msgspec.Struct, frozen=True):
    """Why production differs. kind: lengths, prefix, flags, tier, model, failures or unexplained; times: by how much it
    moves the latency of `signal`, None where no formula says."""

    kind: str
    statement: str
    signal: str = ""
    times: float | None = None


class ProductionBeside(msgspec.Struct, frozen=True):
    """The pool beside the benchmark at one load. load: requests/s of a replica, None where production never was
    at a load of the benchmark; minutes: of production at that load, added up over pods."""

    pool: str
    load: float | None
    minutes: float
    rows: list[Beside]
    reasons: list[Reason]
    numbers: list[Predicted]
    notes: list[str]


class BenchAnswer(JsonDocument):
    """Everything. assumed: what nobody gave."""

    schema: str
    inferdoc_version: str
    model: str
    summary: str
    objectives: list[Objective]
    curves: list[BenchCurve]
    production: ProductionBeside | None
    assumed: list[str]


RATE = "request_rate"
LATENCIES = ("ttft_p50", "ttft_p99", "tpot_request_p99", "itl_p99", "e2e_p99")
READ = (RATE, "prompt_len_mean", "output_len_mean", "prefix_hit_ratio", "error_share", *LATENCIES)
STEP = 300
SETTINGS_MS = 3_600_000
"""Settings are those of the last hour."""


@dataclass(frozen=True)
class ProductionPool:
    """rows: signal -> float64[readings], one per pod and step in which it served, NaN if unknown; settings: those
    of its cache, which vLLM shows."""

    name: str
    pool: Pool
    rows: Mapping[str, np.ndarray]
    settings: Mapping[str, str]

    @property
    def rate(self) -> np.ndarray:
        """float64[readings]: requests/s of a pod."""
        return self.rows[RATE]


def production_for_request(
    source: Identified, config: Config, catalogue: Catalogue, options: Mapping[str, Any]
) -> ProductionPool:
    """The pool that --against names. Raises InferdocError, SourceError."""
    days = max(1, math.ceil(seconds_of(options["history"], "--history") / DAY))
    made = gather(source, READ, catalogue.tiers, assignments_of(config.pods), days=days, step=STEP)
    pools = {pool_name(pool): (pool, keys) for pool, keys in made.pools().items()}
    name = options["against"]
    if name not in pools:
        raise InferdocError(f'--against: no pool "{name}"{nearest(name, pools)}; pools: {", ".join(sorted(pools))}')
    pool, keys = pools[name]
    rows = _served(made, keys)
    if not len(rows[RATE]):
        raise InferdocError(
            f"--against {name}: no request was served in the last {options['history']}; a longer --history"
        )
    return ProductionPool(name, pool, rows, _settings(source, keys))


def _served(made: Gathered, keys: Sequence[Key]) -> dict[str, np.ndarray]:
    columns = {signal: np.concatenate([made.row(signal, key) for key in keys]) for signal in READ}
    known = np.nan_to_num(columns[RATE]) > 0
    return {signal: values[known] for signal, values in columns.items()}


def _settings(source: Identified, keys: Sequence[Key]) -> Mapping[str, str]:
    newest = source.latest_ms()
    if newest is None:
        return {}
    interval = scrape_interval_ms(source.scrapes(newest - SETTINGS_MS, newest))
    shown = newest_settings(source.info(CACHE_SETTINGS, make_grid(newest - SETTINGS_MS, newest, interval, newest)))
    return next((labels for key in keys if (labels := settings_of(shown, key))), {})


NEAR = 0.2
"""Readings of production whose rate is within a fifth are at the same load (own choice)."""
BUSY = 0.75
"""Quantile of the rates of production at which it is compared: nights say little of what a benchmark measured."""
FEWEST = 6
"""Half an hour of one pod: below it a median is chance (own choice)."""
ALARM = 1.3
"""A p99 so many times that of the benchmark: what was sized on it has to be sized again (field guide to sizing)."""
SAME = 0.1
"""Lengths, hits and latencies closer than this are the same (reference: capacity, section G)."""
PREFIX_NOTES = ("prefix_share", "prefix_hit_ratio")
"""How somebody may note the share of cached prompt tokens with a run."""
TIER_NOTES = ("tier", "gpu", "accelerator")
TITLES = {
    "prompt_len_mean": ("prompt, mean", "tokens"),
    "output_len_mean": ("answer, mean", "tokens"),
    "prefix_hit_ratio": ("prefix hits", "ratio"),
    "error_share": ("failed", "ratio"),
    "ttft_p50": ("TTFT p50", "s"),
    "ttft_p99": ("TTFT p99", "s"),
    "tpot_request_p99": ("TPOT p99", "s"),
    "itl_p99": ("ITL p99", "s"),
    "e2e_p99": ("whole request p99", "s"),
}


@dataclass(frozen=True)
class _Both:
    """One load on both sides. at: bool[readings], production at it; bench, live: signal -> value."""

    at: np.ndarray
    bench: Mapping[str, float]
    live: Mapping[str, float]

    def ratio(self, name: str) -> float | None:
        one, other = self.bench.get(name), self.live.get(name)
        return None if one is None or other is None or one <= 0 else other / one


def beside(curve: Curve, pool: ProductionPool, replicas: int, tier: str | None) -> ProductionBeside:
    """curve: of so many replicas; tier: the hardware of the benchmark if known."""
    levels = curve.served / replicas
    load = float(np.clip(np.quantile(pool.rate, BUSY), levels[0], levels[-1]))
    at = np.abs(pool.rate - load) <= NEAR * load
    together = at.sum() >= FEWEST
    bench = _benched(curve, load * replicas)
    live = _seen(pool, at if together else np.ones_like(at))
    both = _Both(at, bench, live)
    shown = [name for name in TITLES if together or name not in LATENCIES]
    rows = [
        Beside(name, *TITLES[name], both.bench.get(name), both.live.get(name), both.ratio(name))
        for name in shown
        if name in both.bench or name in both.live
    ]
    reasons = [*_identity(curve, pool, tier), *_flags(curve, pool), *_work(both, together)]
    numbers = list(_ratios(curve, pool, both)) if together else []
    minutes = float(at.sum()) * STEP / 60
    notes = list(_notes(curve, pool, both, levels, together))
    return ProductionBeside(pool.name, load if together else None, minutes, rows, reasons, numbers, notes)


def _benched(curve: Curve, rate: float) -> dict[str, float]:
    """The benchmark at a rate: latencies on the line between two levels."""
    first = curve.levels[0]
    found = {"error_share": float(np.interp(rate, curve.served, [level.failed_share for level in curve.levels]))}
    for name, value in (("prompt_len_mean", first.prompt_tokens), ("output_len_mean", first.output_tokens)):
        if value is not None:
            found[name] = value
    noted = next((first.settings[key] for key in PREFIX_NOTES if key in first.settings), None)
    if noted is not None and (share := _number(noted)) is not None and 0 <= share < 1:
        found["prefix_hit_ratio"] = share
    for name in LATENCIES:
        seen = [level.reading(name) for level in curve.levels]
        exact = [each[0] for each in seen if each is not None and each[1] == name]
        if len(exact) == len(seen):
            found[name] = float(np.interp(rate, curve.served, exact))
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _seen(pool: ProductionPool, at: np.ndarray) -> dict[str, float]:
    found = {}
    for name in TITLES:
        values = pool.rows[name][at]
        if np.isfinite(values).any():
            found[name] = float(np.nanmedian(values))
    return found


def _identity(curve: Curve, pool: ProductionPool, tier: str | None) -> Iterator[Reason]:
    ran = tier or next((curve.levels[0].settings[key] for key in TIER_NOTES if key in curve.levels[0].settings), None)
    if ran is not None and ran.lower() != pool.pool.tier.lower():
        yield Reason("tier", f"the benchmark ran on {ran}, the pool runs on {pool.pool.tier}")
    if curve.model != pool.pool.model:
        yield Reason("model", f"the benchmark is of {curve.model}, the pool serves {pool.pool.model}")


def _flags(curve: Curve, pool: ProductionPool) -> Iterator[Reason]:
    noted = {key.lstrip("-").replace("-", "_"): value for key, value in curve.levels[0].settings.items()}
    for key, value in noted.items():
        live = pool.settings.get(key)
        if live is not None and live.lower() != value.lower():
            yield Reason("flags", f"{key}: {value} in the benchmark, {live} in production")


def _work(both: _Both, together: bool) -> Iterator[Reason]:
    """What other requests do to the latencies. A prompt takes time in proportion to the tokens that are computed."""
    explained = 1.0
    prompt, answer = both.ratio("prompt_len_mean"), both.ratio("output_len_mean")
    if prompt is not None and abs(prompt - 1) > SAME:
        explained *= prompt
        yield Reason("lengths", f"prompts are {prompt:.2f} times as long: so is prefill", "ttft_p99", prompt)
    cached = both.bench.get("prefix_hit_ratio", 0.0), both.live.get("prefix_hit_ratio", 0.0)
    computed = (1 - cached[1]) / (1 - cached[0])
    if abs(computed - 1) > SAME:
        noted = figure(cached[0], "ratio") if "prefix_hit_ratio" in both.bench else "none noted"
        words = f"prefix hits: {noted} in the benchmark, {figure(cached[1], 'ratio')} in production"
        explained *= computed
        yield Reason("prefix", f"{words}: {computed:.2f} times the tokens are computed", "ttft_p99", computed)
    if answer is not None and abs(answer - 1) > SAME:
        yield Reason(
            "lengths", f"answers are {answer:.2f} times as long: so many more stream at once", "tpot_request_p99"
        )
    failed = both.live.get("error_share", 0.0), both.bench.get("error_share", 0.0)
    if failed[0] > failed[1] + SAME / 10:
        words = f"{figure(failed[0], 'ratio')} fail in production, {figure(failed[1], 'ratio')} in the benchmark"
        yield Reason("failures", f"{words}: what fails early takes no time of others")
    seen = both.ratio("ttft_p99")
    if together and seen is not None and abs(seen / explained - 1) > SAME:
        rest = seen / explained
        words = f"TTFT p99 is {seen:.2f} times that of the benchmark; the work explains {explained:.2f}"
        yield Reason("unexplained", f"{words}, {rest:.2f} is left: bursts, routing, flags, hardware", "ttft_p99", rest)


def _ratios(curve: Curve, pool: ProductionPool, both: _Both) -> Iterator[Predicted]:
    for name in LATENCIES:
        ratio = both.ratio(name)
        if ratio is None:
            continue
        values = pool.rows[name][both.at]
        low, high = np.nanquantile(values, (0.1, 0.9)) / both.bench[name]
        yield Predicted(
            f"times_{name}",
            f"{TITLES[name][0]}, live over benchmark",
            ratio,
            float(low),
            float(high),
            "times",
            "median of production at the load / the benchmark on the line between its levels",
            {"production": figure(both.live[name], "s"), "benchmark": figure(both.bench[name], "s")},
            f"{pool.name}, {int(both.at.sum())} readings of five minutes; {curve.levels[0].file}",
        )


def _notes(curve: Curve, pool: ProductionPool, both: _Both, levels: np.ndarray, together: bool) -> Iterator[str]:
    if not together:
        seen = f"{figure(float(pool.rate.min()), '1/s')} to {figure(float(pool.rate.max()), '1/s')}"
        ran = f"{figure(float(levels[0]), '1/s')} to {figure(float(levels[-1]), '1/s')}"
        yield f"a replica serves {seen} in production and {ran} in the benchmark: no latencies are compared"
    ratio = both.ratio("ttft_p99")
    if together and ratio is not None and ratio > ALARM:
        yield f"TTFT p99 is {100 * (ratio - 1):.0f} % over the benchmark: what was sized on it has to be sized again"
    unseen = [key for key in curve.levels[0].settings if key.lstrip("-").replace("-", "_") not in pool.settings]
    plain = [key for key in unseen if key not in (*PREFIX_NOTES, *TIER_NOTES)]
    if plain:
        yield f"noted with the benchmark, and not visible in production: {', '.join(plain)}"
    if not curve.levels[0].settings:
        yield "no flags are noted with the benchmark, so none can be compared: vllm bench serve --metadata notes them"
