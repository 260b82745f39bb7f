"""Health probes of the blackbox exporter, joined to pods by the address or the Service in their URL.

A failed scrape of a pod whose probe succeeds shows that its metrics could not be read, and no outage: the pod responds,
and where scrapes succeed again, that one is missing. The target of a probe is scraped from the exporter, so its `up`
shows nothing of the pod.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address

import numpy as np

from inferdoc.fleet.workloads import workload
from inferdoc.judging.view import UP
from inferdoc.source.base import Scrapes
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from inferdoc.source.identity import Key, address

PROBE, STATUS = "probe_success", "probe_status"
SERVICE, UNREAD = "service_probe", "unread_while_healthy"
TOKENS = ("generation_tokens_rate", "prompt_tokens_rate")
HALF = 0.5
"""Of what is 1 or 0. A probe reads so where it fails although the process responds: a wrong path, a missing key,
another text than the module expects."""
SERVER_ERROR = 500
DEFAULT_PORTS = {"http": "80", "https": "443"}


@dataclass
class Probes:
    """The probes of a frame. scrapes: of all targets, whose addresses are those of the pods."""

    frame: SignalFrame
    scrapes: Sequence[Scrapes]

    @cached_property
    def health(self) -> SignalMatrix | None:
        """By pod: 1 where its probes succeed, 0 where they fail, between where that is undecided."""
        return self._of_pods({probe: [key] for probe, key in self._pods.items() if key is not None})

    @cached_property
    def services(self) -> SignalMatrix | None:
        """The same of the probes of Services that several pods are behind, for each of these."""
        return self._of_pods({probe: self._behind(probe) for probe, key in self._pods.items() if key is None})

    @cached_property
    def unread(self) -> SignalMatrix | None:
        """By pod: 1 where its scrape failed and its probe succeeded. A pod of which no scrape succeeds is none that is
        known to serve metrics."""
        up = _by_pod(self.frame.signals.get(UP), np.fmin)
        found = {}
        for entity, values in _rows(self.health):
            own = up.get(entity.member)
            if own is not None and (own > HALF).any():
                known = np.isfinite(own) & np.isfinite(values)
                found[entity] = np.where(known, (own < HALF) & self._succeeds(values), np.nan)
        return _matrix(found)

    @cached_property
    def unhealthy(self) -> SignalMatrix | None:
        """By pod: 1 where its probe fails, after it succeeded, and no token is counted. A health check that times out
        under load fails while tokens flow, and one that never succeeded may have the wrong URL."""
        rates = [_by_pod(self.frame.signals.get(name), np.fmax) for name in TOKENS]
        found = {}
        for entity, values in _rows(self.health):
            own = [rate[entity.member] for rate in rates if entity.member in rate]
            if own:
                works = (np.nan_to_num(np.vstack(own)) > 0).any(axis=0)
                succeeded = np.maximum.accumulate(np.nan_to_num(values) > HALF)
                found[entity] = np.where(np.isfinite(values), (values < HALF) & succeeded & ~works, np.nan)
        return _matrix(found)

    def leave_out_unread(self) -> list[Scrapes]:
        """The scrapes without those of probes, and without the failed ones of pods whose probes succeed that others
        followed with success. In the frame, pods whose probes succeed are up."""
        if not self._pods:
            return list(self.scrapes)
        health = {entity.member: values for entity, values in _rows(self.health)}
        unread = {entity.member: values for entity, values in _rows(self.unread)}
        up = {}
        for entity, values in _rows(self.frame.signals.get(UP)):
            if (entity.get("job"), entity.get("instance")) not in self._of_probes:
                up[entity] = np.where(unread.get(entity.member, np.zeros(len(values))) == 1, 1.0, values)
        self.frame.signals[UP] = _matrix(up) or SignalMatrix([], np.empty((0, self.frame.grid.count)))
        grid, kept = self.frame.grid, list[Scrapes]()
        for key, targets in self._targets.items():
            for one in targets:
                if key in unread:
                    steps = -((grid.start_ms - one.times_ms) // grid.step_ms)
                    inside = (steps >= 0) & (steps < grid.count)
                    responds = inside & self._succeeds(health[key])[np.clip(steps, 0, grid.count - 1)]
                    stays = (one.up > HALF) | ~responds | ~_before_the_last(one.up > HALF)
                    one = Scrapes(one.labels, one.times_ms[stays], one.up[stays], one.again)
                kept.append(one)
        return kept

    def _succeeds(self, values: np.ndarray) -> np.ndarray:
        """bool[T]: where a probe succeeds, and an interval later too: the last one before an end succeeded."""
        later = -(-self.frame.grid.interval_ms // self.frame.grid.step_ms)
        padded = np.concatenate((values, np.full(later, values[-1])))
        return (values > HALF) & (padded[later:] > HALF)

    # ---- joining --------------------------------------------------------------------------------------------------

    @cached_property
    def _results(self) -> dict[Entity, np.ndarray]:
        """By URL what a probe shows: float64[T]."""
        status = dict(_rows(self.frame.signals.get(STATUS)))
        found = {}
        for probe, values in _rows(self.frame.signals.get(PROBE)):
            code = np.nan_to_num(status.get(probe, np.zeros(len(values))))
            responded = (values < HALF) & (code > 0) & (code < SERVER_ERROR)
            found[probe] = np.where(responded, HALF, values)
        return found

    @cached_property
    def _targets(self) -> dict[Key, list[Scrapes]]:
        """By pod, what is scraped of it."""
        found: dict[Key, list[Scrapes]] = {}
        for one in self.scrapes:
            if (one.labels.get("job", ""), one.labels.get("instance", "")) not in self._of_probes:
                found.setdefault(Entity.of_labels(one.labels).member, []).append(one)
        return found

    @cached_property
    def _of_probes(self) -> set[tuple[str, str]]:
        """The job and the instance of every probe."""
        return {(entity.get("job"), entity.get("instance")) for entity, _ in _rows(self.frame.signals.get(PROBE))}

    @cached_property
    def _addresses(self) -> dict[tuple[str, str], set[Key]]:
        """Pods by host and port of their targets, and by host and no port."""
        found: dict[tuple[str, str], set[Key]] = {}
        for key, targets in self._targets.items():
            for one in targets:
                host, port = _host_and_port(one.labels.get("instance", ""))
                found.setdefault((host, port), set()).add(key)
                found.setdefault((host, ""), set()).add(key)
        return found

    @cached_property
    def _pods(self) -> dict[Entity, Key | None]:
        """The pod of each probe: by the address in the URL, by the Service in it where one pod is behind it, and by the
        labels of the probe. A host alone decides where it is that of a single pod: others have ports of their own."""
        found: dict[Entity, Key | None] = {}
        for probe in self._results:
            host, port = _host_and_port(probe.get("instance"))
            at_host = self._near(probe, self._addresses.get((host, ""), set()))
            named = any(one.labels.get("pod") for key in at_host for one in self._targets[key])
            ways = (
                self._near(probe, self._addresses.get((host, port), set())),
                at_host if named else set(),
                self._behind(probe),
                {probe.member} & self._targets.keys(),
            )
            keys = next((way for way in ways if way), set())
            found[probe] = next(iter(keys)) if len(keys) == 1 else None
        return found

    def _behind(self, probe: Entity) -> set[Key]:
        """The pods of the Service that a URL names: of its namespace, with the Service, the job or the workload of that
        name."""
        host, _ = _host_and_port(probe.get("instance"))
        name, _, rest = host.partition(".")
        if not name or _is_ip(host):
            return set()
        namespace = rest.split(".", 1)[0]
        found = set()
        for key in self._near(probe, self._targets.keys()):
            labels = self._targets[key][0].labels
            called = {labels.get("service", ""), labels.get("job", "").rpartition("/")[2], workload(key[2])[0]}
            if name in called and namespace in ("", key[1]):
                found.add(key)
        return found

    def _near(self, probe: Entity, keys: Collection[Key]) -> set[Key]:
        """Those of its cluster."""
        cluster = probe.get("cluster")
        return {key for key in keys if not cluster or not key[0] or key[0] == cluster}

    def _of_pods(self, keys: Mapping[Entity, Collection[Key]]) -> SignalMatrix | None:
        """The mean of the probes of each pod."""
        found: dict[Key, list[np.ndarray]] = {}
        for probe, own in keys.items():
            for key in own:
                found.setdefault(key, []).append(self._results[probe])
        means = {}
        for key, rows in found.items():
            stacked = np.vstack(rows)
            count = np.isfinite(stacked).sum(axis=0)
            with np.errstate(invalid="ignore"):
                means[Entity.of_target(self._targets[key][0].labels)] = np.where(
                    count > 0, np.nansum(stacked, axis=0) / count, np.nan
                )
        return _matrix(means)


def _rows(matrix: SignalMatrix | None) -> list[tuple[Entity, np.ndarray]]:
    return [] if matrix is None else list(zip(matrix.entities, matrix.values, strict=True))


def _matrix(rows: Mapping[Entity, np.ndarray]) -> SignalMatrix | None:
    return SignalMatrix(list(rows), np.vstack([*rows.values()])) if rows else None


def _by_pod(matrix: SignalMatrix | None, join: np.ufunc) -> dict[Key, np.ndarray]:
    """One row of each pod."""
    found: dict[Key, np.ndarray] = {}
    for entity, values in _rows(matrix):
        found[entity.member] = join(found.get(entity.member, values), values)
    return found


def _before_the_last(succeeds: np.ndarray) -> np.ndarray:
    """bool[n]: what is followed by a success."""
    return np.logical_or.accumulate(succeeds[::-1])[::-1]


def _host_and_port(instance: str) -> tuple[str, str]:
    """The host and the port of `host:port` or of a URL."""
    scheme, found, _ = instance.partition("://")
    host = address(instance)
    _, _, behind = instance.split("://", 1)[-1].split("/", 1)[0].partition(host)
    return host, behind.lstrip("]").lstrip(":") or (DEFAULT_PORTS.get(scheme, "") if found else "")


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
