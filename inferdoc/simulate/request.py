"""One request as an engine sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from inferdoc.simulate.blocks import AllocatedBlocks, Key


class RequestState(IntEnum):
    """The state of a request. REMOTE: waits for its KV from another engine; PINNED: done, its KV waits to be read;
    GRAMMAR: waits for the grammar of its schema."""

    NEW = 0
    WAITING = 1
    REMOTE = 2
    PREFILL = 3
    DECODE = 4
    PINNED = 5
    DONE = 6
    GRAMMAR = 7


class KvKeeper(Protocol):
    """The engine that a request lives in, as far as a request needs to know it."""

    hung: bool

    def abort(self, request: EngineRequest, now: float) -> None:
        """Its client is gone."""

    def free_later(self, request: EngineRequest, now: float) -> None:
        """Its KV was read elsewhere and may go."""


@dataclass(slots=True)
class Handoff:
    """KV that a prefill engine keeps for a decode engine. request, reader: the two legs; known: the decode engine sends
    heartbeats for it."""

    source: KvKeeper
    request: EngineRequest
    reader: EngineRequest
    known: bool = False
    expired: bool = False


@dataclass(slots=True, eq=False)
class EngineRequest:
    """prompt, output, max_tokens: tokens; segments: what the prefix cache may find (key, blocks); times in seconds
    of the simulation, -1 where not reached; logprobs, structured: as its draft; todo: prompt or recompute tokens still
    to be computed; base: tokens generated when the stream last started, at token clock `clock0`; schema: of its answer,
    -1 for none, and the seconds to compile it; tools: whether it offers tools, missed: whether the call in its answer
    was not recognised; images: which ones, encode: seconds of the encoder for the new ones."""

    id: int
    prompt: int
    output: int
    max_tokens: int
    segments: list[tuple[Key, int]]
    arrival: float
    adapter: int = -1
    stream: int = 0
    prompt_id: int = 0
    group: int = -1
    attempt: int = 0
    sent: float = 0.0
    queued: float = -1.0
    scheduled: float = -1.0
    first: float = -1.0
    last: float = -1.0
    todo: int = 0
    hits: int = 0
    external: int = 0
    base: int = 0
    clock0: int = 0
    preemptions: int = 0
    state: RequestState = RequestState.NEW
    blocks: AllocatedBlocks = field(default_factory=AllocatedBlocks)
    handoff: Handoff | None = None
    engine: KvKeeper | None = None
    logprobs: bool = False
    structured: bool = False
    failed: bool = False
    left: bool = False
    schema: int = -1
    schema_seconds: float = 0.0
    tools: bool = False
    missed: bool = False
    images: tuple[int, ...] = ()
    encode: float = 0.0

    @property
    def end(self) -> int:
        """Token clock at which the stream has its last token."""
        return self.clock0 + self.output - self.base

    def context(self, clock: int) -> int:
        """Tokens in the KV cache while it decodes."""
        return self.prompt + self.base + clock - self.clock0


def prepare(request: EngineRequest, source: KvKeeper, reader: EngineRequest) -> None:
    """Tie a prefill request to the decode request that will read its KV."""
    handoff = Handoff(source, request, reader)
    request.handoff = handoff
    reader.handoff = handoff


def expected(accept: Sequence[float], valid: float = 1.0) -> tuple[float, float]:
    """(tokens accepted, tokens verified) of one stream and step, besides the one that every step yields.

    accept: chance that the token at each position is accepted once those before it were; valid: chance that a drafted
    token fits the grammar of the answer once those before it did. vLLM drops the rest of a draft before it is
    verified and counts only what is left (make_spec_decoding_stats subtracts tokens that the grammar refuses).
    """
    accepted = verified = 0.0
    chance = fits = 1.0
    for p in accept:
        fits *= valid
        chance *= p
        accepted += chance * fits
        verified += fits
    return accepted, verified
