"""From what prefill and decode pods counted to what plays them together.

Each side is fitted by itself, since each counts its own steps: prefill pods as engines that write one token, decode
pods behind an engine that takes no time. Together they are played for the holdout half and for every prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace as with_fields

from inferdoc.capacity.service_level import transfer_seconds
from inferdoc.simulate.link import Link
from inferdoc.sizing.choice import LINK_EFFICIENCY
from inferdoc.whatif.calibrate import (
    HOLDOUT_SEEDS,
    CalibratedPool,
    FittedPool,
    HoldoutError,
    PoolBasis,
    at_rates_of,
    holdout_quantile,
    holdout_row,
    pool_basis,
)
from inferdoc.whatif.live import APART, FINISHED, ITL, PROMPT, TPOT, TTFT, ObservedPair, ObservedPool
from inferdoc.whatif.run_simulation import PlayedPool, TimesCounted, played
from inferdoc.whatif.setting import PairSetting, of_side
from inferdoc.whatif.steps import answers_of, rates_of, traffic_of

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue

QUANTILES = {"p50": 0.5, "p99": 0.99}


@dataclass(frozen=True)
class CalibratedPair:
    """prefill, decode: each fitted by itself; setting: both together, as they are now; holdout: errors of a simulation
    of the first half on the second; limits: TTFT and time per token that count as good, seconds."""

    prefill: CalibratedPool
    decode: CalibratedPool
    setting: PairSetting
    holdout: tuple[HoldoutError, ...]
    limits: tuple[float, float]

    @property
    def sides(self) -> dict[str, CalibratedPool]:
        """Role -> the pool."""
        return dict(zip(APART, (self.prefill, self.decode), strict=True))

    @property
    def most_seen(self) -> dict[str, float]:
        """Role of its pods -> requests that one of them ran at most."""
        return self.prefill.most_seen | self.decode.most_seen

    def drawn(self, seed: int) -> PairSetting:
        """What plays it, with step times that the history allows just as well."""
        return self.setting.with_steps(*(each.steps.drawn(seed) for each in (self.prefill, self.decode)))


def calibrated_pair(
    pair: ObservedPair, catalogue: Catalogue, given: Mapping[str, Any], limits: tuple[float, float]
) -> CalibratedPair:
    """The pair as plays show it. given: settings by key that the user gives; limits: TTFT and time per token that count
    as good, seconds. Raises InferdocError."""
    by_role = {role: of_side(given, role) for role in APART}
    bases = {side.pool.role: pool_basis(side, catalogue, by_role[side.pool.role]) for side in pair.sides}
    middle = pair.prefill.intervals // 2
    late = pair.part(middle, pair.prefill.intervals)
    early = _fitted(pair.part(0, middle), bases, by_role)
    setting = _together(early)
    holdout = _holdout_errors(setting.with_traffic(at_rates_of(setting.traffic, late.prefill)), late, limits)
    whole = _fitted(pair, bases, by_role, early)
    prefill, decode = (
        CalibratedPool(side, whole[role].setting, whole[role].steps, (), bases[role].shape, limits)
        for role, side in zip(APART, pair.sides, strict=True)
    )
    return CalibratedPair(prefill, decode, _together(whole), holdout, limits)


def _together(sides: Mapping[str, FittedPool]) -> PairSetting:
    prefill, decode = (sides[role].setting for role in APART)
    return PairSetting(prefill, decode, prefill.traffic)


def _fitted(
    pair: ObservedPair,
    bases: Mapping[str, PoolBasis],
    by_role: Mapping[str, Mapping[str, Any]],
    start: Mapping[str, FittedPool] | None = None,
) -> dict[str, FittedPool]:
    """Both sides. Prompts and what they share are those that prefill pods saw, answers those that decode pods wrote."""
    kv_tokens = by_role["prefill"].get("kv-tokens") or pair.prefill.middle("kv_capacity_tokens") or 0.0
    traffic = with_fields(traffic_of(pair.prefill, kv_tokens), output=answers_of(pair.decode))
    of_decode = with_fields(traffic, rates=tuple(rates_of(pair.decode).tolist()))
    link = _link(pair, bases)
    return {
        role: bases[role].fitted(
            side,
            by_role[role],
            start=None if start is None else start[role].steps,
            traffic=of_decode if role == "decode" else traffic,
            link=link if role == "decode" else None,
        )
        for role, side in zip(APART, pair.sides, strict=True)
    }


def _link(pair: ObservedPair, bases: Mapping[str, PoolBasis]) -> float:
    """Bytes/s at which one decode pod reads KV, as measured, else over the slower network of the two sides."""
    of_token = bases["decode"].steps.parts.kv_bytes
    if pair.read is None:
        slower = min(basis.nic_gbits for basis in bases.values())
        return of_token / transfer_seconds(of_token, slower, LINK_EFFICIENCY)
    tokens = pair.prefill.mean(PROMPT)
    moving = max(pair.read * tokens - Link.setup, 0.1 * pair.read * tokens)
    return of_token * tokens / moving


def _holdout_errors(setting: PairSetting, late: ObservedPair, limits: tuple[float, float]) -> tuple[HoldoutError, ...]:
    """Plays of the holdout half in the buckets of the engines, against what these counted. No engine counts all
    that clients wait for: of first tokens each side is compared by itself."""
    plays = [played(setting.scenario(seed), apart=True) for seed in HOLDOUT_SEEDS]
    rows = [
        holdout_quantile(
            f"ttft_{role}_{name}",
            f"first token, {role} pods, {name}",
            [play.waits[role] for play in plays],
            _counted(side, TTFT),
            share,
        )
        for role, side in zip(APART, late.sides, strict=True)
        for name, share in QUANTILES.items()
    ]
    gaps = _counted(late.decode, ITL)
    rows += [
        holdout_quantile(f"itl_{name}", "", [play.times[ITL] for play in plays], gaps, share)
        for name, share in QUANTILES.items()
    ]
    served = late.decode.total(FINISHED) / late.decode.seconds
    rows.append(holdout_row("served", "1/s", [play.rate for play in plays], served))
    sides = {TTFT: _counted(late.prefill, TTFT), TPOT: _counted(late.decode, TPOT)}
    measured = _good(sides, limits) * served
    good = [_good(_like(play, sides), limits) * play.rate for play in plays]
    return (*rows, holdout_row("goodput", "1/s", good, measured))


def _counted(pool: ObservedPool, name: str) -> TimesCounted:
    return TimesCounted(pool.spreads[name].bounds, pool.spreads[name].counts)


def _like(play: PlayedPool, sides: Mapping[str, TimesCounted]) -> dict[str, TimesCounted]:
    """What a play counted, in the buckets of the engines."""
    shown = {TTFT: play.waits["prefill"], TPOT: play.times[TPOT]}
    return {name: shown[name].coarser(each.bounds) for name, each in sides.items()}


def _good(counted: Mapping[str, TimesCounted], limits: tuple[float, float]) -> float:
    """The share that at least is good, by first tokens of prefill pods and by what decode pods write."""
    return max(0.0, sum(counted[name].within(limit) for name, limit in zip((TTFT, TPOT), limits, strict=True)) - 1.0)
