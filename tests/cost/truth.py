"""What a simulated fleet really spent its GPU time on: every step taken apart by what it would have taken without.

The engines of the simulator are followed step by step: a step with prompt tokens that had been computed before is also
timed without them, one with drafts without drafts, one with tokens of a known prefix without these. What is lost with
a request that its client gave up is its share of the steps that it was part of.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from inferdoc.simulate.engine import Engine
from inferdoc.simulate.hardware import Roofline
from inferdoc.simulate.request import EngineRequest

SLOT = 900.0
"""Seconds of a quarter of an hour."""


@dataclass
class Spent:
    """GPU-seconds of a fleet since the beginning of its recording, by what they went into. busy: of all steps, pauses
    within them too; busy_in: the same by quarter of an hour."""

    busy: float = 0.0
    recomputed: float = 0.0
    missed: float = 0.0
    rejected: float = 0.0
    lost: float = 0.0
    prompts: float = 0.0
    since: float = 0.0
    shared: int = 0
    seen: set[tuple[int, int]] = field(default_factory=set)
    of_request: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    busy_in: dict[int, float] = field(default_factory=lambda: defaultdict(float))


@contextmanager
def followed(since: float = 0.0, shared: int = 0) -> Iterator[Spent]:
    """Engines that run inside are followed. since: seconds of the simulation from which on time counts; shared: tokens
    of the beginning that prompts of one group have in common."""
    spent = Spent(since=since, shared=shared)
    with pytest.MonkeyPatch.context() as patch:
        mixed, advanced, aborted = Engine._mixed, Engine._advance_streams, Engine._abort

        def _mixed(self: Engine, chunks: list[tuple[EngineRequest, int]], pause: float) -> None:
            self.truth_chunks = [(r, n, _again(spent, r, n)) for r, n in chunks]  # type: ignore[attr-defined]
            mixed(self, chunks, pause)
            for request, _ in chunks:
                if request.first >= 0 and request.group >= 0:
                    spent.seen.add((request.stream, request.group))

        def _advance_streams(
            self: Engine, tokens: int, steps: int, seconds: float, compute: float, memory: float
        ) -> None:
            before, streams = self.now, [r for r in self.running.values() if r.id not in self.prefilling]
            chunks = self.__dict__.pop("truth_chunks", [])
            parts = _parts(self, chunks)
            advanced(self, tokens, steps, seconds, compute, memory)
            if self.now <= spent.since:
                return
            took = (self.now - before) * (self.timing.gpus if isinstance(self.timing, Roofline) else 1)
            spent.busy += took
            spent.busy_in[int(self.now // SLOT)] += took
            for name, share in parts.items():
                setattr(spent, name, getattr(spent, name) + share * took)
            for request, n, _ in chunks:
                spent.of_request[request.id] += parts["prompts"] * took * n / sum(m for _, m, _ in chunks)
            for request in streams:
                spent.of_request[request.id] += (1.0 - parts["prompts"]) * took / len(streams)

        def _abort(self: Engine, request: EngineRequest) -> None:
            spent.lost += spent.of_request.pop(request.id, 0.0)
            aborted(self, request)

        patch.setattr(Engine, "_mixed", _mixed)
        patch.setattr(Engine, "_advance_streams", _advance_streams)
        patch.setattr(Engine, "_abort", _abort)
        yield spent


def _again(spent: Spent, request: EngineRequest, taken: int) -> tuple[str, int]:
    """Why tokens of a chunk are computed although they need not be, and how many."""
    if request.preemptions:
        return "recomputed", taken
    done = request.prompt - request.todo
    known = spent.shared if (request.stream, request.group) in spent.seen else 0
    return "missed", max(0, min(known, done + taken) - max(done, request.hits))


def _parts(engine: Engine, chunks: list[tuple[EngineRequest, int, tuple[str, int]]]) -> dict[str, float]:
    """Share of a step that would not have been without recomputed tokens, missed prefixes, rejected drafts, prompts."""
    batch, draft, timing = engine._decoding, engine.config.draft, engine.timing
    found = {"prompts": 0.0, "recomputed": 0.0, "missed": 0.0}
    prompt = sum(n for _, n, _ in chunks)
    if not prompt and not (draft and batch):
        return found
    reach = sum(n * (r.prompt - r.todo + n / 2) for r, n, _ in chunks) / max(prompt, 1)

    def seconds(tokens: int, drafts: int = draft, machine: Any = timing) -> float:
        if not batch and tokens <= 0:
            return 0.0
        context = engine._context
        return float(machine.step(batch * (1 + drafts), context, tokens, reach, len(engine.running)).seconds)

    whole = seconds(prompt)
    found["prompts"] = (whole - seconds(0)) / whole if prompt else 0.0
    for name in ("recomputed", "missed"):
        needless = sum(n for _, _, (why, n) in chunks if why == name)
        found[name] = (whole - seconds(prompt - needless)) / whole if needless else 0.0
    if draft and batch:
        plain = copy.copy(timing)
        plain.draft_share = 0.0  # type: ignore[attr-defined]
        accepted, verified = engine._drafted()
        found["rejected"] = (whole - seconds(prompt, 0, plain)) / whole * (1.0 - accepted / verified)
    return found
