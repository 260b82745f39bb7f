"""One vLLM engine: its front end, its queues, the KV it keeps for others and reads from others."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable

import numpy as np

from inferdoc.simulate.batch import EngineConfig
from inferdoc.simulate.hardware import StepTime
from inferdoc.simulate.link import POST, POST_PER_DESCRIPTOR, HostTier, Link
from inferdoc.simulate.request import EngineRequest, RequestState
from inferdoc.simulate.scheduler import Scheduler
from inferdoc.simulate.workload import FrontEnd, Grammars

ARRIVE, ABORT, LEASE, FREED, FAIL, COMPILED = range(6)
FOREVER = float("inf")


class Engine(Scheduler):
    """advance(until) moves the engine on in time; submit, abort and the other events may come in any order before.

    finished: called when a request is over; prefilled: when its KV is ready for another engine to read.
    """

    def __init__(
        self,
        config: EngineConfig,
        timing: StepTime,
        rng: np.random.Generator,
        now: float = 0.0,
        link: Link | None = None,
        finished: Callable[[EngineRequest, float], None] | None = None,
        prefilled: Callable[[EngineRequest, float], None] | None = None,
    ) -> None:
        super().__init__(config, timing, rng, now)
        self.started = now
        self.link = link
        size = config.kv_bytes * config.block_size
        self.host = HostTier(config.host_blocks, size, config.host_link) if config.host_blocks else None
        self.failing_reads = 0.0
        self.remote: deque[EngineRequest] = deque()
        self.pinned: dict[int, EngineRequest] = {}
        self.hung = False
        self.side_channel = True
        self.seen_adapters: dict[str, float] = {}
        self._loading: dict[int, EngineRequest] = {}
        self._handshaking: list[EngineRequest] = []
        self._handshake_ends = -1.0
        self._finished = finished
        self._prefilled = prefilled
        self._inbox: list[tuple[float, int, int, EngineRequest]] = []
        self._serial = 0
        self.front = FrontEnd(config.api_servers, now)
        self._grammars = Grammars(config.grammar_workers, now)
        self._compiling: dict[int, EngineRequest] = {}
        self._submitted = 0

    # ---- from outside ------------------------------------------------------------------------------------------

    def submit(self, request: EngineRequest, now: float) -> None:
        """A request reaches the front end, which may refuse it; the engine sees it once it is tokenised."""
        request.engine = self
        if self.config.max_queued and self.load + self._submitted >= self.config.max_queued:
            self._refuse(request, now)
            return
        work = self.timing.tokenise(request.prompt)
        if request.images:
            seconds, new = self.front.images(request)
            work += seconds / self.timing.health.cpu
            request.encode = self.timing.encode(new)
        self._submitted += 1
        self._push(self.front.ready_at(now, work, self.stats.generation), ARRIVE, request)

    def _refuse(self, request: EngineRequest, now: float) -> None:
        """503 at once: --max-num-queued-reqs counts what runs and what waits."""
        self.front.rejected += 1
        self.stats.answered(0.001, request.prompt, "5xx")
        request.failed = True
        request.state = RequestState.DONE
        if self._finished is not None:
            self._finished(request, now)

    def abort(self, request: EngineRequest, now: float) -> None:
        """The client left."""
        self._push(now, ABORT, request)

    def free_later(self, request: EngineRequest, now: float) -> None:
        """The reader of a pinned request has its KV."""
        self._push(now, FREED, request)

    def _push(self, when: float, kind: int, request: EngineRequest) -> None:
        self._serial += 1
        heapq.heappush(self._inbox, (when, self._serial, kind, request))

    def advance(self, until: float) -> None:
        """Run to `until`; a step in progress is finished, so `now` may lie a step later."""
        if self.hung:
            self.now = max(self.now, until)
            return
        inbox = self._inbox
        while self.now < until:
            while inbox and inbox[0][0] <= self.now:
                _, _, kind, request = heapq.heappop(inbox)
                self._handle(kind, request)
            if self.link is not None:
                self._read_remote()
            if self.host is not None:
                self._read_host(self.host)
            if not self._step(min(until, self._next_event())):
                self.now = min(until, max(self._next_event(), self.now + 1e-6))

    def _next_event(self) -> float:
        event = self._inbox[0][0] if self._inbox else FOREVER
        if self.host is not None:
            event = min(event, self.host.link.next_end())
        return event if self.link is None else min(event, self.link.next_end())

    # ---- gauges ------------------------------------------------------------------------------------------------

    @property
    def usage(self) -> float:
        return self.pool.used / self.pool.total

    def waiting_by_reason(self) -> tuple[int, int]:
        """Requests that wait for capacity, and those deferred for an adapter slot, their KV or their grammar. A read
        that cannot begin for want of a slot or of blocks waits for capacity: vLLM has not scheduled its request yet."""
        blocked = sum(1 for r in self.waiting if not self._adapter_fits(r)) if self.config.loras else 0
        deferred = blocked + len(self._loading) + len(self._handshaking) + len(self._compiling)
        return len(self.waiting) - blocked + len(self.remote), deferred

    def fetch_stages(self) -> tuple[int, int, int]:
        """Requests whose KV transfer is pending, in progress, and done while they wait for the scheduler."""
        done = sum(1 for r in self.waiting if r.external > 0 and r.scheduled < 0 and r.handoff is not None)
        return len(self.remote), len(self._loading) + len(self._handshaking), done

    @property
    def load(self) -> int:
        """Requests at work or waiting, as a router polls them."""
        present = (self.running, self.waiting, self.remote, self._loading, self._handshaking, self._compiling)
        return sum(map(len, present))

    def live(self) -> list[EngineRequest]:
        """Every request that would be lost with the process."""
        queued = [r for _, _, kind, r in self._inbox if kind == ARRIVE]
        present = (
            *self.running.values(),
            *self.waiting,
            *self.remote,
            *self._loading.values(),
            *self._handshaking,
            *self._compiling.values(),
            *queued,
        )
        return list({r.id: r for r in present}.values())

    # ---- events ------------------------------------------------------------------------------------------------

    def _handle(self, kind: int, request: EngineRequest) -> None:
        if kind == ARRIVE:
            self._submitted -= 1
            self._arrive(request)
        elif kind == ABORT:
            self._abort(request)
        elif kind == FREED:
            self._unpin(request)
        elif kind == LEASE:
            self._lease_ends(request)
        elif kind == FAIL:
            self._handshake_failed()
        elif kind == COMPILED and self._compiling.pop(request.id, None) is not None:
            self._queue(request)

    def _arrive(self, request: EngineRequest) -> None:
        if request.left:
            return
        request.queued = max(request.queued, self.now) if request.queued < 0 else request.queued
        self._dirty = True
        if request.handoff is None or request.handoff.request is request:
            if request.schema >= 0:
                self._compile(request)
            else:
                self._queue(request)
            return
        request.state = RequestState.REMOTE
        if self.side_channel:
            request.handoff.known = True
            self.remote.append(request)
        else:
            self._handshaking.append(request)
            if self._handshake_ends < self.now:
                self._handshake_ends = self.now + self.config.handshake
                self._push(self._handshake_ends, FAIL, request)

    def _queue(self, request: EngineRequest) -> None:
        request.state = RequestState.WAITING
        self.waiting.append(request)
        self._dirty = True

    def _compile(self, request: EngineRequest) -> None:
        """vLLM passes a request over until the grammar of its schema is there."""
        ready = self._grammars.ready_at(request.schema, request.schema_seconds / self.timing.health.cpu, self.now)
        if ready <= self.now:
            self._queue(request)
            return
        request.state = RequestState.GRAMMAR
        self._compiling[request.id] = request
        self._push(ready, COMPILED, request)

    def _lag(self) -> float:
        return self.front.lag(self.now)

    def _handshake_failed(self) -> None:
        """Every request that came during the attempt ends with an error."""
        self.stats.failed_transfers += 1
        failed, self._handshaking = self._handshaking, []
        for request in failed:
            self._fail(request)

    def _fail(self, request: EngineRequest) -> None:
        """An error before the request was scheduled: vLLM stamps no scheduled time on it, so its queue time is minus
        the uptime of the host and its inference time is the uptime."""
        uptime = self.now + 4300.0
        request.failed = True
        request.state = RequestState.DONE
        stats = self.stats
        stats.success["error"] += 1
        stats.queue.observe(-uptime)
        stats.prefill.observe(uptime)
        stats.inference.observe(uptime)
        stats.decode.observe(0.0)
        stats.tpot.observe(0.0)
        stats.e2e.observe(self.now - request.arrival)
        self._lengths(request, 0)
        stats.answered(self.now - request.sent, request.prompt)
        if self._finished is not None:
            self._finished(request, self.now)

    def _lease_ends(self, request: EngineRequest) -> None:
        handoff = request.handoff
        if request.id not in self.pinned or handoff is None:
            return
        reader = handoff.reader
        alive = reader.engine is not None and not reader.engine.hung and not reader.left and not reader.failed
        if handoff.known and alive and reader.state != RequestState.DONE:
            self._push(self.now + self.config.lease * 2 / 3, LEASE, request)
            return
        handoff.expired = True
        self.stats.expired += 1
        self._unpin(request)

    def _unpin(self, request: EngineRequest) -> None:
        if self.pinned.pop(request.id, None) is not None:
            self.pool.release(request.blocks, self.now)
            self._dirty = True
        elif request.handoff is not None and request.handoff.expired:
            self.stats.late_notifications += 1

    def _abort(self, request: EngineRequest) -> None:
        """Leaves no trace in the engine's statistics; the HTTP layer counts it as answered."""
        state = request.state
        if state in (RequestState.DONE, RequestState.PINNED):
            return
        request.left = True
        if state == RequestState.WAITING:
            self.waiting.remove(request)
        elif state == RequestState.GRAMMAR:
            del self._compiling[request.id]
        elif state == RequestState.REMOTE:
            self._drop_remote(request)
        elif state in (RequestState.PREFILL, RequestState.DECODE):
            self._stop(request)
            self.pool.release(request.blocks, self.now)
        request.state = RequestState.DONE
        self._dirty = True
        self.stats.answered(self.now - request.sent, request.prompt)
        if self._finished is not None:
            self._finished(request, self.now)

    def _drop_remote(self, request: EngineRequest) -> None:
        if request.id in self._loading:
            del self._loading[request.id]
            link = self.host.link if self.host is not None else self.link
            assert link is not None
            link.drop(request, self.now)
            self.pool.release(request.blocks, self.now)
        elif request in self.remote:
            self.remote.remove(request)
        elif request in self._handshaking:
            self._handshaking.remove(request)

    # ---- KV from another engine --------------------------------------------------------------------------------

    def _read_remote(self) -> None:
        link = self.link
        assert link is not None
        for request, seconds, size in link.finished(self.now):
            self._read_done(request, seconds, size)
        while self.remote and len(self.running) < self.config.max_seqs:
            request = self.remote[0]
            admitted = self.pool.admit(request.segments, request.prompt, self.now, self._reserve())
            if admitted is None:
                break
            self.remote.popleft()
            request.blocks, request.hits = admitted
            request.external = request.prompt - request.hits
            self._loading[request.id] = request
            link.start(request, request.external * self.config.kv_bytes, self.now)
        link.settle(self.now)

    def _read_done(self, request: EngineRequest, seconds: float, size: float) -> None:
        del self._loading[request.id]
        self._free_source(request)
        if self.failing_reads and self._rng.random() < self.failing_reads:
            self._read_failed(request)
            return
        workers = self.config.workers
        descriptors = 2 * self.pool.blocks(request.external)
        self.stats.xfer.observe(seconds * self._jitter(), workers)
        self.stats.post.observe((POST + POST_PER_DESCRIPTOR * descriptors) * self._jitter(), workers)
        self.stats.xfer_bytes.observe(size / workers, workers)
        self.stats.descriptors.observe(descriptors, workers)
        request.state = RequestState.WAITING
        # vLLM tries requests it had passed over first, so a loaded one is never stuck behind others.
        self.waiting.appendleft(request)
        self._dirty = True

    def _free_source(self, request: EngineRequest) -> None:
        """The prefill engine need not keep the KV of a request any longer."""
        handoff = request.handoff
        assert handoff is not None
        handoff.source.free_later(handoff.request, self.now)

    def _read_failed(self, request: EngineRequest) -> None:
        """By policy the request ends with an error, or its prompt is computed here."""
        self.stats.failed_transfers += self.config.workers
        self.pool.release(request.blocks, self.now)
        request.external = request.hits = 0
        self._dirty = True
        if self.config.on_failed_read == "recompute":
            request.state = RequestState.WAITING
            self.waiting.appendleft(request)
        else:
            self._fail(request)

    # ---- KV from host memory -----------------------------------------------------------------------------------

    def _fetch(self, request: EngineRequest) -> bool:
        """Begin to copy what lies in host memory and not on the GPU, if there is room for the whole prompt."""
        host = self.host
        if host is None or request.external or request.scheduled >= 0 or request.logprobs:
            return False
        found = host.matched(request.segments)
        hits, _ = self.pool.matched(request.segments, request.prompt)
        most = (request.prompt - 1) // self.config.block_size
        if min(found, most) <= hits:
            return False
        admitted = self.pool.admit(request.segments, request.prompt, self.now, self._reserve())
        if admitted is None:
            return False
        request.blocks, request.hits = admitted
        request.external = min(found, most) * self.config.block_size - request.hits
        request.state = RequestState.REMOTE
        self._loading[request.id] = request
        host.link.start(request, request.external * self.config.kv_bytes, self.now)
        return True

    def _read_host(self, host: HostTier) -> None:
        for request, seconds, size in host.link.finished(self.now):
            del self._loading[request.id]
            host.stats.load_bytes += size
            host.stats.load_seconds += seconds
            request.state = RequestState.WAITING
            self.waiting.appendleft(request)
            self._dirty = True
        host.link.settle(self.now)

    def _ended(self, request: EngineRequest) -> None:
        """The blocks go back, or wait for their reader."""
        if request.handoff is not None and request.handoff.request is request:
            request.state = RequestState.PINNED
            self.pinned[request.id] = request
            self._push(self.now + self.config.lease, LEASE, request)
            if self._prefilled is not None:
                self._prefilled(request, self.now)
            return
        self.pool.release(request.blocks, self.now)
        if self.host is not None:
            self.host.store(request.segments)
        if self._finished is not None:
            self._finished(request, self.now)
