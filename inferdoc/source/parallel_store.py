"""A store, read by several workers at once.

Most of the time for a fleet of hundreds of pods goes into decoding pages and evaluating reads, target by target. Where
there is a second core and enough to read, another process does so for nearly half of the targets; with `--engine` as
many workers as were requested, here or on a cluster (`executors`). Here the answers are put together, bit for bit those
of one process: rows of one worker alone are taken as they are, and a read with rows that targets of several workers add
to is evaluated here for all targets, since sums depend on their order. A worker that ends is restarted once; what
workers cannot do, one process does alone.
"""

from __future__ import annotations

import itertools
from collections import ChainMap, Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from inferdoc.errors import InferdocError
from inferdoc.source.base import InfoSeries, Scrapes, SourceKind
from inferdoc.source.executors import Executor, LocalProcesses
from inferdoc.source.histograms import Quantiles
from inferdoc.source.page_histograms import Called
from inferdoc.source.part import Part, usable_cores
from inferdoc.source.part_reader import HandedOver, PartAnswer, PartEndedError, PartOfStore, PartWorker
from inferdoc.source.readable import Readable
from inferdoc.source.reads import Grid, Matcher, Read, ReadResult
from inferdoc.source.scrape_times import gather
from inferdoc.source.store_source import StoreSource

LEAST_SCRAPES = 200_000
"""From so many on, half of the work takes longer than a process takes to begin."""
T = TypeVar("T")
ByShare = Mapping[float, Quantiles | None]


@dataclass
class _Hand:
    """A worker and its part. unheard: how many answers nobody waited for; told, samples: its warnings and its cost, as
    taken over so far; is_second: whether a worker for this part ended before."""

    part: Part
    worker: PartWorker
    unheard: int = 0
    outcome: tuple[str, ...] = ()
    samples: int = 0
    is_second: bool = False


class ParallelStore(Readable):
    """Reads signals from an embedded store; implements `Source` as `StoreSource` does. timeout: seconds that one call
    may read in each worker; executor: where they are; None: by two processes where that is worth it, by one where
    `alone`. progress: called with how many workers have answered, and of how many."""

    kind: SourceKind = "store"

    def __init__(
        self,
        path: str | Path,
        *,
        timeout: float = 600.0,
        executor: Executor | None = None,
        alone: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._own = StoreSource(path, timeout=timeout)
        self._timeout = timeout
        self._least = LEAST_SCRAPES if executor is None else 0
        self._executor = executor or LocalProcesses(1 if alone else min(2, usable_cores()))
        self._progress = progress or (lambda done, of: None)
        self._may_share = True
        self._hands: list[_Hand] = []
        self._everything: StoreSource | None = None
        self._state: dict[str, tuple[Any, ...]] = {}
        self._few_ms = -1
        self.location, self.warnings, self.cost = self._own.location, self._own.warnings, self._own.cost

    def __repr__(self) -> str:
        return repr(self._own)

    def close(self) -> None:
        """Close the file, and end the workers."""
        self._end_workers()
        self._executor.close()
        self._own.close()

    def expect(self, names: Collection[str], since_ms: int | None = None) -> None:
        """Read these series along with the next ones."""
        known = self._state.get("expect", ((), None))[0]
        self._state["expect"] = ({*names, *known}, since_ms)
        self._all("expect", (names, since_ms), lambda parts: None)

    def read_along(self, names: Collection[str]) -> None:
        """Read these series too whenever samples are read and all fit into memory."""
        self._state["read_along"] = (set(names),)
        self._all("read_along", (set(names),), lambda parts: None)

    def keep(self, names: Collection[str]) -> None:
        """Series that are requested one name at a time."""
        self._state["keep"] = (set(names),)
        self._all("keep", (set(names),), lambda parts: None)

    def target_count(self) -> int | None:
        """How many targets the store holds, of whatever time."""
        return self._own.target_count()

    def leave_out(
        self, targets: Sequence[Mapping[str, str]], kept: Sequence[Mapping[str, str]], engines: Collection[str]
    ) -> bool:
        """From now on read nothing of these targets."""
        self._state["leave_out"] = (list(targets), list(kept), ())
        return self._all("leave_out", self._state["leave_out"], lambda parts: True)

    def latest_ms(self) -> int | None:
        """Time of the newest sample that is not in the future, milliseconds since the epoch; None without any."""
        return self._own.latest_ms()

    def names(self, start_ms: int, end_ms: int) -> set[str]:
        """Series names that have a sample in the time range."""
        return self._own.names(start_ms, end_ms)

    def label_names(self, start_ms: int, end_ms: int) -> set[str] | None:
        """Names of the labels of the time range."""
        self._share(start_ms, end_ms)
        return self._all("label_names", (start_ms, end_ms), lambda parts: set().union(*(part or () for part in parts)))

    def scrapes(self, start_ms: int, end_ms: int) -> list[Scrapes]:
        """Every scrape of every target."""
        self._share(start_ms, end_ms)
        return self._all("scrapes", (start_ms, end_ms), lambda parts: gather(itertools.chain(*parts)))

    def info(self, name: str, grid: Grid, match: tuple[Matcher, ...] = ()) -> list[InfoSeries]:
        """Every series of an info metric."""
        self._share(grid.start_ms, grid.end_ms)
        return self._all("info", (name, grid, match), _series)

    def evaluate(self, reads: Sequence[Read], grid: Grid, match: tuple[Matcher, ...] = ()) -> dict[Read, ReadResult]:
        """All reads on the grid."""
        self._share(grid.start_ms, grid.end_ms)
        parts: list[dict[Read, ReadResult]] = self._all("evaluate", (list(reads), grid, match), list)
        if len(parts) == 1:
            return parts[0]
        crossing = [read for read in dict.fromkeys(reads) if _is_shared([part[read] for part in parts])]
        whole = self._of_all(crossing, grid, match)
        return {r: whole[r] if r in whole else stacked([part[r] for part in parts]) for r in parts[0]}

    def page_quantiles(
        self,
        requested: Mapping[Read, tuple[Sequence[float], Called]],
        grid: Grid,
        match: tuple[Matcher, ...] = (),
    ) -> dict[Read, dict[float, Quantiles | None]]:
        """Some quantiles of the histograms of each read, as far as they can be determined page by page."""
        self._share(grid.start_ms, grid.end_ms)
        if not self._hands:
            return self._own.page_quantiles(requested, grid, match)
        as_stored = {read: (shares, _as_stored) for read, (shares, _) in requested.items()}
        parts: list[dict[Read, ByShare]] = self._all("page_quantiles", (as_stored, grid, match), list)
        if len(parts) == 1:
            return self._own.page_quantiles(requested, grid, match)
        outcome = [read for read in parts[0] if all(read in part for part in parts)]
        named = {read: _named([part[read] for part in parts], requested[read][1]) for read in outcome}
        return {read: found for read, found in named.items() if found is not None}

    @contextmanager
    def undivided(self) -> Iterator[Sequence[Callable[[HandedOver], PartWorker]]]:
        """Meanwhile this process reads alone what is read of it, so that others can do whole pieces of the work.
        Yields what begins a process for each core that is free then; none of a cluster, whose workers go on reading."""
        executor = self._executor
        if not isinstance(executor, LocalProcesses):
            yield []
            return
        may_share = self._may_share or bool(self._hands)
        self._own.learn(self._all("known_as", (), lambda parts: dict(ChainMap(*parts))))
        self._end_workers()
        self._may_share = False
        try:
            yield [executor.begin] * executor.others
        finally:
            self._may_share = may_share

    def as_part(self) -> PartOfStore:
        """All of the store, as another process is to read it."""
        path = str(Path(self.location).absolute())
        whole, own = Part(0.0, 1.0), self._own
        requested = PartOfStore(path, self.location, whole, self._timeout, own.hidden)
        return replace(requested, known_as=own.known_as(), spans=own.spans)

    def _share(self, start_ms: int, end_ms: int) -> None:
        """Have the parts of the workers read by them, from now on, where it is worth it."""
        if not self._may_share or self._hands:
            return
        here, others = self._executor.shares()
        since_ms = self._state.get("expect", ((), None))[1]
        begin_ms = min(start_ms, since_ms or start_ms)
        if (
            not others or end_ms - begin_ms <= self._few_ms
        ):  # every call would count, and counting is a query for each target
            return
        if self._least and self._own.scrape_count(begin_ms, end_ms) < self._least:
            self._few_ms = end_ms - begin_ms
            return
        self._may_share = False
        try:
            for part in others:
                try:
                    self._hands.append(self._begin(part))
                except PartEndedError:
                    self._hands.append(self._begin(part))
        except PartEndedError as ended:
            self._go_on_alone(ended)
            return
        self._own.read_only(here)

    def _begin(self, part: Part) -> _Hand:
        """A worker that knows the warnings so far. Raises PartEndedError."""
        requested = replace(self.as_part(), part=part)
        hand = _Hand(part, self._executor.begin(requested), unheard=len(self._state))
        for method, args in self._state.items():
            hand.worker.ask(method, *args)
        return hand

    def _all(self, method: str, args: tuple[Any, ...], put_together: Callable[[list[Any]], T]) -> T:
        """What this process and all workers answer, or this one where it is alone."""
        call = getattr(self._own, method)
        try:
            for hand in self._hands:
                self._ask(hand, method, args)
            own: Any = None
            error: Exception | None = None
            try:
                own = call(*args)
            except InferdocError as raised:
                error = raised  # the other answers are taken all the same, or they would be those of the next call
            answers = []
            for hand in self._hands:
                answers.append(self._answer(hand, method, args))
                self._progress(len(answers), len(self._hands))
        except PartEndedError as ended:
            self._go_on_alone(ended)
            return put_together([call(*args)])
        error = error or next((answer.error for answer in answers if answer.error is not None), None)
        if error is not None:
            raise error
        if self._own.is_partial or any(answer.is_partial for answer in answers):
            self._end_workers()  # what does not fit must be left out of all parts alike, and damage be reported once
            return put_together([call(*args)])
        for hand, answer in zip(self._hands, answers, strict=True):
            self._take_in(hand, answer)
        return put_together([own, *(answer.value for answer in answers)])

    def _ask(self, hand: _Hand, method: str, args: tuple[Any, ...]) -> None:
        try:
            hand.worker.ask(method, *args)
        except PartEndedError as ended:
            self._begin_again(hand, ended)
            hand.worker.ask(method, *args)

    def _answer(self, hand: _Hand, method: str, args: tuple[Any, ...]) -> PartAnswer:
        try:
            return self._heard(hand)
        except PartEndedError as ended:
            self._begin_again(hand, ended)
            hand.worker.ask(method, *args)
            return self._heard(hand)

    def _heard(self, hand: _Hand) -> PartAnswer:
        """The answer to the last call, after those that nobody waited for."""
        while hand.unheard:
            hand.worker.answer()
            hand.unheard -= 1
        return hand.worker.answer()

    def _begin_again(self, hand: _Hand, ended: PartEndedError) -> None:
        """Another worker in the place of one that ended. Raises PartEndedError where that was the second."""
        hand.worker.close()
        if hand.is_second:
            raise ended
        fresh = self._begin(hand.part)
        hand.worker, hand.unheard, hand.is_second = fresh.worker, fresh.unheard, True
        hand.samples = 0

    def _take_in(self, hand: _Hand, answer: PartAnswer) -> None:
        """The warnings and the cost of a worker along with those of this process."""
        if answer.warnings != hand.outcome:
            self.warnings[:] = [line for line in self.warnings if line not in hand.outcome]
            self.warnings += [line for line in answer.warnings if line not in self.warnings]
            hand.outcome = answer.warnings
        self.cost.samples += answer.samples - hand.samples
        hand.samples = answer.samples

    def _of_all(self, reads: Sequence[Read], grid: Grid, match: tuple[Matcher, ...]) -> dict[Read, ReadResult]:
        """Reads evaluated here for all targets."""
        if not reads:
            return {}
        if self._everything is None:
            self._everything = StoreSource(self.location, timeout=self._timeout, hidden=self._own.hidden)
        self._everything.leave_out(*self._state.get("leave_out", ((), (), ())))
        found = self._everything.evaluate(reads, grid, match)
        self.warnings += [line for line in self._everything.warnings if line not in self.warnings]
        return found

    def _go_on_alone(self, ended: PartEndedError) -> None:
        """Read all here. A warning says so where an engine was requested."""
        self._end_workers()
        if not self._least:
            name = self._executor.name
            self.warnings.append(f"--engine {name}: {ended}, twice; one process has read all targets instead")

    def _end_workers(self) -> None:
        for hand in self._hands:
            hand.worker.close()
        self._hands.clear()
        if self._everything is not None:
            self._everything.close()
            self._everything = None
        if self._own.part is not None:
            self._own.read_only(None)


def stacked(parts: Sequence[ReadResult]) -> ReadResult:
    """The rows of one read from several groups of targets, sorted by key; no two have the same one."""
    filled = [part for part in parts if part.keys]
    if len(filled) < 2:
        return filled[0] if filled else parts[0]
    keys = [key for part in filled for key in part.keys]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    values = np.vstack([part.values for part in filled])
    return ReadResult(filled[0].by, [keys[row] for row in order], values[order])


def _is_shared(parts: Sequence[ReadResult]) -> bool:
    """Whether targets of several parts add to one row."""
    return max(Counter(key for part in parts for key in part.keys).values(), default=0) > 1


def _as_stored(key: tuple[str, ...]) -> tuple[str, ...]:
    return key


def _series(parts: list[list[InfoSeries]]) -> list[InfoSeries]:
    return sorted(itertools.chain(*parts), key=lambda one: sorted(one.labels.items()))


def _named(outcome: Sequence[ByShare], named: Called) -> dict[float, Quantiles | None] | None:
    """The quantiles of all parts under the usual names; None where two histograms have one name: their buckets must
    be added up first."""
    found: dict[float, Quantiles | None] = {}
    for q in outcome[0]:
        parts = [part for each in outcome if (part := each[q]) is not None]
        keys = [named(key) for part in parts for key in part.keys]
        if len(set(keys)) < len(keys):
            return None
        order = sorted(range(len(keys)), key=keys.__getitem__)
        found[q] = None
        if parts:
            values = np.vstack([part.values for part in parts])
            bounds = min((part.bounds for part in parts), key=len)
            found[q] = Quantiles([keys[row] for row in order], values[order], bounds)
    return found
