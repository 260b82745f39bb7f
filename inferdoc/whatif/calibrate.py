"""From what a pool counted to what plays it, and how well the first half of its history plays the second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace as with_fields

from inferdoc.errors import InferdocError
from inferdoc.simulate.scenario import Policy, Role, Stream
from inferdoc.sizing.request import model_known, shape_named
from inferdoc.whatif.live import ACCEPTED, DRAFTED, DRAFTS, FINISHED, ITL, TPOT, TTFT, ObservedPool
from inferdoc.whatif.run_simulation import TIMED, PlayedPool, TimesCounted, played
from inferdoc.whatif.setting import PlayedSetting
from inferdoc.whatif.steps import StepBasis, StepFit, basis_of, fitted, rates_of, traffic_of

if TYPE_CHECKING:
    from inferdoc.capacity.model_shape import ModelShape
    from inferdoc.catalogue.load import Catalogue

HOLDOUT_SEEDS = (101, 102, 103)
FULL = 0.9
"""Share of the KV cache from which on requests may wait for it and not for --max-num-seqs."""
UNBOUND = 1024
"""--max-num-seqs where nothing was seen to wait for it: vLLM's default on large GPUs."""
BATCH_TOKENS = 8192
"""--max-num-batched-tokens where steps were not seen to be cut: vLLM's default on large GPUs."""
LATENCIES = {"ttft_p50": (TTFT, 0.5), "ttft_p99": (TTFT, 0.99), "itl_p50": (ITL, 0.5), "itl_p99": (ITL, 0.99)}
"""Quantiles whose error on the holdout half is reported."""
POLICY: Policy = "least-loaded"


@dataclass(frozen=True)
class HoldoutError:
    """A quantity of the holdout half. predicted: median of the plays; title: where it is none of the predicted ones."""

    name: str
    unit: str
    predicted: float
    measured: float
    title: str = ""

    @property
    def off(self) -> float:
        """predicted over measured, its log; NaN where one of them is 0."""
        if not (self.predicted > 0 and self.measured > 0):
            return float("nan")
        return float(np.log(self.predicted / self.measured))


@dataclass(frozen=True)
class CalibratedPool:
    """setting: as the pool is now, fitted to its whole history; steps: how well the history determines its steps;
    holdout: errors of a simulation of the first half on the second; shape: of its model, None where not known; limits:
    TTFT and time per token that count as good, seconds."""

    observed: ObservedPool
    setting: PlayedSetting
    steps: StepFit
    holdout: tuple[HoldoutError, ...]
    shape: ModelShape | None
    limits: tuple[float, float]

    @property
    def kv_dtype(self) -> str:
        """Of its KV cache: fp8, or bf16 for 16 bits of any kind."""
        return _kv_dtype(self.observed)

    @property
    def most_seen(self) -> dict[str, float]:
        """Role of its pods -> requests that one of them ran at most."""
        return {role_of(self.observed): max(float(np.nanmax(self.observed.glances["running"])), 1.0)}

    def drawn(self, seed: int) -> PlayedSetting:
        """What plays it, with step times that the history allows just as well."""
        return self.setting.with_steps(self.steps.drawn(seed))


def calibrated(
    pool: ObservedPool, catalogue: Catalogue, given: Mapping[str, Any], limits: tuple[float, float]
) -> CalibratedPool:
    """The pool as plays show it. given: settings by key that the user gives; limits: TTFT and time per token that count
    as good, seconds. Raises InferdocError."""
    if pool.pool.role != "both":
        raise InferdocError(f"{pool.name}: a {pool.pool.role} pool can only be played with its other side")
    basis = pool_basis(pool, catalogue, given)
    middle = pool.intervals // 2
    early, late = pool.part(0, middle), pool.part(middle, pool.intervals)
    first = basis.fitted(early, given)
    holdout = _holdout_errors(first.setting.with_traffic(at_rates_of(first.setting.traffic, late)), late, limits)
    whole = basis.fitted(pool, given, start=first.steps)
    return CalibratedPool(pool, whole.setting, whole.steps, holdout, basis.shape, limits)


@dataclass(frozen=True)
class FittedPool:
    """setting: with the likeliest step times; steps: how well they are determined."""

    setting: PlayedSetting
    steps: StepFit


@dataclass(frozen=True)
class PoolBasis:
    """What is known of a pool before anything is measured. shape: of its model, None where not known;
    nic_gbits: of the network of its tier."""

    shape: ModelShape | None
    steps: StepBasis
    nic_gbits: float

    def fitted(
        self,
        pool: ObservedPool,
        given: Mapping[str, Any],
        *,
        start: StepFit | None = None,
        traffic: Stream | None = None,
        link: float | None = None,
    ) -> FittedPool:
        """The pool, or a part of its history, as plays show it. start: where the search begins; traffic: where the
        pool itself does not show it; link: bytes/s at which one of its pods reads KV. Raises InferdocError."""
        setting = replace(setting_of(pool, self.steps, given, traffic), link=link)
        fit = fitted(pool, setting, self.steps, start)
        return FittedPool(setting.with_steps(fit.parts), fit)


def pool_basis(pool: ObservedPool, catalogue: Catalogue, given: Mapping[str, Any]) -> PoolBasis:
    """From model and tier, as far as known. Raises InferdocError for a pool that cannot be played."""
    if pool.engines > 1:
        raise InferdocError(
            f"{pool.name}: {pool.engines} engines a pod (data parallel); only pods of one can be played"
        )
    model = given.get("model") or pool.pool.model
    shape = shape_named(model, catalogue) if given.get("model") or model_known(model, catalogue) else None
    tier = catalogue.tiers.tiers.get(pool.pool.tier)
    steps = basis_of(pool, shape, tier, pool.gpus or 1, _kv_dtype(pool))
    return PoolBasis(shape, steps, catalogue.tiers.nic_gbits(pool.pool.tier))


def at_rates_of(traffic: Stream, late: ObservedPool) -> Stream:
    """The requests that the first half showed, as often as they came in the second."""
    return with_fields(traffic, rates=tuple(rates_of(late).tolist()))


def role_of(pool: ObservedPool) -> Role:
    """What its pods do, for the simulator."""
    return {"prefill": "prefill", "decode": "decode"}.get(pool.pool.role, "both")  # type: ignore[return-value]


def _kv_dtype(pool: ObservedPool) -> str:
    return "fp8" if pool.settings.get("cache_dtype", "auto").startswith("fp8") else "bf16"


def setting_of(
    pool: ObservedPool, basis: StepBasis, given: Mapping[str, Any], traffic: Stream | None = None
) -> PlayedSetting:
    """What plays the pool, with step times as published. traffic: where the pool itself does not show it. Raises
    InferdocError."""
    kv_tokens = given.get("kv-tokens") or pool.middle("kv_capacity_tokens")
    if kv_tokens is None:
        raise InferdocError(f"{pool.name}: the size of its KV cache is not visible: give --now kv-tokens=N")
    assumed: dict[str, str] = {}
    drafts = pool.total(DRAFTS)
    draft_tokens = round(pool.total(DRAFTED) / drafts) if drafts else 0
    accepted = given.get("accepted") or (_accepted(pool, draft_tokens) if draft_tokens else ())
    if "batch-tokens" not in given:
        assumed["batch-tokens"] = f"--max-num-batched-tokens {BATCH_TOKENS} (--now batch-tokens=N)"
    router: Policy | None = given.get("router")
    if router is None and pool.pods > 1:
        assumed["router"] = f"requests go to the {POLICY.replace('-', ' ')} pod (--now router=...)"
    return PlayedSetting(
        replicas=pool.pods,
        gpus=pool.gpus or 1,
        tier=pool.pool.tier,
        parts=basis.parts,
        kv_tokens=int(kv_tokens),
        block_size=int(pool.middle("kv_block_size") or 16),
        max_num_seqs=given.get("max-num-seqs") or _most_streams(pool, assumed),
        batch_tokens=given.get("batch-tokens") or BATCH_TOKENS,
        chunk_tokens=given.get("chunk-tokens") or 0,
        draft_tokens=draft_tokens,
        accepted=accepted,
        router=router or POLICY,
        traffic=traffic or traffic_of(pool, kv_tokens),
        assumed=assumed,
        role=role_of(pool),
    )


def _accepted(pool: ObservedPool, draft: int) -> tuple[float, ...]:
    """The same chance at each position: the one at which so many tokens a draft are accepted."""
    per_draft = pool.total(ACCEPTED) / pool.total(DRAFTS)
    low, high = 0.0, 1.0
    for _ in range(40):
        chance = (low + high) / 2
        low, high = (chance, high) if sum(chance**i for i in range(1, draft + 1)) < per_draft else (low, chance)
    return tuple(low**i for i in range(1, draft + 1))


def _most_streams(pool: ObservedPool, assumed: dict[str, str]) -> int:
    """--max-num-seqs shows where requests wait though the KV cache has room: no more run than it allows. Of prefill
    pods it shows nowhere: there the tokens of a step decide how many prompts run at once."""
    if pool.pool.role == "prefill":
        assumed["max-num-seqs"] = f"--max-num-seqs {UNBOUND}: nothing shows it (--now prefill.max-num-seqs=N)"
        return UNBOUND
    running, waiting, usage = (pool.glances[name] for name in ("running", "waiting", "kv_usage"))
    with np.errstate(invalid="ignore"):
        queued = (waiting > 0) & (usage < FULL)
    seen = float(np.nanmax(running))
    if queued.sum() >= 3 and float(np.median(running[queued])) >= 0.98 * seen:
        return round(seen)
    assumed["max-num-seqs"] = f"--max-num-seqs {UNBOUND}: nothing was seen to wait for it (--now max-num-seqs=N)"
    return max(UNBOUND, round(seen))


def _holdout_errors(
    setting: PlayedSetting, late: ObservedPool, limits: tuple[float, float]
) -> tuple[HoldoutError, ...]:
    """Plays of the holdout half in the buckets of the engines, against what these counted."""
    plays = [played(setting.scenario(seed)) for seed in HOLDOUT_SEEDS]
    counted = {name: TimesCounted(late.spreads[name].bounds, late.spreads[name].counts) for name in TIMED}
    rows = [
        holdout_quantile(name, "", [play.times[metric] for play in plays], counted[metric], share)
        for name, (metric, share) in LATENCIES.items()
    ]
    served = late.total(FINISHED) / late.seconds
    rows.append(holdout_row("served", "1/s", [play.rate for play in plays], served))
    good = max(0.0, counted[TTFT].within(limits[0]) + counted[TPOT].within(limits[1]) - 1.0) * served
    rows.append(holdout_row("goodput", "1/s", [_good(play, counted, limits) for play in plays], good))
    return tuple(rows)


def holdout_quantile(
    name: str, title: str, plays: Sequence[TimesCounted], measured: TimesCounted, share: float
) -> HoldoutError:
    """A quantile of plays in the buckets in which it was measured."""
    shown = [each.coarser(measured.bounds).quantile(share) for each in plays]
    return HoldoutError(name, "s", float(np.median(shown)), measured.quantile(share), title)


def _good(play: PlayedPool, like: Mapping[str, TimesCounted], limits: tuple[float, float]) -> float:
    shares = [
        play.times[name].coarser(like[name].bounds).within(limit)
        for name, limit in zip((TTFT, TPOT), limits, strict=True)
    ]
    return max(0.0, sum(shares) - 1.0) * play.rate


def holdout_row(name: str, unit: str, shown: Sequence[float], measured: float) -> HoldoutError:
    """A quantity of which plays showed so much."""
    return HoldoutError(name, unit, float(np.median(shown)), measured)
