"""A fleet that is too large for one look, scanned part by part: by this process, and by one for each further core.

A part is whole families, so what is seen of it depends on no other part: a process reads it, judges it, and hands over
which families are affected. Next to nothing passes between them, and memory does not grow with the fleet. A process
that ends leaves its part to the others.
"""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from inferdoc.catalogue.load import load_catalogue
from inferdoc.cycles import no_cycle_search
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Family
from inferdoc.judging.scan.model import Looked, together
from inferdoc.judging.session import Inquiry, Options
from inferdoc.source.fleet_places import PartOfFleet
from inferdoc.source.identified import Identified
from inferdoc.source.parallel_store import ParallelStore
from inferdoc.source.part_reader import HandedOver, PartAnswer, PartEndedError, PartOfStore, PartWorker
from inferdoc.source.store_source import StoreSource
from inferdoc.times import Moment


@dataclass(frozen=True)
class PartSeen:
    """What was seen of a part. affected: the families that are; below: those that are by a lower reference, None where
    nobody required."""

    looked: Looked
    affected: frozenset[Family]
    below: frozenset[Family] | None


Scan = Callable[[Inquiry, bool], PartSeen]
"""Scans what is read now; whether lower references are climbed to where nobody is affected."""


@dataclass(frozen=True)
class Scanner:
    """What a further process gets. scan: a function of a module; identified: what the labels show."""

    store: PartOfStore
    identified: Identified
    options: Options
    window: tuple[Moment | None, Moment | None, Moment]
    scan: Scan

    def worker(self) -> PartScanner:
        """Open the store there."""
        return PartScanner(self)


class PartScanner:
    """Scans parts for another process."""

    def __init__(self, required: Scanner) -> None:
        self._source = StoreSource(required.store.path, timeout=required.store.timeout, hidden=required.store.hidden)
        self._source.location = required.store.location
        self._source.learn(required.store.known_as, required.store.spans)
        source = required.identified.taught(self._source)
        catalogue = required.options.catalogue or load_catalogue(source.catalogue)
        self._inquiry, self._scan = Inquiry(source, catalogue, required.options, required.window), required.scan

    @no_cycle_search()
    def call(self, method: str, args: tuple[Any, ...]) -> PartAnswer:
        """Scan a part. args: which, and whether lower references are climbed to."""
        value, error = None, None
        try:
            value = scan_part(self._inquiry, self._scan, *args)
        except InferdocError as raised:
            error = raised
        source = self._source
        return PartAnswer(value, error, tuple(source.warnings), source.is_partial, source.cost.samples)


def scan_part(inquiry: Inquiry, scan: Scan, part: PartOfFleet, climbs: bool) -> PartSeen:
    """Read and judge one part."""
    source = inquiry.source
    assert isinstance(source, Identified)
    source.read_part(part)
    seen = scan(inquiry, climbs)
    gc.collect()  # the search for cycles is put off until the answer stands: nobody else lets go of a part
    return seen


@dataclass
class _Round:
    """Parts that are to be scanned, and what was seen of those that are. climbs: whether lower references are required:
    as long as nobody is affected, unless `always`."""

    waiting: deque[int]
    always: bool
    seen: dict[int, PartSeen] = field(default_factory=dict)
    error: Exception | None = None
    is_affected: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> tuple[int, bool] | None:
        """The next part, and whether lower references are requested it; None where there is none, or one has failed."""
        with self.lock:
            if not self.waiting or self.error is not None:
                return None
            return self.waiting.popleft(), self.always or not self.is_affected

    def put(self, number: int, seen: PartSeen) -> None:
        """What was seen of a part."""
        with self.lock:
            self.seen[number] = seen
            self.is_affected |= bool(seen.affected)

    def give_back(self, number: int) -> None:
        """Who took a part has ended."""
        with self.lock:
            self.waiting.appendleft(number)

    def fail(self, error: Exception) -> None:
        """A part cannot be read."""
        with self.lock:
            self.error = self.error or error


class PartScans:
    """Scans the parts of the fleet that an inquiry is about."""

    def __init__(
        self,
        inquiry: Inquiry,
        scan: Scan,
        parts: Sequence[PartOfFleet],
        crew: Sequence[PartWorker],
        seen: Mapping[int, PartSeen],
    ) -> None:
        self._inquiry, self._scan, self._parts, self._crew = inquiry, scan, parts, list(crew)
        self._samples: dict[int, int] = {}
        self.seen = dict(seen)

    @classmethod
    @contextmanager
    def of(cls, inquiry: Inquiry, scan: Scan, most: int, before: PartScans | None = None) -> Iterator[PartScans]:
        """Scans of parts of about so many targets. before: scans of the same parts, of which some are known. Raises
        SourceError."""
        source = inquiry.source
        assert isinstance(source, Identified)
        parts, raw = source.parts(most) if before is None else before._parts, source.raw
        seen = {} if before is None else before.seen
        if not isinstance(raw, ParallelStore):
            yield cls(inquiry, scan, parts, (), seen)
            return
        with raw.undivided() as begins:
            required = Scanner(raw.as_part(), source, inquiry.options, inquiry.window, scan)
            crew = [one for begin in begins[: len(parts) - 1] for one in _start_workers(begin, required)]
            try:
                yield cls(inquiry, scan, parts, crew, seen)
            finally:
                for one in crew:
                    one.close()

    def together(self) -> tuple[Looked, set[Family], set[Family] | None]:
        """What all parts show, the families that are affected, and those that are by a lower reference: None where that
        was not evaluated on all parts without any that is affected."""
        seen = [self.seen[number] for number in range(len(self._parts))]
        below = None if any(each.below is None for each in seen) else [each.below or () for each in seen]
        affected = {family for each in seen for family in each.affected}
        return together(each.looked for each in seen), affected, None if below is None else set().union(*below)

    def run(self, always: bool = False) -> None:
        """Scan all parts; with `always` those of which nobody has required what lower references show. Raises
        SourceError."""
        needed = [n for n in range(len(self._parts)) if n not in self.seen or (always and self.seen[n].below is None)]
        now = _Round(deque(needed), always)
        threads = [threading.Thread(target=self._with, args=(now, one), daemon=True) for one in self._crew]
        for thread in threads:
            thread.start()
        self._here(now)
        for thread in threads:
            thread.join()
        self._here(now)  # what a process that has ended gave back
        if now.error is not None:
            raise now.error
        self.seen |= now.seen

    def _here(self, now: _Round) -> None:
        """Scan parts in this process until there is none left."""
        try:
            while (taken := now.take()) is not None:
                number, climbs = taken
                now.put(number, scan_part(self._inquiry, self._scan, self._parts[number], climbs))
        except InferdocError as error:
            now.fail(error)

    def _with(self, now: _Round, worker: PartWorker) -> None:
        """Have a further process scan parts until there is none left."""
        source = self._inquiry.source
        while (taken := now.take()) is not None:
            number, climbs = taken
            try:
                worker.ask("scan", self._parts[number], climbs)
                answer = worker.answer()
            except PartEndedError:
                now.give_back(number)
                return
            if answer.error is not None:
                now.fail(answer.error)
                return
            now.put(number, answer.value)
            with now.lock:
                source.warnings += [line for line in answer.warnings if line not in source.warnings]
                source.cost.samples += answer.samples - self._samples.get(id(worker), 0)
                self._samples[id(worker)] = answer.samples


def _start_workers(begin: Callable[[HandedOver], PartWorker], required: Scanner) -> list[PartWorker]:
    try:
        return [begin(required)]
    except PartEndedError:
        return []  # this process does the work alone
