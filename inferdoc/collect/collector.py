"""The collecting loop: each target once per interval, into one sink, until it is stopped."""

from __future__ import annotations

import hashlib
import heapq
import math
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Protocol

from inferdoc.collect.discovery import DEFAULT_JOB, Target, TargetProvider, pairs_from_flags
from inferdoc.collect.eplb_log import EplbLog, eplb_page
from inferdoc.collect.samples import Page
from inferdoc.collect.scrape import ScrapeOptions, Scraper, ScrapeResult
from inferdoc.collect.scrape_series import KeepingUp, page_to_store
from inferdoc.errors import InferdocError, SourceError

DEFAULT_WORKERS = 256
_QUEUE_PAGES = 1024
_REFRESH_SECONDS = 5.0
_MAINTAIN_SECONDS = 600.0
_MAINTAIN_AGAIN_SECONDS = 2.0


class Sink(Protocol):
    """Where pages go. Called from one thread, the one that called `collect`."""

    def append(self, target_labels: dict[str, str], timestamp_ms: int, page: Page) -> object:
        """Store one page; `target_labels` belong to every series, the time is milliseconds since 1970 UTC.
        Returns False where all of it was stored before."""


@dataclass
class CollectStats:
    """What a run of `collect` did: scrapes done, failed ones among them, scrapes left out because the one before
    was still running or this process did not keep up, samples stored, pages that the sink refused, and pages that
    were stored already (a clock that went back)."""

    scrapes: int = 0
    failed: int = 0
    left_out: int = 0
    samples: int = 0
    not_stored: int = 0
    repeated: int = 0


@dataclass(frozen=True)
class LogFeed:
    """A vLLM log to follow, and labels that identify the target that writes it; without labels, the only target does.

    Its samples join the scrapes of that target. Where no single target fits, they are stored once per interval
    under these labels and the `instance` `eplb-log:<file name>`.
    """

    log: EplbLog
    labels: Mapping[str, str] = field(default_factory=dict)

    def owner(self, targets: Sequence[Target]) -> Target | None:
        """The one target that has all the labels; None where there is none, or several."""
        fitting = [target for target in targets if self.labels.items() <= target.labels.items()]
        return fitting[0] if len(fitting) == 1 else None

    def own_labels(self) -> dict[str, str]:
        """Labels under which samples of no target are stored."""
        return {"job": DEFAULT_JOB, "instance": f"eplb-log:{self.log.path.name}", **self.labels}


def log_feed_from_flag(text: str) -> LogFeed:
    """`FILE[,label=value]...`, as `--eplb-log` takes it.

    Raises:
        ConfigError: what follows a comma is no label=value.
    """
    path, *labels = text.split(",")
    return LogFeed(EplbLog(path), pairs_from_flags(labels, f"EPLB log {path}"))


def collect(
    targets: TargetProvider,
    sink: Sink,
    *,
    interval: float = 15.0,
    duration: float | None = None,
    once: bool = False,
    stop: threading.Event | None = None,
    options: ScrapeOptions | None = None,
    eplb: LogFeed | None = None,
    report: Callable[[str], None] = lambda line: None,
    maintain: Callable[[], object] | None = None,
    workers: int = DEFAULT_WORKERS,
    stats: CollectStats | None = None,
) -> CollectStats:
    """Scrape all targets and store every scrape as it comes in.

    Each target has its own fixed moment in the interval, so that many targets are not scraped at one instant,
    and the schedule never drifts. A slow target delays nobody; its own next scrape is left out while the
    one before still runs. A failed scrape is stored as `up` 0. Refused pages are reported and counted.

    Args:
        targets: provides the current targets; read repeatedly while running.
        sink: where pages go.
        interval: seconds between two scrapes of a target.
        duration: seconds after which to end; None for no end.
        once: scrape every target once, at once, and end.
        stop: ends the run when set; scrapes under way are still finished (within their time limit) and stored.
        options: time limits and credentials. The time limit is at most the interval.
        eplb: a vLLM log to follow beside the targets.
        report: gets one line whenever something changes: a target fails, comes back, or sends bad lines.
        maintain: called at the start and every ten minutes, in the thread that stores; drops old scrapes, for example.
            If it returns True, it has more to do and is called again soon.
        workers: scrapes at the same time.
        stats: the numbers to add to, for one who looks at them meanwhile.

    Raises:
        InferdocError: with `once`, what the sink raised. Otherwise such an error is reported and the run goes on.
        SourceError: with `once`, not one target could be scraped.
    """
    if interval <= 0:
        raise ValueError(f"interval must be above 0 seconds, not {interval}")
    options = options or ScrapeOptions()
    run = _Run(sink, report, stop or threading.Event(), stats or CollectStats(), raise_sink_errors=once)
    timeout = options.timeout if once else min(options.timeout, interval)
    with Scraper(options) as scraper, ThreadPoolExecutor(workers, thread_name_prefix="scrape") as pool:
        schedule = _Schedule(targets, run, pool, scraper, interval, timeout, duration)
        scheduler = threading.Thread(target=schedule.run, args=(once,), name="scrape-schedule", daemon=True)
        scheduler.start()
        try:
            run.store_all(schedule, eplb, interval, maintain, scraper.stored)
        finally:
            run.stop.set()
            run.discard_rest(scraper.stored)
            scheduler.join()
    if once and run.stats.scrapes == run.stats.failed:
        reasons = run.complaints() or "there are none"
        raise SourceError(f"none of {run.stats.scrapes} targets could be scraped: {reasons}")
    return run.stats


def jitter(target: Target, interval: float) -> float:
    """Seconds into each interval at which a target is scraped; the same in every process."""
    identity = "\0".join([target.url, *(f"{name}={value}" for name, value in sorted(target.labels.items()))])
    number = int.from_bytes(hashlib.blake2b(identity.encode(), digest_size=8).digest(), "big")
    return interval * number / 2**64


@contextmanager
def stop_on_signals(*signals: signal.Signals) -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT (or the given signals) set, instead of ending the process. Main thread only."""
    stop = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stop.set()) for number in signals or (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Run:
    """What the threads of one run share: results on their way to the sink, and the numbers."""

    def __init__(
        self,
        sink: Sink,
        report: Callable[[str], None],
        stop: threading.Event,
        stats: CollectStats,
        *,
        raise_sink_errors: bool,
    ) -> None:
        self.stats = stats
        self.stop = stop
        self.results: queue.Queue[ScrapeResult | None] = queue.Queue(_QUEUE_PAGES)
        """None comes last."""
        self._ended = False
        self._sink = sink
        self._report = report
        self._raise = raise_sink_errors
        self._problems: dict[str, str] = {}
        self._unstored: set[tuple[tuple[str, str], ...]] = set()
        """Labels of the targets whose newest page could not be stored."""

    def say(self, about: str, text: str | None) -> None:
        """Report a state once, when it changes; None when all is well again."""
        before = self._problems.get(about)
        if text is None:
            if before is not None:
                del self._problems[about]
                self._report(f"{about}: well again")
        elif text != before:
            self._problems[about] = text
            self._report(f"{about}: {text}")

    def complaints(self) -> str:
        """What is wrong now, the first few of it on one line."""
        return "; ".join(f"{about}: {text}" for about, text in list(self._problems.items())[:3])

    def store_all(
        self,
        schedule: _Schedule,
        eplb: LogFeed | None,
        interval: float,
        maintain: Callable[[], object] | None,
        done: Callable[[ScrapeResult], None],
    ) -> None:
        """Store results as they come, until there will be no more. done: called with each stored result."""
        now = time.monotonic()
        log_due = math.inf if eplb is None else now + interval
        maintain_due = math.inf if maintain is None else now
        while not self._ended:
            now = time.monotonic()
            if maintain is not None and now >= maintain_due:
                more = self._maintain(maintain)
                maintain_due = time.monotonic() + (_MAINTAIN_AGAIN_SECONDS if more else _MAINTAIN_SECONDS)
            result = self._next_result(min(log_due, maintain_due) - time.monotonic())
            owner = None if eplb is None else eplb.owner(schedule.targets_now)
            if result is not None:
                extra = None if eplb is None or owner is None or owner != result.target else self._log_page(eplb)
                try:
                    self._store_scrape(result, extra)
                finally:
                    done(result)
            now = time.monotonic()
            if eplb is not None and (self._ended or now >= log_due):
                log_due += interval * (1 + max(0, int((now - log_due) / interval)))
                page = self._log_page(eplb) if owner is None else None
                if page is not None:
                    self._store(eplb.own_labels(), time.time_ns() // 1_000_000, page)

    def _next_result(self, seconds: float) -> ScrapeResult | None:
        """The next result; None after so many seconds without one, or at the end."""
        try:
            result = self.results.get(timeout=None if math.isinf(seconds) else max(0.0, seconds))
        except queue.Empty:
            return None
        self._ended = result is None
        return result

    def _maintain(self, work: Callable[[], object]) -> bool:
        """Do some upkeep; whether there is more to do."""
        try:
            more = work() is True
        except InferdocError as error:
            self.say("store upkeep", str(error))
            return False
        self.say("store upkeep", None)
        return more

    def discard_rest(self, done: Callable[[ScrapeResult], None]) -> None:
        """Take results nobody will store, so that no thread waits for room."""
        while not self._ended:
            result = self.results.get()
            self._ended = result is None
            if result is not None:
                done(result)

    def _log_page(self, eplb: LogFeed) -> Page | None:
        page = eplb_page(eplb.log.read())
        eplb.log.newest = page or eplb.log.newest
        self.say("EPLB log", eplb.log.problem)
        return page

    def _store_scrape(self, result: ScrapeResult, extra: Page | None) -> None:
        self.stats.scrapes += 1
        self.stats.failed += not result.up
        problems = result.page.problems if result.page is not None else []
        trouble = result.error or (f"{len(problems)} problems, first: {problems[0]}" if problems else None)
        self.say(_name(result.target), trouble)
        self._store(dict(result.target.labels), result.timestamp_ms, page_to_store(result, extra))

    def _store(self, labels: dict[str, str], timestamp_ms: int, page: Page) -> None:
        target = tuple(sorted(labels.items()))
        try:
            new = self._sink.append(labels, timestamp_ms, page) is not False
        except InferdocError as error:
            self.stats.not_stored += 1
            if self._raise:
                raise
            self._unstored.add(target)
            self.say("store", str(error))
        else:
            self.stats.samples += len(page) if new else 0
            self.stats.repeated += not new
            self._unstored.discard(target)
            # A disk that is nearly full still takes the small page of a failed scrape: that alone is not well again.
            if not self._unstored:
                self.say("store", None)


class _Schedule:
    """Decides when each target is scraped, in a thread of its own, so that nothing delays it."""

    def __init__(
        self,
        provider: TargetProvider,
        run: _Run,
        pool: ThreadPoolExecutor,
        scraper: Scraper,
        interval: float,
        timeout: float,
        duration: float | None,
    ) -> None:
        self._provider, self._run, self._pool, self._scraper = provider, run, pool, scraper
        self._interval, self._timeout = interval, timeout
        self._begin = time.monotonic()
        self._end = float("inf") if duration is None else self._begin + duration
        self._spread = interval if duration is None else min(interval, duration)
        self._due: list[tuple[float, int, Target]] = []
        self._known: dict[str, Target] = {}
        self._busy: dict[str, bool] = {}
        """Targets with a scrape in progress: True once a worker runs it, False while it waits for one."""
        self._keeping_up = KeepingUp(interval, partial(run.say, "collector"), self._begin)
        self._free = threading.Condition()
        self._numbers = count()
        self.targets_now: tuple[Target, ...] = ()

    def run(self, once: bool) -> None:
        """Submit scrapes until the end, wait for those under way, then say that all is done."""
        try:
            self._refresh(self._begin)
            if once:
                for target in self.targets_now:
                    self._submit(target)
            else:
                self._loop()
        except Exception as error:
            self._run.say("targets", f"scheduling ended: {type(error).__name__}: {error}")
        with self._free:
            self._free.wait_for(lambda: not self._busy)
        self._run.results.put(None)

    def _loop(self) -> None:
        every = min(self._interval, _REFRESH_SECONDS)
        refresh_at = self._begin + every
        while not self._run.stop.is_set() and (now := time.monotonic()) < self._end:
            if now >= refresh_at:
                self._refresh(now)
                self._keeping_up.look(now, len(self._known))
                refresh_at = now + every
            while self._due and self._due[0][0] <= now:
                due, number, target = heapq.heappop(self._due)
                if self._known.get(_key(target)) is not target:
                    continue
                self._submit(target)
                missed = int((now - due) / self._interval)
                self._run.stats.left_out += missed
                self._keeping_up.left_out(missed)
                heapq.heappush(self._due, (due + (missed + 1) * self._interval, number, target))
            next_due = self._due[0][0] if self._due else refresh_at
            self._run.stop.wait(max(0.0, min(refresh_at, next_due, self._end) - time.monotonic()))

    def _refresh(self, now: float) -> None:
        """Take up new targets, forget those that are gone."""
        try:
            current = {_key(target): target for target in self._provider.targets()}
        except InferdocError as error:
            self._run.say("targets", str(error))
            return
        problems = self._provider.problems
        self._run.say("targets", "; ".join(problems) if problems else None)
        for gone in self._known.keys() - current.keys():
            self._scraper.forget(self._known.pop(gone))
        for key in current.keys() - self._known.keys():
            target = self._known[key] = current[key]
            first = self._begin + jitter(target, self._spread)
            turns = max(0, math.ceil((now - first) / self._interval))
            heapq.heappush(self._due, (first + turns * self._interval, next(self._numbers), target))
        self.targets_now = tuple(self._known.values())

    def _submit(self, target: Target) -> None:
        key = _key(target)
        with self._free:
            if key in self._busy:
                self._run.stats.left_out += 1
                self._keeping_up.left_out(int(not self._busy[key] or self._run.results.full()))
                return
            self._busy[key] = False
        self._pool.submit(self._scrape, target, key)

    def _scrape(self, target: Target, key: str) -> None:
        with self._free:
            self._busy[key] = True
        try:
            if not self._run.stop.is_set():
                self._run.results.put(self._scraper.scrape(target, self._timeout))
        finally:
            with self._free:
                del self._busy[key]
                self._free.notify_all()


def _key(target: Target) -> str:
    return "\0".join([target.url, *(f"{name}={value}" for name, value in sorted(target.labels.items()))])


def _name(target: Target) -> str:
    pod, instance = target.labels.get("pod"), target.labels.get("instance", "")
    return f"{pod} ({instance})" if pod else instance
