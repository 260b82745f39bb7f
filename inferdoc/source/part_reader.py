"""A part of a store, read for another process: by a process here, or by an actor of Ray or Dask."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from inferdoc.cycles import no_cycle_search
from inferdoc.errors import InferdocError, SourceError
from inferdoc.source.part import Part
from inferdoc.source.store_source import NameSpans, StoreSource
from inferdoc.source.tables import Labels
from inferdoc.store.indexes import Hidden
from inferdoc.version import __version__


@dataclass(frozen=True)
class PartAnswer:
    """value: what the call returned, or error: what it raised; warnings: all lines so far; is_partial: whether metrics
    did not fit, or something is damaged; samples: how many were read so far."""

    value: Any
    error: Exception | None
    warnings: tuple[str, ...]
    is_partial: bool
    samples: int


class Responder(Protocol):
    """What a process does for another one: each call has an answer."""

    def call(self, method: str, args: tuple[Any, ...]) -> PartAnswer:
        """Answer a call."""


class HandedOver(Protocol):
    """What a process gets first: it is handed over as it is."""

    def worker(self) -> Responder:
        """Begin, in that process."""


class PartEndedError(Exception):
    """What read a part is not there any more, or never was. One line: why."""


class PartWorker(Protocol):
    """Reads one part. Calls are made in order: `ask`, then `answer`. Both raise PartEndedError."""

    def ask(self, method: str, *args: Any) -> None:
        """Have a method of `StoreSource` called."""

    def answer(self) -> PartAnswer:
        """What the first call that is not answered yet came to."""

    @property
    def close(self) -> Any:
        """Called without arguments, it ends the work; a second time it does nothing."""


@dataclass(frozen=True)
class PartOfStore:
    """What a worker is to read. path: as it can be opened there; location: as it is called in warnings; timeout:
    seconds that one call may read; hidden: scrapes that no index leads to; version: of inferdoc here; known_as,
    spans: those of a `StoreSource` here."""

    path: str
    location: str
    part: Part
    timeout: float
    hidden: Sequence[Hidden]
    version: str = __version__
    known_as: Mapping[Labels, Labels] = field(default_factory=dict)
    spans: NameSpans | None = None

    def worker(self) -> PartReader:
        """What reads it, in the process that is to read it."""
        return PartReader(self)


class PartReader:
    """A `StoreSource` of a part, each call of which has an answer."""

    def __init__(self, its: PartOfStore) -> None:
        """Raises SourceError where the store cannot be opened here, or inferdoc is of another version here."""
        if its.version != __version__:
            raise SourceError(f"inferdoc is {__version__} there and {its.version} here; install the same on both")
        self._source = StoreSource(its.path, timeout=its.timeout, part=its.part, hidden=its.hidden)
        self._source.location = its.location
        self._source.learn(its.known_as, its.spans)

    @no_cycle_search()
    def call(self, method: str, args: tuple[Any, ...]) -> PartAnswer:
        """Call a method of the source."""
        value, error = None, None
        try:
            value = getattr(self._source, method)(*args)
        except InferdocError as raised:
            error = raised
        source = self._source
        return PartAnswer(value, error, tuple(source.warnings), source.is_partial, source.cost.samples)

    def call_pickled(self, method: str, args: tuple[Any, ...]) -> bytes:
        """The same as bytes: arrays that an engine shares between processes cannot be written to."""
        return pickle.dumps(self.call(method, args), protocol=5)
