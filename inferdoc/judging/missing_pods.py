"""Find evidence of engine pods that are in no series: the data would look like a smaller, healthy fleet.

kube-state-metrics, routers, the other half of a disaggregated fleet, the ordinals of a StatefulSet and requests that
nobody finishes show such pods. A fleet that was scaled down shows none of these.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from inferdoc.fleet.members import COMPUTES_NOTHING, Family, Key, Member, Pool, computed_shares
from inferdoc.fleet.workloads import workload
from inferdoc.judging.model import stamp
from inferdoc.judging.session import Session
from inferdoc.judging.view import UP, View
from inferdoc.source.frame import Entity
from inferdoc.words import figure, how_many, some

NAMED = 3
READY, ENDPOINTS, TRANSFER = "pod_ready", "router_ready_endpoints", "nixl_xfer_mean"
RATE, ROUTED, REFUSED = "request_rate", "router_request_rate", "router_errors"
COUNTS_ALL_BACKENDS = "haproxy_backend_active_servers"
"""A proxy that counts the servers of all its backends, engines or not."""
RECENT_SECONDS = 600.0
"""A gauge is visible for up to five minutes after its last sample: a count is compared over twice that."""
ORDINAL = re.compile(r"(?P<set>.+[^-\d])-(?P<ordinal>0|[1-9]\d{0,2})")
LEAST_REQUESTS = 20.0
"""Fewer requests may be chance."""
LOST_SHARE = 0.2
"""Share of requests that no pod in the data finishes: less may be cancelled by clients or still run."""
BUSY = 0.5
"""A pod whose rate had dropped below this share of its usual rate was drained before it ended."""


def missing_pods(session: Session, has_findings: bool) -> list[str]:
    """Evidence of engine pods without any series, one line each. Requests that nobody finishes count only without
    findings: a fault explains them too."""
    if session.options.match or not session.context.view.units:
        return []
    view = session.context.view
    members = view.fleet.members if session.scan is None else list(session.scan.members)
    scraped = {Entity.of_labels(target.labels).member for target in session.scrapes}
    found = [*_ready(view, members, scraped), *_ordinals(members, scraped), *_other_half(view, members)]
    if session.scan is None:
        found += _endpoints(view, session.names)
        if not has_findings:
            found += [*_vanished(view), *_unfinished(view)]
    return found


def _ready(view: View, members: Sequence[Member], scraped: Collection[Key]) -> Iterator[str]:
    """Pods that kube-state-metrics shows as ready, of workloads of which others are in the data."""
    matrix = view.frame.signals.get(READY)
    if matrix is None:
        return
    known = {*scraped, *(member.key for member in (*members, *view.fleet.former))}
    engines = {(*member.key[:2], workload(member.pod)[0]) for member in members if member.shows_engine}
    absent = []
    for entity, values in zip(matrix.entities, matrix.values, strict=True):
        recent = values[_recent(view) :]
        place = (*entity.member[:2], workload(entity.pod)[0])
        if entity.member not in known and place in engines and len(recent) and (recent >= 1).all():
            absent.append(view.fleet.called(entity))
    if absent:
        yield f"kube-state-metrics shows {some(sorted(set(absent)), NAMED)} as ready, and no other metric does"


def _recent(view: View) -> int:
    """The first step of the frame in the last minutes of the window."""
    return max(view.frame.begin, view.frame.grid.count - int(RECENT_SECONDS / view.step_seconds))


def _ordinals(members: Sequence[Member], scraped: Collection[Key]) -> Iterator[str]:
    """Ordinals between those of the pods of a pool: a StatefulSet has no gaps."""
    sets: dict[tuple[Pool, str], set[int]] = {}
    for member in members:
        if member.shows_engine and (match := ORDINAL.fullmatch(member.pod)):
            sets.setdefault((member.pool, match["set"]), set()).add(int(match["ordinal"]))
    for (pool, name), seen in sets.items():
        gaps = [f"{name}-{number}" for number in range(min(seen), max(seen)) if number not in seen]
        gaps = [pod for pod in gaps if (pool.cluster, pool.namespace, pod) not in scraped]
        if gaps and len(gaps) < len(seen):
            pods = some(gaps, NAMED)
            yield f"{pods} is missing between {name}-{min(seen)} and {name}-{max(seen)}"


def _other_half(view: View, members: Sequence[Member]) -> Iterator[str]:
    """Pods that read KV caches without pods that computed them, and pods for prefill alone without pods that decode."""
    computed, reads = computed_shares(view.frame), _with_values(view, TRANSFER)
    clusters: dict[str, list[Member]] = {}
    for member in members:
        if member.shows_engine:
            clusters.setdefault(member.key[0], []).append(member)
    for pods in clusters.values():
        roles = {member.role for member in pods}
        if roles == {"decode"}:
            fed = [m for m in pods if m.key in reads or computed.get(m.key, 1.0) <= COMPUTES_NOTHING]
            if fed:
                names = some([member.shown for member in fed], NAMED)
                yield f"no prefill pod is in the data, although prefill pods compute the prompts of {names}"
        elif roles == {"prefill"}:
            declared = [m.shown for m in pods if dict(m.why)["role"].startswith(("name", "label", "configuration"))]
            if declared:
                yield f"no decode pod is in the data, although {some(declared, NAMED)} can only prefill"


def _with_values(view: View, signal: str) -> set[Key]:
    """The pods that show a signal in the window."""
    matrix, begin = view.frame.signals.get(signal), view.frame.begin
    if matrix is None:
        return set()
    rows = zip(matrix.entities, matrix.values[:, begin:], strict=True)
    return {entity.member for entity, values in rows if np.isfinite(values).any()}


def _endpoints(view: View, names: Collection[str]) -> Iterator[str]:
    """Routers that count more ready endpoints than the engines of their namespace."""
    if COUNTS_ALL_BACKENDS in names:
        return
    engines: dict[tuple[str, str], int] = {}
    ready: dict[tuple[str, str], float] = {}
    for unit in view.units:
        place = unit.member.key[:2]
        engines[place] = engines.get(place, 0) + 1
        series = view.get(unit, ENDPOINTS)
        recent = np.array([]) if series is None else series.values[view.lead_steps + _recent(view) :]
        if np.isfinite(recent).any():
            ready[place] = min(ready.get(place, np.inf), float(np.nanmin(recent)))
    for place, count in ready.items():
        gone = sum(1 for member in view.fleet.former if member.key[:2] == place)
        if count > engines[place] + gone:
            shown = how_many(engines[place], "engine")
            yield f"the router counts {count:.0f} ready endpoints, and the data has {shown}"


def _rates(view: View) -> dict[Key, np.ndarray]:
    """Requests per second that each pod finishes, of all its engines, NaN where it has none: float64[grid.count]."""
    rates: dict[Key, np.ndarray] = {}
    matrix = view.frame.signals.get(RATE)
    if matrix is not None:
        for entity, row in zip(matrix.entities, matrix.values, strict=True):
            known = rates.get(entity.member)
            rates[entity.member] = row if known is None else np.nansum([known, row], axis=0)
    return rates


def _vanished(view: View) -> Iterator[str]:
    """Busy pods whose series all end, and whose requests no other pod of the model takes over."""
    window, step = view.window_steps, view.step_seconds
    rates, scraped = _rates(view), _last_steps(view)
    families: dict[Family, dict[Member, np.ndarray]] = {}
    for member in view.fleet.everyone:
        if member.key in rates:
            families.setdefault(member.pool.family, {})[member] = rates[member.key]
    for family in families.values():
        total = np.nansum(list(family.values()), axis=0)
        ends = {m: int(known[-1]) for m, row in family.items() if len(known := np.flatnonzero(np.isfinite(row)))}
        for end in sorted({end for end in ends.values() if end <= view.newest - view.lead_steps - 4 * window}):
            gone = [m for m, other in ends.items() if end <= other <= end + window]
            gone = [m for m in gone if scraped.get(m.key, 0) <= ends[m] + window and not view.lineage.replaced(m.key)]
            before, last = slice(end - 4 * window, end - window), slice(end - window, end + 1)
            after = slice(end + 2 * window, end + 2 * window + max(4 * window, int(RECENT_SECONDS / step)))
            if not gone or before.start < 0:
                continue
            own = np.nansum([family[member] for member in gone], axis=0)
            lost = float(total[before].mean() - total[after].mean())
            requests = lost * step * len(total[after])
            chance = np.sqrt(total[before].mean() * step * 3 * window)
            if own[last].mean() < BUSY * own[before].mean() or lost < BUSY * own[before].mean():
                continue
            if requests >= LEAST_REQUESTS and lost * step * 3 * window > 4 * chance:
                pods = some(sorted(member.shown for member in gone), NAMED)
                rate = figure(float(own[before].mean()), "1/s")
                at = stamp(view.time_at(view.lead_steps + end))
                yield f"all series of {pods} end at {at}, and no other pod finishes these {rate}"


def _last_steps(view: View) -> dict[Key, int]:
    """The last step at which a scrape of a pod shows, with success or not."""
    matrix = view.frame.signals.get(UP)
    found: dict[Key, int] = {}
    if matrix is not None:
        for entity, row in zip(matrix.entities, matrix.values, strict=True):
            known = np.flatnonzero(np.isfinite(row))
            if len(known):
                found[entity.member] = max(found.get(entity.member, 0), int(known[-1]))
    return found


def _unfinished(view: View) -> Iterator[str]:
    """Requests that a router or prefill pods hand on, and that no pod in the data finishes. Some engines count none."""
    rates, begin = _rates(view), view.frame.begin
    sums = {key: float(np.nansum(row[begin:])) * view.step_seconds for key, row in rates.items()}
    families: dict[Family, dict[str, float]] = {}
    for member in view.fleet.everyone:
        roles = families.setdefault(member.pool.family, {})
        roles[member.role] = roles.get(member.role, 0.0) + sums.get(member.key, np.nan)
    for (cluster, namespace, model), roles in families.items():
        finished = roles.get("decode", 0.0) + roles.get("both", 0.0)
        routed = _routed(view, cluster, namespace, model)
        senders = [("the router sends", routed)] if roles.keys() - {"prefill"} else []
        if "decode" in roles:
            senders.append(("prefill pods hand on", roles.get("prefill", 0.0)))
        for sender, sent in senders:
            if sent - finished > max(LEAST_REQUESTS, LOST_SHARE * sent):
                of = f" of model {model}" if model else ""
                yield f"{sender} {sent:,.0f} requests{of}, and the pods in the data finish {finished:,.0f}"


def _routed(view: View, cluster: str, namespace: str, model: str) -> float:
    """Requests of a model that its busiest router accepted in the window; 0 where routers name no models."""
    routers: dict[Key, float] = {}
    for name, sign in ((ROUTED, 1.0), (REFUSED, -1.0)):
        matrix = view.frame.signals.get(name)
        rows = () if matrix is None or not model else zip(matrix.entities, matrix.values, strict=True)
        for entity, row in rows:
            if (entity.get("target_model_name") or entity.get("model_name")) != model:
                continue
            if entity.get("cluster") == cluster and entity.get("namespace") in ("", namespace):
                requests = float(np.nansum(row[view.frame.begin :])) * view.step_seconds
                routers[entity.member] = routers.get(entity.member, 0.0) + sign * requests
    return max(routers.values(), default=0.0)
