"""Divide the GPU time of an interval into causes, by engine and slot, and count its tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from inferdoc.audit.evaluate import judge
from inferdoc.audit.quantities import to_spare, use_of
from inferdoc.audit.waste import (
    POSSIBLE_HITS,
    WASTES,
    missing,
    pace_beside_decoding,
    pace_of,
    recomputing,
    rejected_drafts,
    weight,
)
from inferdoc.audit.window_data import Watched
from inferdoc.catalogue.signal import Term
from inferdoc.catalogue.standing import Standing
from inferdoc.fleet.members import Pool
from inferdoc.judging.view import Unit
from inferdoc.slo.attainment import SERVED
from inferdoc.slo.history import History
from inferdoc.source.frame import Entity
from inferdoc.source.plan import BY
from inferdoc.source.reads import Grid


@dataclass(frozen=True)
class WasteCause:
    """title: as a report says it; formula: in words; source: the series behind it; bound: "at most" or "at least"."""

    title: str
    formula: str
    source: str
    bound: str | None = None


CAUSES: Mapping[str, WasteCause] = {
    "away": WasteCause(
        "not serving (starting, down)",
        "GPUs x time in which the target of a pod is scraped and its engine says nothing",
        "up, vllm:num_requests_running",
    ),
    "idle": WasteCause(
        "idle",
        "GPUs x time with no request running and none waiting; of a prefill pod the time in which it computed nothing",
        "vllm:num_requests_running, vllm:num_requests_waiting",
    ),
    "floor": WasteCause(
        "more replicas than the load needs",
        "GPUs x (replicas serving - those that carry the load at 60 % use, at least 2), less what was idle",
        "vllm:kv_cache_usage_perc, vllm:num_requests_running, computed prompt tokens x seconds per token",
    ),
    "lost": WasteCause(
        "work for requests that nobody waited for",
        "GPU time of the tokens that belong to no finished request: all tokens - those of finished requests",
        "vllm:prompt_tokens, vllm:generation_tokens, sums of vllm:request_prompt_tokens, _generation_tokens",
        "at least",
    ),
    "recomputed": WasteCause(
        "computed again after preemption",
        WASTES["recompute"].formula,
        "vllm:num_preemptions, vllm:prompt_tokens, vllm:generation_tokens, seconds per computed prompt token",
    ),
    "missed": WasteCause(
        "prefixes that could have hit",
        f"{WASTES['misses_of_router'].formula}; or, where an audit sees hits at the level of chance, "
        f"{WASTES['misses_by_chance'].formula}",
        "vllm:prefix_cache_hits, _queries, llm_d_epp_prefix_indexer_hit_ratio",
        "at most",
    ),
    "rejected": WasteCause(
        "rejected drafts", WASTES["rejected_drafts"].formula, "vllm:spec_decode_num_draft_tokens, _num_accepted_tokens"
    ),
    "late": WasteCause(
        "responses that missed a latency SLO",
        "working time x share of the requests that missed the worst of the SLOs on first token, time "
        "per token or whole answer",
        "buckets of vllm:time_to_first_token_seconds, _request_time_per_output_token_seconds, "
        "_e2e_request_latency_seconds",
        "at least",
    ),
}
"""All that is waste. What is left over is useful."""
USEFUL = "useful"


COUNTED = {
    "prompts": Term(rate="vllm:prompt_tokens_total"),
    "outputs": Term(rate="vllm:generation_tokens_total"),
    "finished prompts": Term(rate="vllm:request_prompt_tokens_sum"),
    "finished outputs": Term(rate="vllm:request_generation_tokens_sum"),
    "served": SERVED,
}
ENERGY = Term(rate="DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")
"""Millijoules of a GPU since its driver was loaded."""


@dataclass(frozen=True)
class TokenCounts:
    """Of one engine, float64[S]: prompt and output tokens, requests served, joules of its pod's GPUs (all of them at
    its first engine; None where no GPU exporter joins any to the pod). lost_prompts, lost_outputs: share of the tokens
    of the whole interval that belong to no finished request."""

    prompts: np.ndarray
    outputs: np.ndarray
    served: np.ndarray
    lost_prompts: float
    lost_outputs: float
    joules: np.ndarray | None = None


def counts_of(history: History, watched: Watched, grid: Grid) -> dict[Unit, TokenCounts]:
    """Of every unit; zeros where nothing counted."""
    units = watched.view.units

    def counted(name: str, steps: Grid) -> dict[Unit, np.ndarray]:
        return _by_unit(history.counts(COUNTED[name], steps, BY["engine"]), units, steps.count)

    slots = {name: counted(name, grid) for name in ("prompts", "outputs", "served")}
    # In one piece: at the edges of slots tokens are guessed, and those of finished requests come in lumps.
    once = history.grid(history.end_ms - history.begin_ms)
    whole = {name: counted(name, once) for name in COUNTED}
    energy = history.counts(ENERGY, grid, BY["gpu"])
    metered = {entity.member for entity in energy}
    joules = {unit: row / 1000 for unit, row in _by_unit(energy, units, grid.count).items()}
    return {
        unit: TokenCounts(
            slots["prompts"][unit],
            slots["outputs"][unit],
            slots["served"][unit],
            *_lost({name: float(whole[name][unit].sum()) for name in COUNTED}, _open_at_ends(watched, unit)),
            joules[unit] if unit.member.key in metered else None,
        )
        for unit in units
    }


def _lost(counted: Mapping[str, float], unfinished: float) -> tuple[float, float]:
    """Share of prompt and of output tokens that belong to no finished request. unfinished: requests that run at either
    end of the interval; theirs belong to none of it either, and are no loss."""
    lost = []
    for name in ("prompts", "outputs"):
        whole, ended, served = counted[name], counted[f"finished {name}"], counted["served"]
        unsure = unfinished * ended / served if served else whole
        lost.append(max(0.0, whole - ended - unsure) / whole if whole else 0.0)
    return lost[0], lost[1]


def _open_at_ends(watched: Watched, unit: Unit) -> float:
    running = watched.values(unit, "running")
    seen = np.empty(0) if running is None else running[np.isfinite(running)]
    return float(seen[0] + seen[-1]) if len(seen) else 0.0


def _by_unit(found: Mapping[Entity, np.ndarray], units: Sequence[Unit], slots: int) -> dict[Unit, np.ndarray]:
    """Counts by unit; what names no engine of a pod counts for its first one."""
    rows = {unit: np.zeros(slots) for unit in units}
    places = {(unit.member.key, unit.engine): unit for unit in reversed(units)}
    first = {unit.member.key: unit for unit in reversed(units)}
    for entity, values in found.items():
        unit = places.get((entity.member, entity.engine)) or first.get(entity.member)
        if unit is not None:
            rows[unit] = rows[unit] + values
    return rows


HOUR = 3600.0


@dataclass(frozen=True)
class Account:
    """One engine. assumed: its number of GPUs is not known and taken as one; parts: GPU-hours of each slot by cause and
    `useful`, float64[S], which add up to all; prompts: share of its working time that went into prompts, None if
    unknown; counts: tokens and requests of each slot."""

    unit: Unit
    gpus: float
    assumed: bool
    parts: Mapping[str, np.ndarray]
    prompts: float | None
    counts: TokenCounts

    @property
    def whole(self) -> np.ndarray:
        """All GPU-hours of each slot, float64[S]."""
        return np.asarray(np.sum(list(self.parts.values()), axis=0))


class Ledger:
    """Divides the time of every unit of an interval. slot: int[T], into which slot a step falls; hours: that a step
    stands for; counts: of each unit; late: share of the requests of a pool that missed a latency SLO."""

    def __init__(
        self,
        watched: Watched,
        standing: Standing,
        counts: Mapping[Unit, TokenCounts],
        slots: np.ndarray,
        late: Mapping[Pool, float],
    ) -> None:
        self.watched = watched
        self.counts = counts
        self.slot = slots
        self.late = late
        self.slots = int(slots[-1]) + 1
        grid = watched.view.frame.grid
        self.hours = max(grid.end_ms - grid.start_ms, grid.step_ms) / 1000 / HOUR / grid.count
        self._hits = self._possible_hits(standing)

    def accounts(self) -> list[Account]:
        """One of every engine."""
        found = []
        for pool in self.watched.pools:
            units = self.watched.units(pool)
            spare = self._spare(pool, units)
            found += [self._account(unit, spare.get(unit)) for unit in units]
        return found

    def _account(self, unit: Unit, spare: np.ndarray | None) -> Account:
        watched = self.watched
        gpus = weight(watched, unit)
        there, serving, idle = self._presence(unit)
        left = self._in_slots(there * gpus)
        parts: dict[str, np.ndarray] = {}

        def take(cause: str, amount: np.ndarray | None) -> None:
            nonlocal left
            taken = np.zeros(self.slots) if amount is None else np.clip(amount, 0.0, left)
            parts[cause] = taken
            left = left - taken

        take("away", self._in_slots((there & ~serving) * gpus))
        take("idle", self._in_slots(serving * idle * gpus))
        working = left.copy()
        take("floor", spare)
        computing = self._computing(unit, working, gpus)
        counts = self.counts[unit]
        take(
            "lost",
            None
            if computing is None
            else counts.lost_prompts * computing + counts.lost_outputs * (working - computing),
        )
        share = recomputing(watched, unit)
        take("recomputed", None if share is None else self._in_slots(share * gpus))
        expected = self._hits.get(unit.member.pool)
        share = None if expected is None else missing(watched, unit, expected)
        take("missed", None if share is None else self._in_slots(share * gpus))
        rejected = rejected_drafts(watched, unit)
        take("rejected", None if rejected is None else working * rejected)
        # Last: another cause explains late answers, and is what can be fixed.
        take("late", working * self.late.get(unit.member.pool, 0.0))
        parts[USEFUL] = left
        total = float(working.sum())
        prompts = None if computing is None or not total else float(computing.sum()) / total
        return Account(unit, gpus, watched.gpus(unit) is None, parts, prompts, counts)

    def _in_slots(self, per_step: np.ndarray) -> np.ndarray:
        """GPUs at every step as GPU-hours of every slot."""
        return np.bincount(self.slot, weights=np.nan_to_num(per_step), minlength=self.slots) * self.hours

    def _presence(self, unit: Unit) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """bool[T]: the pod is there; its engine answers; float64[T]: the share of a step in which it has nothing to do.
        Requests of a prefill pod end with the step that computes them, so that its gauge of running requests shows none
        of them: what it computed counts instead."""
        nothing = np.full(self.watched.view.steps, np.nan)

        def row(signal: str) -> np.ndarray:
            values = self.watched.values(unit, signal)
            return nothing if values is None else values

        up, running, waiting = row("target_up"), row("running"), row("waiting")
        serving = np.isfinite(running) & ~(up == 0)
        free = (~(running > 0) & ~(waiting > 0)).astype(float)
        pace, computed = pace_of(self.watched, unit), self.watched.values(unit, "prefill_tokens_rate")
        if unit.member.role == "prefill" and pace is not None and computed is not None:
            free *= 1.0 - np.clip(np.nan_to_num(computed) * pace, 0.0, 1.0)
        return serving | np.isfinite(up), serving, free

    def _computing(self, unit: Unit, working: np.ndarray, gpus: float) -> np.ndarray | None:
        """GPU-hours of every slot that went into prompts: all of a prefill pod, none of a decode pod, else computed
        tokens x seconds per token where nothing else delayed them."""
        if unit.member.role == "prefill":
            return working
        if unit.member.role == "decode":
            return np.zeros(self.slots)
        pace, computed = pace_beside_decoding(self.watched, unit), self.watched.values(unit, "prefill_tokens_rate")
        if pace is None or computed is None:
            return None
        return np.asarray(np.minimum(self._in_slots(np.nan_to_num(computed) * pace * gpus), working))

    def _spare(self, pool: Pool, units: list[Unit]) -> dict[Unit, np.ndarray]:
        """GPU-hours of replicas beyond what the load of each slot needs, less the idle ones, by the working time of
        each unit."""
        watched, use = self.watched, use_of(self.watched, pool)
        if use is None:
            return {}
        presence = {unit: self._presence(unit) for unit in units}
        serving = np.sum([serving for _, serving, _ in presence.values()], axis=0)
        gpus = {unit: weight(watched, unit) for unit in units}
        idle = {unit: self._in_slots(at * free * gpus[unit]) for unit, (_, at, free) in presence.items()}
        work = {unit: self._in_slots(at * (1.0 - free) * gpus[unit]) for unit, (_, at, free) in presence.items()}
        hours = np.zeros(self.slots)
        for number in range(self.slots):
            seen = use[(self.slot == number) & np.isfinite(use)]
            ready = float(np.median(serving[self.slot == number])) if (self.slot == number).any() else 0.0
            if len(seen) and ready:
                beyond = to_spare(watched, pool, float(np.quantile(seen, 0.95)), ready)
                steps = float((self.slot == number).sum())
                hours[number] = max(0.0, beyond) * float(np.mean(list(gpus.values()))) * steps * self.hours
        hours = np.maximum(hours - np.sum(list(idle.values()), axis=0), 0.0)
        everyone = np.sum(list(work.values()), axis=0)
        share = hours / np.where(everyone > 0, everyone, np.inf)
        return {unit: np.minimum(share, 1.0) * work[unit] for unit in units}

    def _possible_hits(self, standing: Standing) -> dict[Pool, float]:
        """The hit ratio that could have been, of the pools of which an audit sees that prefixes were missed."""
        found: dict[Pool, float] = {}
        for entry in judge(self.watched, standing).standing:
            of = POSSIBLE_HITS.get(entry.state.waste or "")
            expected = None if of is None else of(self.watched, entry.units)
            if expected is not None:
                found[entry.pool] = max(expected, found.get(entry.pool, 0.0))
        return found


def known_causes() -> tuple[str, ...]:
    """The parts of the whole in order, the useful one last."""
    return (*CAUSES, USEFUL)
