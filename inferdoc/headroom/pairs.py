"""Which pools are held against each other: one that does both phases against two, a prefill and a decode pool of one
model against one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from inferdoc.capacity.kv_bytes import kv_bytes_per_token
from inferdoc.catalogue.slo import limits
from inferdoc.forecast.command import Origin
from inferdoc.forecast.fromsource import STEP, add
from inferdoc.forecast.pod_gpus import gpus_of_pod
from inferdoc.headroom.apart import ApartInputs, phases_apart
from inferdoc.headroom.model import PhasesApart
from inferdoc.headroom.phases import PHASE_SIGNALS, PhasesSeen, phases_seen
from inferdoc.headroom.reading import PoolReading
from inferdoc.sizing.request import model_known, shape_named

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
        """What parting or joining would give, of every pool that does both phases and every pair; what cannot be told
        becomes a doubt."""
        found: list[PhasesApart] = []
        by_family = sorted(pools.values(), key=lambda each: (each.pool.family, each.name))
        for _, members in groupby(by_family, key=lambda each: each.pool.family):
            for several in _held_together(list(members), doubts):
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
        promised = limits(self._origin.opened.slos, pool)
        promised |= limits(self._origin.opened.slos, replace(pool, role=first.pool.role))
        of_request = last.load.mean / last.requests
        knee, _ = last.knee
        pair = len(several) == 2
        return ApartInputs(
            rate=last.load.peak / of_request,
            prefill=phases[0],
            decode=phases[-1],
            gpus=gpus or 1,
            told=gpus is not None,
            step_limit=_least(promised, PER_TOKEN),
            ttft=_least(promised, FIRST_TOKEN),
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


def _held_together(members: Sequence[PoolReading], doubts: list[str]) -> Iterator[Sequence[PoolReading]]:
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


def _least(promised: Mapping[str, float], families: tuple[str, ...]) -> float | None:
    return min((limit for signal, limit in promised.items() if signal.startswith(families)), default=None)
