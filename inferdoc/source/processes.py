"""Which label sets of engines are one process, and which processes share a name.

Two servers of an HA pair store the same process under two labels; two jobs may scrape one target. That is one process,
and counts once. A relabelling, or a federation without honor_labels, may put several processes behind one pod label:
these are kept apart by other labels that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from inferdoc.catalogue.names import PodLabels
from inferdoc.source.base import InfoSeries
from inferdoc.source.identity import (
    CLUSTER,
    INSTANCE,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    Key,
    Naming,
    Who,
    address,
    differing,
    distinct,
    key_of,
)

OF_ENGINE = frozenset({"engine", "model_name"})
"""Labels of the page itself: they distinguish no processes."""
TOGETHER_STEPS = 3
"""Label sets that show at so many steps at once are there at the same time: a restart under a new address is not."""
IN_STEP = 0.95
"""Share of the steps at which the totals of one process, scraped at two times of an interval, enclose each other."""
LEAST_MOVES = 5
MIXED = 0.3
"""A total that falls at so many of its steps is that of several processes: a crash loop takes minutes per restart."""

DESCRIBING = ("role", "tier")
"""Labels by which a configuration shows what a pod is: it may start to."""

Raw = tuple[str, ...]
Address = tuple[Key, str]
"""A name and a port."""


@dataclass(frozen=True)
class Copies:
    """Label sets that are one process. labels: in which they differ, the job first; processes: how many are stored so;
    values: of the first of them."""

    labels: tuple[str, ...]
    processes: int
    values: tuple[str, ...]


@dataclass(frozen=True)
class Crowd:
    """Several processes behind one name. processes: how many; by: the label that keeps them apart, None where none
    does; is_cluster: whether that label stands for clusters."""

    name: str
    processes: int
    by: str | None
    is_cluster: bool = False


@dataclass
class Processes:
    """naming: with the labels that distinguish the label sets; who: of each label set of an engine; families: by job,
    the labels that name its pods; apart: by name, the label that keeps its processes apart; newest: by name and port,
    who was scraped last; described: by the same, the `DESCRIBING` labels where they changed; copies, crowds, mixed:
    what doctor says."""

    naming: Naming
    who: dict[Raw, Who] = field(default_factory=dict)
    families: dict[str, PodLabels] = field(default_factory=dict)
    apart: dict[Key, str] = field(default_factory=dict)
    newest: dict[Address, Who] = field(default_factory=dict)
    described: dict[Address, dict[str, str]] = field(default_factory=dict)
    copies: list[Copies] = field(default_factory=list)
    crowds: list[Crowd] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)

    def raw(self, labels: Mapping[str, str]) -> Raw:
        """The labels that show what a series is about."""
        return tuple(labels.get(name, "") for name in self.naming.read(gpu=False))

    def by_rule(self, labels: Mapping[str, str]) -> Who:
        """Who an engine with these labels is, by the rule of its job."""
        plain = self.naming.of(labels, None)
        family = self.families.get(plain[JOB])
        named = family if family is not None and family.name(labels) else self.naming.first(labels)
        return self.kept_apart(self.naming.of(labels, named), labels)

    def kept_apart(self, who: Who, labels: Mapping[str, str]) -> Who:
        """The same, under a name of its own where other processes share its name."""
        rule = self.apart.get(key_of(who))
        if rule is None:
            return who
        own = "" if rule == "instance" else f"{who[POD] or who[INSTANCE]} {rule}={labels.get(rule, '')}"
        return who[CLUSTER], who[NAMESPACE], who[NODE], own, who[INSTANCE], who[JOB]

    def where_it_is_now(self, who: Who) -> Who:
        """The same at its newest address: a pod of a StatefulSet keeps its name when it starts anew, elsewhere, and a
        scrape job may be renamed. Its history stays its own."""
        now = self.newest.get(_address(who))
        if now is None:
            return who
        return now[CLUSTER], now[NAMESPACE], now[NODE], who[POD], now[INSTANCE], now[JOB]

    def described_now(self, who: Who) -> Mapping[str, str]:
        """The describing labels that it has now, where they changed."""
        return self.described.get(_address(who), {}) if self.described else {}


Totals = Callable[[], Sequence[Sequence[InfoSeries]]]
"""Reads the totals of all engines finely: groups of series of one name. The last group is when processes started."""


def match_processes(
    naming: Naming,
    series: Sequence[InfoSeries],
    gpus: Sequence[InfoSeries],
    totals: Totals,
    counters: Sequence[InfoSeries],
    targets: Sequence[InfoSeries] = (),
) -> Processes:
    """Which processes the series of engines are. gpus: series of GPUs; totals: read only where label sets collide;
    counters: those of engines that are totals; targets: `up` of all targets."""
    found = Processes(naming)
    gpu_pods = {one.labels[pod.pod] for one in gpus for pod in naming.named(one.labels, gpu=True)}
    found.families = _families(naming, series, frozenset(gpu_pods))
    groups = _groups(found, series)
    colliding = {place: group for place, group in groups.items() if len(group) > 1 and _together(group)}
    names = {n for group in colliding.values() for n in differing([one.labels for one in group])}
    extra = sorted(names - OF_ENGINE - set(naming.read(gpu=True)))
    found.naming = replace(naming, extra=tuple(extra))
    if colliding:
        same = Sameness(totals())
        parts = {place: same.parts(group) for place, group in colliding.items()}
        _keep_apart(found, parts, frozenset(name for one in gpus for name in one.labels) if gpus else None)
    for one in series:
        found.who[found.raw(one.labels)] = found.by_rule(one.labels)
    for classes in parts.values() if colliding else ():
        _count_once(found, classes)
    _note_newest(found, series, targets)
    found.mixed = sorted({key_of(found.who[found.raw(s.labels)])[2] for s in counters if _falls(s.values)})
    return found


def _families(naming: Naming, series: Sequence[InfoSeries], gpu_pods: frozenset[str]) -> dict[str, PodLabels]:
    """By job, the labels that name most pods at once; of several those that exporters of GPUs name too."""
    jobs: dict[str, list[InfoSeries]] = {}
    for one in series:
        jobs.setdefault(naming.of(one.labels, None)[JOB], []).append(one)
    chosen = {}
    for job, group in jobs.items():
        there = np.vstack([np.isfinite(one.values) for one in group])
        busiest = int(np.argmax(there.sum(axis=0)))
        crowd = [one.labels for one, seen in zip(group, there[:, busiest], strict=True) if seen]
        options = [pod for pod in naming.pods if pod.only is None and any(pod.name(labels) for labels in crowd)]

        def worth(pod: PodLabels, crowd: list[dict[str, str]] = crowd) -> tuple[int, int]:
            named = [naming.of(labels, pod) for labels in crowd]
            return distinct(map(key_of, named)), len({who[POD] for who in named} & gpu_pods)

        if options:
            own = next((pod for pod in options if pod.pod == naming.chosen.get("pod")), None)
            chosen[job] = own or max(options, key=worth)
    return chosen


Place = tuple[Key, str, str]
"""Of an engine: who, its rank, its model."""


def _groups(found: Processes, series: Sequence[InfoSeries]) -> dict[Place, list[InfoSeries]]:
    groups: dict[Place, list[InfoSeries]] = {}
    for one in series:
        place = key_of(found.by_rule(one.labels)), one.labels.get("engine", ""), one.labels.get("model_name", "")
        groups.setdefault(place, []).append(one)
    return groups


def _port(who: Who) -> str:
    """The port of its address, empty without one."""
    return who[INSTANCE][len(address(who[INSTANCE])) :].rpartition(":")[2] if who[INSTANCE] else ""


def _pod_and_port(who: Who) -> tuple[str, str]:
    return who[POD], _port(who)


def _address(who: Who) -> Address:
    return key_of(who), _port(who) if who[POD] else ""


def _last_seen(one: InfoSeries) -> tuple[int, list[tuple[str, str]]]:
    seen = np.flatnonzero(np.isfinite(one.values))
    return int(seen[-1]) if len(seen) else -1, sorted(one.labels.items())


def _note_newest(found: Processes, series: Sequence[InfoSeries], targets: Sequence[InfoSeries]) -> None:
    """By name and port, who was scraped last under that name, with success or not; or, where the configuration started
    to show a cluster or a namespace, under the same with these."""
    there: dict[Address, np.ndarray] = {}
    engines = {_pod_and_port(who) for who in found.who.values()}
    named = []
    for one in sorted([*targets, *series], key=_last_seen):
        who = found.who.get(found.raw(one.labels)) or found.by_rule(one.labels)
        if who[POD] and _port(who) and _pod_and_port(who) in engines:
            named.append((one, who))
    alike: dict[tuple[str, str], list[Address]] = {}
    for one, who in named:
        place = _address(who)
        if place not in there:
            alike.setdefault(_pod_and_port(who), []).append(place)
        found.newest[place] = who
        there[place] = there.get(place, False) | np.isfinite(one.values)
    for place, who in list(found.newest.items()):
        fuller = [other for other in alike[_pod_and_port(who)] if _says_more(other[0], place[0])]
        if len(fuller) == 1 and _follow(there[fuller[0]], there[place]):
            found.newest[place] = found.newest[fuller[0]]
    kinds: dict[Address, dict[tuple[str, ...], np.ndarray]] = {}
    for one, who in named:
        times = kinds.setdefault(_address(found.newest[_address(who)]), {})
        kind = tuple(one.labels.get(name, "") for name in DESCRIBING)
        times[kind] = times.pop(kind, False) | np.isfinite(one.values)
    for place, times in kinds.items():
        *older, (now, newest) = times.items()
        if older and all(_follow(newest, seen) for _, seen in older):
            found.described[place] = dict(zip(DESCRIBING, now, strict=True))


def _follow(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether these are not there at the same time."""
    return int((one & other).sum()) < TOGETHER_STEPS


def _says_more(one: Key, other: Key) -> bool:
    """Whether a key names a cluster or a namespace that the other, of the same pod, leaves open."""
    return one != other and all(mine == theirs or not theirs for mine, theirs in zip(one, other, strict=True))


def _together(group: Sequence[InfoSeries]) -> bool:
    """Whether several of them are there at the same time."""
    count = np.vstack([np.isfinite(one.values) for one in group]).sum(axis=0)
    return int((count > 1).sum()) >= min(TOGETHER_STEPS, len(count))


def _falls(values: np.ndarray) -> bool:
    """Whether a total falls all the time."""
    seen = values[np.isfinite(values)]
    moves = np.diff(seen)
    return len(seen) > LEAST_MOVES and (moves < 0).sum() > max(LEAST_MOVES, MIXED * (moves != 0).sum())


Identity = frozenset[tuple[str, str]]


class Sameness:
    """Decides whether two label sets are one process, by the totals of both."""

    def __init__(self, totals: Sequence[Sequence[InfoSeries]]) -> None:
        *counted, started = totals
        self._rows = [{_identity(one.labels): one.values for one in group} for group in counted]
        self._started = {_identity(one.labels, OF_ENGINE): _last(one.values) for one in started}

    def parts(self, group: Sequence[InfoSeries]) -> list[list[InfoSeries]]:
        """The group divided into processes, that with the most samples first in each."""
        ranked = sorted(group, key=lambda one: (-int(np.isfinite(one.values).sum()), sorted(one.labels.items())))
        classes: list[list[InfoSeries]] = []
        for one in ranked:
            home = next((each for each in classes if self.same(each[0].labels, one.labels)), None)
            if home is None:
                classes.append([one])
            else:
                home.append(one)
        return classes

    def same(self, one: Mapping[str, str], other: Mapping[str, str]) -> bool:
        """Whether these are one process: all totals in step, and started at the same time where that shows. Where
        nothing moves the address decides."""
        starts = [self._started.get(_identity(labels, OF_ENGINE)) for labels in (one, other)]
        if None not in starts and starts[0] != starts[1]:
            return False
        moved = False
        for rows in self._rows:
            a, b = rows.get(_identity(one)), rows.get(_identity(other))
            if a is not None and b is not None:
                if not in_step(a, b):
                    return False
                moved |= int((np.diff(a[np.isfinite(a)]) > 0).sum()) >= LEAST_MOVES
        return moved or one.get("instance", "") == other.get("instance", "")


def in_step(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two totals, scraped at their own times of an interval, are the same one: each lies between what the
    other was a step before and is a step after. Where a scrape beside is missing nothing is known: what the other is
    at the step may lie on either side. float64[T] on steps of an interval or more."""
    inner, before, after = one[1:-1], other[:-2], other[2:]
    low, high = np.fmin(before, other[1:-1]), np.fmax(after, other[1:-1])
    there = np.isfinite(inner) & np.isfinite(before) & np.isfinite(after)
    if not there.any():
        return True
    enclosed = (inner >= low - 1e-9 * abs(low)) & (inner <= high + 1e-9 * abs(high))
    return bool(enclosed[there].mean() >= IN_STEP)


def _identity(labels: Mapping[str, str], without: frozenset[str] = frozenset()) -> Identity:
    return frozenset((n, v) for n, v in labels.items() if v and n not in without)


def _last(values: np.ndarray) -> float | None:
    seen = values[np.isfinite(values)]
    return float(seen[-1]) if len(seen) else None


def _keep_apart(
    found: Processes, parts: Mapping[Place, list[list[InfoSeries]]], carried: frozenset[str] | None
) -> None:
    """Find the label that keeps processes of one name apart: one that stands for a cluster, else the address, else any.
    carried: the labels of GPU series, None where there are none."""
    crowds = {place: [each[0].labels for each in classes] for place, classes in parts.items() if len(classes) > 1}
    cluster = _cluster_label(found.naming, list(crowds.values()), carried)
    if cluster is not None:
        found.naming = replace(found.naming, chosen={**found.naming.chosen, "cluster": cluster})
    for place, heads in crowds.items():
        label = cluster if cluster is not None and _distinguishes(cluster, heads) else _telling(found.naming, heads)
        if label is not None and label != cluster:
            found.apart.setdefault(place[0], label)
        found.crowds.append(Crowd(place[0][2], len(heads), label, label is not None and label == cluster))


def _cluster_label(
    naming: Naming, crowds: Sequence[Sequence[Mapping[str, str]]], carried: frozenset[str] | None
) -> str | None:
    """A label that divides several names into the same parts, as a cluster does. Exporters of GPUs carry it too; where
    there are none the parts have no host in common."""
    if len(crowds) < 2 or "cluster" in naming.chosen:
        return None
    for label in differing(crowds[0]):
        values = {frozenset(labels.get(label, "") for labels in heads) for heads in crowds}
        if label in OF_ENGINE or len(values) > 1 or not all(_distinguishes(label, heads) for heads in crowds):
            continue
        apart = all(distinct(address(naming.of(h, None)[INSTANCE]) for h in heads) == len(heads) for heads in crowds)
        if label in carried if carried is not None else apart:
            return label
    return None


def _distinguishes(label: str, heads: Sequence[Mapping[str, str]]) -> bool:
    """Whether a label has another value on each of these."""
    return distinct(labels.get(label, "") for labels in heads) == len(heads)


def _telling(naming: Naming, heads: Sequence[Mapping[str, str]]) -> str | None:
    """A label that has another value on each of these."""
    instances = [naming.of(labels, None)[INSTANCE] for labels in heads]
    if distinct(instances) == len(heads) and all(instances):
        return "instance"
    others = [name for name in differing(heads) if name not in OF_ENGINE and name != "instance"]
    return next((name for name in others if _distinguishes(name, heads)), None)


def _count_once(found: Processes, classes: Sequence[Sequence[InfoSeries]]) -> None:
    """All label sets of a process are that with the most samples."""
    for one in classes:
        if len(one) < 2:
            continue
        first = found.who[found.raw(one[0].labels)]
        for other in one[1:]:
            found.who[found.raw(other.labels)] = first
        differ = differing([each.labels for each in one])
        labels = tuple(sorted(differ, key=lambda name: (name not in found.naming.labels.job, name)))
        values = tuple(sorted({each.labels.get(labels[0], "") for each in one})) if labels else ()
        known = next((i for i, each in enumerate(found.copies) if each.labels == labels), None)
        if known is None:
            found.copies.append(Copies(labels, 1, values))
        else:
            before = found.copies[known]
            found.copies[known] = replace(
                before, processes=before.processes + 1, values=tuple(sorted({*before.values, *values}))
            )
