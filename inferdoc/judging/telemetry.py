"""Derived signals: what vanished, what is scraped twice, which scrapes are missing, and what a pod yields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from inferdoc.catalogue.names import load_identity
from inferdoc.catalogue.signal import Signal
from inferdoc.fleet.workloads import workload
from inferdoc.judging import probes, restarts
from inferdoc.judging.conditions.render import SHOWN_GPUS
from inferdoc.judging.order import percentiles
from inferdoc.judging.spans import runs
from inferdoc.source.base import Scrapes
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from inferdoc.source.identity import Key

WORK = ("generation_tokens_rate", "prompt_tokens_rate")
SAME_WORK = 0.02
"""What is read twice of one process differs by what lies between two scrapes at an end of a time range, and by this of
a long one; two pods that share a load at random differ by more until they have finished some 5,000 requests each
(Poisson)."""
FIELDS = (*SHOWN_GPUS, "xid_last")
"""Signals of GPUs that are there or not for all of them: which fields an exporter shows is one list."""
POD_LABELS = ("cluster", "namespace", "pod")


def add_telemetry(
    frame: SignalFrame,
    signals: Mapping[str, Signal],
    scrapes: Sequence[Scrapes],
    plateaus: Sequence[tuple[str, float]] = (),
) -> Sequence[Scrapes]:
    """Put the derived signals into the frame, and return the scrapes that show something of their targets. One row per
    target, float64[times]. plateaus: (regular expression of pods, generated tokens/s of one of them at the plateau of a
    benchmark)."""
    found = probes.Probes(frame, scrapes)
    scrapes = found.leave_out_unread()
    makers = {
        "health_probe": lambda: found.health,
        "service_probe": lambda: found.services,
        "unread_while_healthy": lambda: found.unread,
        "unhealthy_without_tokens": lambda: found.unhealthy,
        "lost_signals": lambda: _lost(frame, signals),
        "duplicate_targets": lambda: _duplicates(frame, scrapes),
        "missing_scrapes": lambda: _missing(frame, scrapes),
        "lost_gpus": lambda: _lost_gpus(frame),
        "process_restarts": lambda: restarts.of_processes(frame),
        "recent_restarts": lambda: restarts.recent(frame),
        "restarts_in_an_hour": lambda: restarts.recent(frame, restarts.HOUR_MS),
        "router_restarts": lambda: _of_routers(frame, restarts.LATELY),
        "router_cpu_throttled": lambda: _of_routers(frame, "cpu_throttled_share"),
        "engine_ends": lambda: restarts.engine_ends(frame),
        "tokens_per_gpu_hour": lambda: tokens_per_gpu_hour(frame),
        "fleet_utilisation": lambda: utilisation(frame, plateaus),
    }
    for name, signal in signals.items():
        for reading in signal.readings:
            if reading.telemetry is not None:
                matrix = makers[reading.telemetry]()
                if matrix is not None:
                    frame.signals[name] = _beside(frame.signals.get(name), matrix)
    return scrapes


def _of_routers(frame: SignalFrame, name: str) -> SignalMatrix | None:
    """By namespace what a signal of pods shows of its routers: of several the highest value."""
    if name not in frame:
        return None
    named = re.compile(load_identity().router_names)
    rows: dict[Entity, np.ndarray] = {}
    for entity, row in zip(frame[name].entities, frame[name].values, strict=True):
        if named.search(entity.pod) or named.search(entity.get("job")):
            place = Entity.of(("cluster", "namespace"), entity.member[:2])
            rows[place] = np.fmax(rows.get(place, row), row)
    return SignalMatrix(list(rows), np.vstack([*rows.values()])) if rows else None


def _beside(read: SignalMatrix | None, derived: SignalMatrix) -> SignalMatrix:
    """What an exporter shows, and what is derived for the pods that it does not show."""
    if read is None:
        return derived
    shown = {entity.member for entity in read.entities}
    rest = [row for row, entity in enumerate(derived.entities) if entity.member not in shown]
    return SignalMatrix(
        [*read.entities, *(derived.entities[r] for r in rest)], np.vstack([read.values, derived.values[rest]])
    )


def _steady(signal: Signal) -> bool:
    """Signals whose series stand on every page of their exporter: single gauges and counters without label match."""
    return (
        any((r.gauge or r.rate) and not r.match and not r.formula for r in signal.readings) and signal.level == "engine"
    )


def _lost(frame: SignalFrame, signals: Mapping[str, Signal]) -> SignalMatrix | None:
    """How many steady signals of an engine are gone while its target still answers and others are still there; and
    those that a pod never showed for long, which pods of its workload did before it was born."""
    names = [name for name, signal in signals.items() if name in frame and _steady(signal)]
    place: dict[Entity, int] = {}
    for name in names:
        for entity in frame[name].entities:
            place.setdefault(entity, len(place))
    if not place:
        return None
    entities, settle = list(place), max(1, frame.grid.rate_ms // frame.grid.step_ms)
    every = np.zeros((len(names), len(entities), frame.grid.count), dtype=bool)
    for number, name in enumerate(names):
        every[number, [place[entity] for entity in frame[name].entities]] = np.isfinite(frame[name].values)
    there = every.any(axis=0)  # of a pod that is gone some signals are looked back to for longer than others
    inherited = _of_former_pods(entities, there.argmax(axis=1), np.asarray(every.any(axis=2)), settle)
    # A pod that shows an engine for so long would show what the pods before it did.
    settled = np.cumsum(there, axis=1, dtype=np.int32) > settle
    lost = np.zeros(there.shape)
    for seen, theirs in zip(every, inherited, strict=True):
        known = np.cumsum(seen, axis=1, dtype=np.int32) > settle
        gone = (known | (theirs[:, np.newaxis] & settled)) & ~seen & there
        some = gone.any(axis=1)
        if some.any():
            lost[some] += _long_runs(gone[some], 2 * settle)
    fields = _lost_fields(frame, settle)
    for row, entity in zip(lost, entities, strict=True):
        row += fields.get(entity.member, 0.0)
    return SignalMatrix(entities, np.where(there, lost, np.nan))


def _lost_fields(frame: SignalFrame, settle: int) -> dict[Key, np.ndarray]:
    """How many signals of GPUs the exporter of a pod has lost while it shows others: it dropped a field for all its
    GPUs, and no GPU is gone. By pod."""
    shown: dict[str | None, dict[str, np.ndarray]] = {}
    exporters: dict[Key, str | None] = {}
    for name in (name for name in FIELDS if name in frame):
        for entity, row in zip(frame[name].entities, frame[name].values, strict=True):
            exporters[entity.member] = entity.get("instance")
            own = shown.setdefault(entity.get("instance"), {})
            own[name] = own.get(name, np.zeros(len(row), dtype=bool)) | np.isfinite(row)
    lost = {}
    for exporter, own in shown.items():
        every = np.vstack([*own.values()])
        known = np.cumsum(every, axis=1, dtype=np.int32) > settle
        lost[exporter] = _long_runs(known & ~every & every.any(axis=0), 2 * settle).sum(axis=0).astype(np.float64)
    return {member: lost[exporter] for member, exporter in exporters.items()}


def _of_former_pods(entities: Sequence[Entity], born: np.ndarray, shown: np.ndarray, settle: int) -> np.ndarray:
    """bool[signals, engines]: what the engines of a pod that was born while the data go on would show: what all engines
    of its workload showed that were born before it; where pods have no names, all engines of its model. born:
    int64[engines], the first step of each; shown: bool[signals, engines], what each has ever shown. Metrics without a
    model label make rows of their own, which are compared among themselves."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for row, entity in enumerate(entities):
        cluster, namespace, pod = entity.member
        # An address names no workload: what replaces it is another engine of its model.
        kind = workload(pod)[0] if entity.get("pod") else ""
        groups.setdefault((cluster, namespace, kind, entity.engine, entity.get("model_name")), []).append(row)
    former = np.zeros(shown.shape, dtype=bool)
    for group in map(np.array, groups.values()):
        for row in group[born[group] > born[group].min() + settle]:
            former[:, row] = shown[:, group[born[group] + settle < born[row]]].all(axis=1)
    return former


def _lost_gpus(frame: SignalFrame) -> SignalMatrix | None:
    """How many GPUs of a pod their exporter shows no more while it still shows others of the same node. A GPU whose pod
    is gone stays visible, without its pod, and is not lost; nor are those of a pod that ended, or that has as many as
    before elsewhere: where an exporter shows only GPUs in use, these vanish with their pod. As a rule says it:
    `judging/conditions/render.py`."""
    shown = _gpus_shown(frame)
    none = np.zeros(frame.grid.count, dtype=np.int64)
    devices: dict[tuple[str, str], np.ndarray] = {}
    owners: dict[tuple[str, str], tuple[int, Entity]] = {}
    nodes: dict[str, np.ndarray] = {}
    present: dict[Entity, dict[str, np.ndarray]] = {}
    for (node, device, pod), seen in shown.items():
        key = node, device
        devices[key] = devices.get(key, none > 0) | seen
        nodes[node] = nodes.get(node, none) + seen
        if pod is not None and seen.any():
            last = int(np.flatnonzero(seen)[-1])
            owners[key] = max(owners.get(key, (-1, pod)), (last, pod), key=lambda each: each[0])
            own = present.setdefault(pod, {})
            own[node] = own.get(node, none) + seen
    settle = max(1, frame.grid.rate_ms // frame.grid.step_ms)
    rows: dict[Entity, np.ndarray] = {}
    for (node, device), (_, pod) in owners.items():
        seen = devices[node, device]
        gone = (np.cumsum(seen) > settle) & ~seen & (nodes[node] > 0)
        lost = _long_runs(gone[np.newaxis], settle)[0].astype(np.float64)
        missed = np.where(nodes[node] > 0, lost, np.nan)
        rows[pod] = rows[pod] + missed if pod in rows else missed
    there = _pods_there(frame)
    for pod, lost in rows.items():
        as_many = sum(present[pod].values()) >= max(int(count.max()) for count in present[pod].values())
        rows[pod] = np.where(there.get(pod, none == 0), np.where(as_many, lost * 0.0, lost), np.nan)
    return SignalMatrix(list(rows), np.vstack([*rows.values()])) if rows else None


def _gpus_shown(frame: SignalFrame) -> dict[tuple[str, str, Entity | None], np.ndarray]:
    """bool[T] by node, GPU and the pod that uses it: where the exporter shows any of the signals that every GPU has. It
    may drop a single one."""
    shown: dict[tuple[str, str, Entity | None], np.ndarray] = {}
    for matrix in (frame[name] for name in SHOWN_GPUS if name in frame):
        for entity, row in zip(matrix.entities, matrix.values, strict=True):
            node = entity.get("Hostname") or entity.get("hostname") or entity.get("instance")
            key = node, entity.get("UUID") or entity.get("gpu"), _owner(entity)
            shown[key] = shown.get(key, np.zeros(len(row), dtype=bool)) | np.isfinite(row)
    return shown


def _owner(entity: Entity) -> Entity | None:
    """The pod that uses a GPU, None where the exporter names none."""
    pod = entity.get("pod")
    return Entity.of(POD_LABELS, (entity.get("cluster"), entity.get("namespace"), pod)) if pod else None


def _pods_there(frame: SignalFrame) -> dict[Entity, np.ndarray]:
    """By pod of an engine when it is scraped, with success or without: bool[T]."""
    found: dict[Entity, np.ndarray] = {}
    for matrix in (frame[name] for name in ("target_up", "running") if name in frame):
        for entity, row in zip(matrix.entities, matrix.values, strict=True):
            pod = _owner(entity)
            if pod is not None:
                found[pod] = found.get(pod, np.zeros(len(row), dtype=bool)) | np.isfinite(row)
    return found


def _long_runs(mask: np.ndarray, longer_than: int) -> np.ndarray:
    """The steps of a bool[rows, T] that lie in a run of more than so many, from its first step on."""
    kept = np.zeros_like(mask)
    for row in np.flatnonzero(mask.any(axis=1)).tolist():
        for begin, end in runs(mask[row]):
            kept[row, begin:end] = end - begin > longer_than
    return kept


def _processes(frame: SignalFrame) -> dict[tuple[str, str, str], tuple[str, str, str, float]]:
    """What identifies the process behind a target without a pod label: cluster, namespace, host, and when it started,
    in Unix s. Two processes of one host do not start in the same hundredth of a second (resolution of
    /proc/self/stat)."""
    found = {}
    if restarts.STARTED in frame:
        for entity, row in zip(frame[restarts.STARTED].entities, frame[restarts.STARTED].values, strict=True):
            if not entity.get("pod") and np.isfinite(row).any():
                host = entity.get("instance").rpartition(":")[0]
                started = round(float(row[np.isfinite(row)][-1]), 2)
                found[entity.member] = (*entity.member[:2], host, started)
    return found


def _duplicates(frame: SignalFrame, scrapes: Sequence[Scrapes]) -> SignalMatrix | None:
    """How many other instances show the same engine of the same pod at the same time."""
    again = _scraped_again(frame, scrapes)
    if "running" not in frame:
        return None
    groups: dict[tuple[object, str, str], list[int]] = {}
    matrix, processes = frame["running"], _processes(frame)
    for index, entity in enumerate(matrix.entities):
        who = entity.member if entity.get("pod") else processes.get(entity.member)
        if who is not None:
            similar = groups.setdefault((who, entity.engine, entity.get("model_name")), [])
            if not similar or entity.get("pod") or _same_work(frame, matrix.entities[similar[0]], entity):
                similar.append(index)
    entities, values = [], []
    for indices in groups.values():
        present = np.isfinite(matrix.values[indices]).sum(axis=0).astype(np.float64)
        entities.append(matrix.entities[indices[0]])
        more = again.get(matrix.entities[indices[0]].member, 0.0)
        values.append(np.where(present > 0, present - 1 + more, np.nan))
    return SignalMatrix(entities, np.vstack(values)) if entities else None


def _same_work(frame: SignalFrame, one: Entity, other: Entity) -> bool:
    """Whether two targets of one host count the same work, as one process does; True where none is counted. What starts
    two engines at once (a script, docker compose) gives them one start time. Left out is the first window of a rate,
    which is low where it reaches back before the first scrape."""
    settle = frame.grid.rate_ms // frame.grid.step_ms
    for matrix in (frame[name] for name in WORK if name in frame):
        rows = [matrix.values[[e.member == target.member for e in matrix.entities]] for target in (one, other)]
        if all(map(len, rows)):
            a, b = (row.sum(axis=0) for row in rows)
            both = np.isfinite(a) & np.isfinite(b)
            settled = both & (np.cumsum(both) > settle)
            both = settled if settled.any() else both
            range_ms = both.sum() * frame.grid.step_ms
            share = max(SAME_WORK, frame.grid.interval_ms / range_ms) if range_ms else 1.0
            if abs(a[both].sum() - b[both].sum()) > share * max(a[both].sum(), b[both].sum()):
                return False
    return True


def _scraped_again(frame: SignalFrame, scrapes: Sequence[Scrapes]) -> dict[tuple[str, str, str], np.ndarray]:
    """By pod, under how many more labels its process was scraped within the gauge window: float64[T]."""
    steps, gauge_ms = frame.grid.times_ms, frame.grid.gauge_ms
    found: dict[tuple[str, str, str], np.ndarray] = {}
    for target in scrapes:
        for times in target.again:
            seen = np.searchsorted(times, steps, "right") > np.searchsorted(times, steps - gauge_ms, "left")
            key = Entity.of_labels(target.labels).member
            found[key] = found.get(key, np.zeros(len(steps))) + seen
    return found


MISSING_OVER_SCRAPES = 12
"""Of so many, a target that loses a tenth by chance loses more than half once in 20,000 looks (binomial); of five,
three now and then."""


def _missing(frame: SignalFrame, scrapes: Sequence[Scrapes]) -> SignalMatrix | None:
    """Of the scrapes of a target that were due lately the share that is missing, from its first to its last scrape.
    What all targets miss at once is the absence of the server that scrapes and none of theirs."""
    grid = frame.grid
    entities, values = [], []
    for target in scrapes:
        times = np.sort(target.times_ms)
        if len(times) >= 2:
            entities.append(Entity.of_target(target.labels))
            values.append(_missing_of(times.astype(np.float64), grid.times_ms, grid.rate_ms))
    return SignalMatrix(entities, _beyond_all(np.vstack(values))) if entities else None


def _missing_of(times: np.ndarray, steps: np.ndarray, least_ms: float) -> np.ndarray:
    """float64[steps] of one target that was scraped at times (float64[n], milliseconds, ascending)."""
    gaps = np.maximum(np.diff(times), 1.0)
    (interval,) = percentiles(np.sort(gaps), [0.25])  # its own: an exporter may be scraped less often than engines are
    # A scrape is due at each interval of a gap: the last is there, the others are missing; one may be half one late.
    lost = np.where(gaps > 1.5 * interval, gaps / interval - 1.0, 0.0)
    missed, seen = np.concatenate(([0.0], np.cumsum(lost))), np.arange(len(times), dtype=np.float64)
    since = steps - max(least_ms, MISSING_OVER_SCRAPES * interval)
    lost_since = np.interp(steps, times, missed) - np.interp(since, times, missed)
    seen_since = np.interp(steps, times, seen) - np.interp(since, times, seen)
    due = lost_since + seen_since
    inside = (steps - least_ms >= times[0]) & (steps <= times[-1] + interval)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(inside, np.where(due > 0, lost_since / due, 0.0), np.nan)


def _beyond_all(shares: np.ndarray) -> np.ndarray:
    """float64[targets, T] without what every target shows; a target alone keeps its own."""
    several = np.isfinite(shares).sum(axis=0) > 1
    common = np.fmin.reduce(shares, axis=0)
    return shares - np.where(several, common, 0.0)


GPU_SIGNALS = ("gpu_util", "gpu_power", "sm_clock", "gpu_temp")
"""Any of them shows which GPUs a pod holds."""
SECONDS_PER_HOUR = 3600.0
POD = ("cluster", "namespace", "pod", "instance")


def tokens_per_gpu_hour(frame: SignalFrame) -> SignalMatrix | None:
    """Prompt tokens computed plus tokens generated by a pod, per hour and GPU; None where no GPU is joined to a pod."""
    gpus = _gpus(frame)
    rates = _by_pod(frame, ("generation_tokens_rate", "prefill_tokens_rate"))
    known = {
        entity: row * SECONDS_PER_HOUR / gpus[entity.member] for entity, row in rates.items() if gpus.get(entity.member)
    }
    return SignalMatrix(list(known), np.vstack(list(known.values()))) if known else None


def utilisation(frame: SignalFrame, plateaus: Sequence[tuple[str, float]]) -> SignalMatrix | None:
    """Generated tokens/s of a pod over the plateau of the first expression that matches its whole name."""
    found = {}
    for entity, row in _by_pod(frame, ("generation_tokens_rate",)).items():
        plateau = next((tokens for pattern, tokens in plateaus if re.fullmatch(pattern, entity.pod)), None)
        if plateau:
            found[entity] = row / plateau
    return SignalMatrix(list(found), np.vstack(list(found.values()))) if found else None


def _gpus(frame: SignalFrame) -> dict[Key, int]:
    """How many GPUs the exporter joins to each pod."""
    seen: dict[Key, set[str]] = {}
    for name in GPU_SIGNALS:
        for entity in frame[name].entities if name in frame else []:
            if entity.get("pod"):
                seen.setdefault(entity.member, set()).add(entity.get("UUID") or entity.get("gpu"))
    return {pod: len(gpus) for pod, gpus in seen.items()}


def _by_pod(frame: SignalFrame, names: Sequence[str]) -> dict[Entity, np.ndarray]:
    """The sum of rates over the ranks of each pod: float64[T]."""
    found: dict[Entity, np.ndarray] = {}
    for name in names:
        if name not in frame:
            continue
        for entity, row in zip(frame[name].entities, frame[name].values, strict=True):
            pod = Entity.of(POD, tuple(entity.get(label) for label in POD))
            found[pod] = row if pod not in found else np.nansum([found[pod], row], axis=0)
    return found
