"""The GPU time of an interval, engine by engine and slot by slot: where it went, and for how many tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from inferdoc.audit.evaluate import judge
from inferdoc.audit.quantities import to_spare, use_of
from inferdoc.audit.waste import (
    POSSIBLE_HITS,
    missing,
    pace_beside_decoding,
    pace_of,
    recomputing,
    rejected_drafts,
    weight,
)
from inferdoc.audit.window_data import Watched
from inferdoc.catalogue.standing import Standing
from inferdoc.cost.causes import CAUSES, USEFUL
from inferdoc.cost.usage import TokenCounts
from inferdoc.fleet.members import Pool
from inferdoc.judging.view import Unit

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
