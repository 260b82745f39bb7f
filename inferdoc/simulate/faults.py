"""Inject faults into a simulated fleet on schedule."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

from inferdoc.simulate.autoscaler import FleetHandle
from inferdoc.simulate.pod import Pod
from inferdoc.simulate.scenario import FaultSpec


@dataclass
class Rollout:
    """One pool on its way from old pods to new ones. old: still to be replaced; starting: (when it is ready, the new
    pod, the one it replaces, None where it replaces none)."""

    fault: FaultSpec
    old: list[Pod]
    at_a_time: int
    starting: list[tuple[float, Pod, Pod | None]] = field(default_factory=list)


class Rollouts:
    """tick(now) moves every rollout. A new pod loads for `after` seconds, then gets traffic; the pod that it replaces
    leaves the rotation, is drained for at most `seconds`, and gone. So the pool never has fewer ready pods."""

    def __init__(self, fleet: FleetHandle) -> None:
        self._fleet = fleet
        self._at_work: list[Rollout] = []

    def begin(self, now: float, fault: FaultSpec, pods: list[Pod]) -> None:
        """rollout: replace these pods, pool by pool; grow: one pod more in the pool of each."""
        for pool in dict.fromkeys(pod.spec.name for pod in pods):
            members = [pod for pod in pods if pod.spec.name == pool and pod.scraped]
            if fault.kind == "grow":
                work = Rollout(fault, [], 0)
                self._start(work, pool, None, now)
            else:
                work = Rollout(fault, members, max(1, ceil(fault.surge * len(members))))
                generation = 1 + max(pod.generation for pod in members)
                self._fleet.renew(pool, generation, fault.flags, fault.version)
                self._next(work, now)
            self._at_work.append(work)

    def tick(self, now: float) -> None:
        """What is due at `now`."""
        for work in list(self._at_work):
            for entry in [e for e in work.starting if e[0] <= now]:
                work.starting.remove(entry)
                self._ready(work, entry[1], entry[2], now)
            if not work.starting:
                self._next(work, now)
            if not work.starting:
                self._at_work.remove(work)

    def _next(self, work: Rollout, now: float) -> None:
        for _ in range(min(work.at_a_time, len(work.old))):
            old = work.old.pop(0)
            if old.scraped:
                self._start(work, old.spec.name, old, now)

    def _start(self, work: Rollout, pool: str, old: Pod | None, now: float) -> None:
        fault = work.fault
        pod = self._fleet.add_pod(pool, ready=False)
        pod.alive, pod.scraped = False, fault.early
        pod.created = now
        work.starting.append((now + (pod.spec.cold_start if fault.after is None else fault.after), pod, old))

    def _ready(self, work: Rollout, pod: Pod, old: Pod | None, now: float) -> None:
        pod.restart(now)
        pod.in_rotation = pod.scraped = True
        if old is not None and old.scraped:
            self._fleet.replace(old, pod)
            self._fleet.stop(old, now, work.fault.seconds)


GATEWAY_FAULTS = frozenset({"poll", "refresh", "router-cores", "gateway-timeout", "scaler"})


def inject_gateway_fault(fleet: FleetHandle, fault: FaultSpec, begins: bool) -> None:
    """poll: `share` of the readings of the pods fail; refresh: `seconds` between two readings; router-cores: `cpu` of
    the cores it had are left; gateway-timeout: requests are cut after `seconds`; scaler: it reads `metric`, aims at
    `target`, may set at most `most`, waits for `window` s before it scales down."""
    spec, router, gateway = fleet.scenario.router, fleet.router, fleet.gateway
    if fault.kind == "poll":
        for name in fault.pods or tuple(p.name for p in fleet.pods):
            present = fleet.pod(name).name
            if begins:
                router.blocked[present] = fault.share
            else:
                router.blocked.pop(present, None)
    elif fault.kind == "refresh":
        router.refresh = fault.seconds if begins else spec.refresh
    elif fault.kind == "router-cores":
        gateway.cores = spec.cores * (fault.cpu if begins else 1.0)
    elif fault.kind == "gateway-timeout":
        gateway.timeout = fault.seconds if begins else spec.timeout
    else:
        for scaler in fleet.scalers:
            scaler.change(fault if begins else None)


BACK_OFF, MOST_BACK_OFF, FORGIVEN = 10.0, 300.0, 600.0
"""Seconds the kubelet waits before it starts a container again: 10, doubled with every end up to 300, forgotten after
10 minutes of running (Kubernetes documentation, pod lifecycle)."""
SHORT = 0.99
"""Share of the free memory taken at which an allocation fails."""


class Crashes:
    """tick(now) moves every container that a fault has in its grip. seconds: of a fault `oom` how long memory takes to
    fill, of a fault `crash` how long each process lives."""

    def __init__(self, fleet: FleetHandle) -> None:
        self._fleet = fleet
        self._at_work: dict[str, tuple[FaultSpec, float]] = {}
        self._starts: dict[str, float] = {}
        self._ready: dict[str, float] = {}

    def begin(self, pod: Pod, now: float, fault: FaultSpec) -> None:
        """The fault takes hold: memory begins to fill, or the first process has its time to live."""
        self._at_work[pod.name] = (fault, now)

    def end(self, pod: Pod) -> None:
        """The fault is over; a container that is down still starts."""
        self._at_work.pop(pod.name, None)
        pod.memory_taken = 0.0

    def tick(self, now: float) -> None:
        for name, (fault, since) in list(self._at_work.items()):
            pod = self._fleet.pod(name)
            if not pod.alive:
                continue
            share = (now - since) / fault.seconds if fault.seconds else 1.0
            if fault.kind == "oom" and not fault.host:
                pod.memory_taken = min(1.0, max(0.0, share))
            if share >= (SHORT if fault.kind == "oom" else 1.0):
                self._die(pod, now, "OOMKilled" if fault.host else "Error")
        for name, when in list(self._starts.items()):
            if now >= when:
                del self._starts[name]
                pod = self._fleet.pod(name)
                pod.restarts += 1
                pod.waits = False
                pod.memory_taken = 0.0
                self._ready[name] = now + pod.spec.cold_start
        for name, when in list(self._ready.items()):
            if now >= when:
                del self._ready[name]
                pod = self._fleet.pod(name)
                pod.restart(now)
                pod.in_rotation = True
                if name in self._at_work:
                    self._at_work[name] = (self._at_work[name][0], now)

    def _die(self, pod: Pod, now: float, reason: str) -> None:
        fleet = self._fleet
        if now - pod.started > FORGIVEN:
            pod.crashes = 0
        fleet.lose(pod.kill(), now)
        fleet.take_out(pod, now + fleet.scenario.router.detect)
        wait = min(MOST_BACK_OFF, BACK_OFF * 2.0**pod.crashes) if pod.crashes else 1.0
        pod.crashes += 1
        pod.last_end, pod.waits = reason, pod.crashes > 1
        self._starts[pod.name] = now + wait


ENDS_PROCESS = frozenset({48, 94, 95})
"""Xid codes after which the process that used the memory is gone (NVIDIA: double-bit error, contained, uncontained)."""
SCRAPE_FAULTS = frozenset({"scrape-gap", "duplicate-target", "drop-series"})
"""Faults of the scrapes, not of the fleet: they are applied where pages are taken."""


ROLLED = frozenset({"rollout", "grow"})
"""Changes that bring new pods."""


class Schedule:
    """apply(now) does what is due. An `until` undoes what its fault did."""

    def __init__(self, fleet: FleetHandle) -> None:
        self._fleet = fleet
        due: list[tuple[float, int, FaultSpec, bool]] = []
        for number, fault in enumerate(fleet.scenario.faults):
            if fault.kind in SCRAPE_FAULTS:
                continue
            due.append((fault.at, number, fault, True))
            if fault.until is not None:
                due.append((fault.until, number, fault, False))
            if fault.after is not None and fault.kind not in ROLLED:
                due.append((fault.at + fault.after, number, fault, False))
        self._due = sorted(due, key=lambda entry: entry[:2])
        self._kept: dict[int, object] = {}
        self._crashes = Crashes(fleet)
        self._rollouts = Rollouts(fleet)

    def apply(self, now: float) -> None:
        self._crashes.tick(now)
        self._rollouts.tick(now)
        while self._due and self._due[0][0] <= now:
            moment, number, fault, begins = self._due.pop(0)
            self._inject(moment, number, fault, begins)

    def _pods(self, fault: FaultSpec) -> list[Pod]:
        """Those it names, or all; a pod that a rollout replaced is past faults."""
        present = [pod for pod in self._fleet.pods if not pod.replaced]
        return [self._fleet.pod(name) for name in fault.pods] if fault.pods else present

    def _inject(self, now: float, number: int, fault: FaultSpec, begins: bool) -> None:
        fleet = self._fleet
        if fault.kind == "traffic":
            traffic = fleet.traffic[fault.stream]
            if begins:
                self._kept[number] = traffic.spec
                traffic.change(fault)
            else:
                traffic.spec = self._kept[number]  # type: ignore[assignment]
        elif fault.kind == "routing":
            pinned = begins and bool(fault.pods)
            fleet.router.pinned = (fleet.pod(fault.pods[0]).name, fault.share) if pinned else None
            if fault.policy is not None and begins:
                fleet.router.policy = fault.policy
        elif fault.kind == "handover":
            fleet.late_share, fleet.late_by = (fault.share, fault.seconds) if begins else (0.0, 0.0)
        elif fault.kind in ("scale-out", "unlabel"):
            for pod in self._pods(fault):
                pod.in_rotation = begins == (fault.kind == "scale-out")
        elif fault.kind in ROLLED:
            self._rollouts.begin(now, fault, self._pods(fault))
        elif fault.kind in GATEWAY_FAULTS:
            inject_gateway_fault(fleet, fault, begins)
        else:
            for pod in self._pods(fault):
                self._on_pod(pod, now, fault, begins)

    def _on_pod(self, pod: Pod, now: float, fault: FaultSpec, begins: bool) -> None:
        health, engine = pod.health, pod.engine
        pod.account_cpu(now)
        if fault.kind == "clock":
            health.clock[fault.gpu] = fault.clock if begins else 1.0
            health.bandwidth[fault.gpu] = fault.bandwidth if begins else 1.0
            pod.reasons = fault.reasons if begins else 0
        elif fault.kind == "cpu":
            health.cpu = fault.cpu if begins else 1.0
        elif fault.kind == "interconnect":
            health.link = fault.factor if begins else 1.0
            pod.link_replays(0, now)
            for gpu in pod.gpus:
                gpu.link_errors = fault.errors if begins else 0.0
        elif fault.kind == "pause":
            health.pause = fault.share if begins else 0.0
        elif fault.kind == "hot-expert":
            health.hot = fault.hot if begins else 1.0
        elif fault.kind == "link":
            self._link(pod, now, fault, begins)
        elif fault.kind == "side-channel":
            pod.side_channel = engine.side_channel = not begins
        elif fault.kind == "acceptance":
            engine.accept = list(fault.accept if begins else pod.spec.flags.accept)
        elif fault.kind == "read-failure":
            engine.failing_reads = fault.share if begins else 0.0
        elif fault.kind == "corrupt":
            engine.corrupt = fault.share if begins else 0.0
        elif fault.kind == "host-link":
            if engine.host is not None:
                engine.host.link.settle(now)
                engine.host.link.rate = pod.spec.host_link * (fault.factor if begins else 1.0)
        elif fault.kind == "rank":
            pod.pinned_rank = (fault.gpu, fault.share) if begins else None
        elif fault.kind == "front-end":
            pod.front_slower = engine.front.slower = fault.factor if begins else 1.0
        elif fault.kind == "parser":
            pod.parser_misses = engine.parser_misses = fault.share if begins else 0.0
        elif fault.kind in ("oom", "crash"):
            if begins:
                self._crashes.begin(pod, now, fault)
            else:
                self._crashes.end(pod)
        elif fault.kind == "clear-prefixes":
            engine.pool.forget()
        elif fault.kind == "hang":
            engine.hung = begins
            engine.now = max(engine.now, now)
        elif fault.kind in ("cooling", "power-limit", "power-brake"):
            self._heat(pod, fault, begins)
        elif fault.kind in ("xid", "gpu-lost"):
            self._device(pod, now, fault, begins)
        else:
            self._process(pod, now, fault, begins)

    def _heat(self, pod: Pod, fault: FaultSpec, begins: bool) -> None:
        """What holds the clocks of some GPUs (all where none is named); the clocks follow from load and heat."""
        if pod not in self._fleet.hot_pods:
            self._fleet.hot_pods.append(pod)
        for number, gpu in enumerate(pod.gpus):
            if fault.gpus is None or number in fault.gpus:
                if fault.kind == "cooling":
                    gpu.cooling = fault.factor if begins else 1.0
                elif fault.kind == "power-limit":
                    gpu.limit = fault.factor if begins else 1.0
                else:
                    gpu.brake = begins

    def _device(self, pod: Pod, now: float, fault: FaultSpec, begins: bool) -> None:
        """xid: an error code, with rows remapped and, for the codes that end a process, the process; gpu-lost: the
        device leaves the bus (79) or its firmware stops (119), and every call into it hangs."""
        gpu = pod.gpus[fault.gpu]
        if not begins:
            pod.restart(now)
            pod.in_rotation = True
            return
        code = fault.xid or (79 if fault.kind == "gpu-lost" else 0)
        gpu.codes.append((now, code))
        gpu.remapped += fault.rows
        gpu.remap_failure |= code == 64
        if fault.kind == "gpu-lost":
            gpu.lost = code == 79
            pod.engine.hung = True
            pod.engine.now = max(pod.engine.now, now)
        elif code in ENDS_PROCESS:
            pod.restarts, pod.last_end = pod.restarts + 1, "Error"  # the kubelet starts the container again
            self._fleet.lose(pod.kill(), now)
            self._fleet.take_out(pod, now + self._fleet.scenario.router.detect)

    def _link(self, pod: Pod, now: float, fault: FaultSpec, begins: bool) -> None:
        link = pod.engine.link
        if link is None:
            return
        link.settle(now)
        link.rate = pod.spec.link * (fault.factor if begins else 1.0)
        flow = fault.flow if begins and fault.flow is not None else pod.spec.link_flow
        link.flow = flow or float("inf")

    def _process(self, pod: Pod, now: float, fault: FaultSpec, begins: bool) -> None:
        """kill: gone at once, out of the rotation once noticed; restart, scale-in: drained first, so nothing is
        lost; stop: a planned end with so many seconds for the live requests, a new pod comes instead."""
        fleet = self._fleet
        if not begins:
            if fault.kind == "stop":
                fleet.add_pod(pod.spec.name).restart(now)
            elif fault.kind != "scale-in":
                pod.restart(now, fault.flags)
                pod.in_rotation = True
                pod.scraped = True
            return
        if fault.kind == "stop":
            fleet.stop(pod, now, fault.seconds)
        elif fault.kind == "kill":
            lost = pod.kill()
            fleet.lose(lost, now)
            fleet.take_out(pod, now + fleet.scenario.router.detect)
        else:
            pod.in_rotation = False
            fleet.stop_when_idle(pod, fault.kind == "scale-in")
