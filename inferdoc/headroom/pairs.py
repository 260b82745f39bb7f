"""Prefill and decode in one pool or in two: which pools are compared, and whether the split pays by their measured
GPU-seconds (reference: capacity, section C5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from inferdoc.capacity.memory import kv_bytes_per_token
from inferdoc.capacity.service_level import APART_USE, COLOCATED_USE, Payoff, PhaseSeconds, payoff, transfer_seconds
from inferdoc.catalogue.slo import limits
from inferdoc.forecast.command import Origin
from inferdoc.forecast.fromsource import STEP, add, gpus_of_pod
from inferdoc.headroom.phases import PHASE_SIGNALS, DecodeStep, PhasesSeen, phases_seen
from inferdoc.headroom.reading import ApartCondition, PhasesApart, PoolReading
from inferdoc.sizing.choice import LINK_EFFICIENCY
from inferdoc.sizing.fleet_part import LEAST_PODS, MOST_OF_TTFT, SHORT_PROMPT, WORTH
from inferdoc.sizing.model import Predicted, SizedPart, number
from inferdoc.sizing.request import model_known, shape_named
from inferdoc.words import figure

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.config import Config
    from inferdoc.forecast.fromsource import Gathered


KV_DTYPE = "bf16"
"""Of the KV cache, where nothing else is known: the widest."""
PER_TOKEN, FIRST_TOKEN = ("itl_", "tpot_request_"), ("ttft_",)


class Phases:
    """Reads the phases of pools of an origin."""

    def __init__(self, origin: Origin, config: Config, catalogue: Catalogue) -> None:
        self._origin, self._config, self._catalogue = origin, config, catalogue
        self._history, _ = origin.capacity_history
        self._read = False

    def apart(self, pools: Mapping[str, PoolReading], doubts: list[str]) -> list[PhasesApart]:
        """What parting or joining would give, of every pool that does both phases and every pair; what is unknown
        becomes a doubt."""
        found: list[PhasesApart] = []
        by_family = sorted(pools.values(), key=lambda each: (each.pool.family, each.name))
        for _, members in groupby(by_family, key=lambda each: each.pool.family):
            for several in _comparable(list(members), doubts):
                names = [each.name for each in several]
                inputs = self._inputs(several)
                if isinstance(inputs, str):
                    doubts.append(f"prefill and decode apart, {' and '.join(names)}: {inputs}")
                else:
                    found.append(phases_apart(names, inputs))
        return found

    def _inputs(self, several: Sequence[PoolReading]) -> ApartInputs | str:
        first, last = several[0], several[-1]
        seen = [self._seen(each) for each in several]
        lacking = next((each for each in seen if isinstance(each, str)), None)
        if lacking is not None:
            return lacking
        if last.requests is None:
            return "finished requests are not counted"
        phases = [each for each in seen if isinstance(each, PhasesSeen)]
        numbers = {self._gpus(each) for each in several}
        if len(numbers) > 1:
            return "their pods have different numbers of GPUs, so one pool of neither is measured"
        (gpus,) = numbers
        pool = last.pool
        objectives = limits(self._origin.opened.slos, pool)
        objectives |= limits(self._origin.opened.slos, replace(pool, role=first.pool.role))
        of_request = last.load.mean / last.requests
        knee, _ = last.knee
        pair = len(several) == 2
        return ApartInputs(
            rate=last.load.peak / of_request,
            prefill=phases[0],
            decode=phases[-1],
            gpus=gpus or 1,
            gpus_known=gpus is not None,
            step_limit=_least(objectives, PER_TOKEN),
            ttft=_least(objectives, FIRST_TOKEN),
            knee=None if knee is None or pair else knee / of_request,
            kv_bytes=self._kv_bytes(pool.model, gpus or 1),
            nic_gbits=min(self._origin.opened.tiers.nic_gbits(each.pool.tier) for each in several),
            present=(first.replicas, last.replicas) if pair else None,
        )

    def _seen(self, reading: PoolReading) -> PhasesSeen | str:
        made = self._gathered()
        return phases_seen(made, made.pools().get(reading.pool, []), reading.pool.role)

    def _gathered(self) -> Gathered:
        if not self._read:
            add(self._history, self._origin.opened.source, PHASE_SIGNALS, self._origin.match, window=STEP)
            self._read = True
        return self._history

    def _gpus(self, reading: PoolReading) -> int | None:
        return gpus_of_pod(self._origin.opened.source, self._config.pods, self._history, reading.ready)

    def _kv_bytes(self, model: str, gpus: int) -> float | None:
        if model_known(model, self._catalogue) is None:
            return None
        return kv_bytes_per_token(shape_named(model, self._catalogue).kv, KV_DTYPE, gpus)


def _comparable(members: Sequence[PoolReading], doubts: list[str]) -> Iterator[Sequence[PoolReading]]:
    """Pools of one model alone where they do both, else in pairs of one tier."""
    yield from ([each] for each in members if each.pool.role == "both")
    sides = {role: [each for each in members if each.pool.role == role] for role in ("prefill", "decode")}
    for prefill in sides["prefill"]:
        on_tier = [each for each in sides["decode"] if each.pool.tier == prefill.pool.tier]
        if on_tier:
            yield [prefill, on_tier[0]]
        elif sides["decode"]:
            doubts.append(
                f"prefill and decode apart, {prefill.name}: decode runs on another tier, so nothing measures one pool"
            )


def _least(objectives: Mapping[str, float], families: tuple[str, ...]) -> float | None:
    return min((limit for signal, limit in objectives.items() if signal.startswith(families)), default=None)


PHASES = "prefill and decode apart"
SESSIONS = 100
"""From so many on both pools stay busy (Designing distributed AI inference)."""


@dataclass(frozen=True)
class ApartInputs:
    """rate: requests/s at the peak; prefill, decode: what was seen of each phase, of one pool twice the same; gpus: of
    a replica; gpus_known: whether anything shows that; step_limit, ttft: objectives, seconds, None where there is none;
    use: of the one pool at its knee in requests/s of a replica, None where not seen; kv_bytes: of a token on one GPU,
    None where the model is not known; nic_gbits: of the slower network of the two sides; present: replicas of the
    prefill and of the decode pool, None of one pool."""

    rate: float
    prefill: PhasesSeen
    decode: PhasesSeen
    gpus: int
    gpus_known: bool
    step_limit: float | None
    ttft: float | None
    knee: float | None
    kv_bytes: float | None
    nic_gbits: float
    present: tuple[int, int] | None = None

    @property
    def step(self) -> DecodeStep:
        """Of decode."""
        assert self.decode.step is not None
        return self.decode.step

    @property
    def batch(self) -> float:
        """Streams of a replica of decode alone."""
        return self.step.batch_within(self.step_limit)

    @property
    def seconds(self) -> PhaseSeconds:
        """GPU-seconds of a request."""
        assert self.prefill.pace is not None
        of_token = self.step.seconds(self.batch) / self.batch
        return PhaseSeconds(
            self.prefill.computed * self.prefill.pace * self.gpus, self.decode.output * of_token * self.gpus
        )

    @property
    def use(self) -> float:
        """Use at which one pool for both keeps the objectives."""
        if self.knee is None:
            return COLOCATED_USE
        return min(1.0, self.knee * (self.seconds.prefill + self.seconds.decode) / self.gpus)


def phases_apart(pools: Sequence[str], inputs: ApartInputs) -> PhasesApart:
    """The payoff of parting one pool, or of a pair against one pool. pools: by name, the prefill pool first."""
    found = payoff(inputs.rate, inputs.seconds, inputs.gpus, together_use=inputs.use)
    conditions = _conditions(inputs, found)
    unmet = [each for each in conditions if each.met is False]
    open_ = [each for each in conditions if each.met is None]
    return PhasesApart(
        list(pools),
        _summary(inputs, found, unmet, open_),
        SizedPart(PHASES, [*_seconds(inputs), *_pools(inputs, found)]),
        conditions,
        _assumed(inputs),
    )


def _summary(
    inputs: ApartInputs, found: Payoff, unmet: Sequence[ApartCondition], open_: Sequence[ApartCondition]
) -> str:
    gpus = f"{found.prefill} + {found.decode} GPUs apart against {found.together} together"
    if unmet:
        why = ", ".join(each.what for each in unmet)
        verdict = "parting does not pay" if inputs.present is None else "one pool would do as well"
        return f"{verdict}: {gpus}; not met: {why}"
    verdict = "parting may pay" if inputs.present is None else "the pair pays"
    open_words = f"; not known: {', '.join(each.what for each in open_)}" if open_ else ""
    return f"{verdict}: {gpus}, {figure(found.saved, 'ratio')} fewer{open_words}"


def _seconds(inputs: ApartInputs) -> Iterator[Predicted]:
    prefill, decode, seconds = inputs.prefill, inputs.decode, inputs.seconds
    assert prefill.pace is not None
    yield number(
        ("prefill_gpu_seconds", "prefill of a request", "GPU-s"),
        seconds.prefill,
        formula="computed tokens x seconds per computed token x GPUs of a replica",
        inputs={"computed": (prefill.computed, "tokens"), "each": (prefill.pace, "s"), "GPUs": (inputs.gpus, "")},
        source="vllm:request_prefill_time_seconds in the quietest third of the readings",
    )
    yield number(
        ("decode_gpu_seconds", "decode of a request", "GPU-s"),
        seconds.decode,
        formula="generated tokens x T(B) / B x GPUs of a replica",
        inputs={
            "generated": (decode.output, "tokens"),
            "B": (inputs.batch, "streams"),
            "T(B)": (inputs.step.seconds(inputs.batch), "s"),
            "GPUs": (inputs.gpus, ""),
        },
        source="streams x seconds / generated tokens of each reading less the time of prompts, fitted over streams",
    )
    yield number(
        ("wanted", "prefill GPUs per decode GPU, needed", "GPUs"),
        seconds.ratio,
        formula="prefill GPU-seconds / decode GPU-seconds",
        inputs={},
        source="the two above",
    )
    if inputs.present is not None:
        there = number(
            ("present", "prefill GPUs per decode GPU, there", "GPUs"),
            inputs.present[0] / inputs.present[1],
            formula="prefill replicas / decode replicas",
            inputs={"prefill": (inputs.present[0], "replicas"), "decode": (inputs.present[1], "replicas")},
            source="pods of the pools",
        )
        yield there


def _pools(inputs: ApartInputs, found: Payoff) -> list[Predicted]:
    uses = {
        "peak": (inputs.rate, "requests/s"),
        "use together": (inputs.use, "ratio"),
        "use apart": (APART_USE, "ratio"),
    }
    formula = "peak x GPU-seconds / use, in whole replicas"
    source = f"use apart {APART_USE:g}: own choice; use together: " + (
        f"own choice of {COLOCATED_USE:g}, as no knee of one pool was seen"
        if inputs.knee is None
        else "the knee of the pool x its GPU-seconds"
    )
    rows = (
        (("together", "one pool needs", "GPUs"), float(found.together), formula),
        (("prefill", "a prefill pool needs", "GPUs"), float(found.prefill), formula),
        (("decode", "a decode pool needs", "GPUs"), float(found.decode), formula),
        (("saved", "saved apart", "ratio"), found.saved, "1 - (prefill + decode) / one pool"),
    )
    return [number(what, value, formula=how, inputs=uses, source=source, assumed=True) for what, value, how in rows]


def _conditions(inputs: ApartInputs, found: Payoff) -> list[ApartCondition]:
    pods = min(found.prefill, found.decode) // inputs.gpus
    prompt = inputs.prefill.prompt
    move = None
    if prompt is not None and inputs.kv_bytes is not None:
        move = transfer_seconds(prompt * inputs.kv_bytes, inputs.nic_gbits, LINK_EFFICIENCY)
    budget = None if inputs.ttft is None else MOST_OF_TTFT * inputs.ttft
    at_once = inputs.decode.at_once
    return [
        _condition(f"a saving above {figure(WORTH, 'ratio')}", found.saved, "ratio", found.saved > WORTH),
        _condition(f"{LEAST_PODS} pods a role", float(pods), "pods", pods >= LEAST_PODS),
        _condition(
            f"a KV transfer below {figure(MOST_OF_TTFT, 'ratio')} of the TTFT objective",
            move,
            "s",
            None if move is None or budget is None else move < budget,
        ),
        _condition(f"more than {SESSIONS} requests at once", at_once, "requests", at_once > SESSIONS),
        _condition(
            f"prompts above {SHORT_PROMPT} tokens", prompt, "tokens", None if prompt is None else prompt > SHORT_PROMPT
        ),
    ]


def _condition(what: str, value: float | None, unit: str, met: bool | None) -> ApartCondition:
    return ApartCondition(what, value, unit, met)


def _assumed(inputs: ApartInputs) -> list[str]:
    notes = []
    if not inputs.gpus_known:
        notes.append("GPUs of a pod are unknown: one is taken; set gpus under [[pods]] in inferdoc.toml")
    if inputs.kv_bytes is None:
        notes.append("the model is not known, so the KV transfer is open")
    if inputs.ttft is None:
        notes.append("there is no TTFT objective, so the KV transfer is open: add one to alerts/slo.yaml")
    if inputs.step_limit is None:
        notes.append("there is no objective for the time per token: decode is taken at the largest batch seen")
    elif inputs.step.each <= 0:
        notes.append("batches differ too little to show how a step grows: decode is taken at its median step")
    return notes
