"""What keeps a verdict from being healthy or proven: what was not read, a rise that is too new, traffic that stopped.

A server that answers in part, a store that is damaged, a window that was cut and a pod that is scraped without its
metrics look like a healthy fleet with fewer pods.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.names import load_identity
from inferdoc.catalogue.tables import Calibration
from inferdoc.fleet.lineage import Key
from inferdoc.fleet.members import Family
from inferdoc.fleet.workloads import workload
from inferdoc.judging.clock import Clock, Rule
from inferdoc.judging.conditions.stalls import LONGEST_GAP_FACTOR
from inferdoc.judging.context import Context
from inferdoc.judging.deviation import bands, needed_observations, observations
from inferdoc.judging.model import Diagnosis, Rising, Stopped, UnreadNames, seconds, stamp
from inferdoc.judging.order import rows_of
from inferdoc.judging.references.providers import FELT, LEAST_WORSE
from inferdoc.judging.spans import runs
from inferdoc.judging.view import Unit, View
from inferdoc.source.base import Incomplete, Scrapes
from inferdoc.source.frame import Entity
from inferdoc.words import how_many, lasting, some

SIGNS = ("running", "waiting", "generation_tokens_rate", "prompt_tokens_rate", "request_rate")
"""Every engine shows one of them from its start, with traffic or without."""
GAUGES = ("running", "waiting")
LATENCIES = ("first_token_rate", "e2e_mean")
"""A pod that finishes requests shows both. First tokens are counted also where they come too soon to be timed."""
NAMED = 3
LATEST_SECONDS = 300.0
"""Prometheus shows a series for five minutes after its last sample: older data are no picture of the present."""


def without_metrics(view: View, scrapes: Sequence[Scrapes]) -> list[str]:
    """The pods that answer scrapes in the window, and show none of the metrics of an engine: those that did before,
    those of a workload of which others do, those of a scrape job of engines, and those that are named like an engine.
    scrapes: of the window."""
    shown = _shown(view)
    engines = {(*member.key[:2], workload(member.pod)[0]) for member in view.fleet.members}
    targets = [(Entity.of_labels(target.labels), target) for target in scrapes]
    jobs = _jobs_of_engines(targets, shown.keys())
    identity = load_identity()
    engine = re.compile(identity.engine_names)
    other = re.compile(f"{identity.router_names}|{identity.companion_names}")
    silent = []
    for entity, target in targets:
        name = target.labels.get("pod") or target.labels.get("job", "")
        belongs = (
            (*entity.member[:2], workload(entity.pod)[0]) in engines
            or _job(entity, target) in jobs
            or (engine.search(name) is not None and other.search(name) is None)
        )
        if belongs and entity.member not in shown and len(target.up) and target.up[-1] >= 0.5:
            silent.append(view.fleet.called(entity))
    return sorted(set(silent))


def without_some_metrics(view: View, scrapes: Sequence[Scrapes], listed: Collection[str]) -> list[str]:
    """The pods that show some of the metrics of an engine in the window, and lack one that pods of the same scrape job
    show, or that the source lists and no pod shows. scrapes: of the window; listed: which of SIGNS and LATENCIES have a
    series in the source. A pod whose scrapes do not show is compared with all of its namespace. A pod without work may
    lack counters, one that finishes requests in less than half of the window latencies, and one that is there for less
    than half of it any."""
    shown = _shown(view)
    everywhere = {sign for signs in shown.values() for sign in signs}
    absent = set(listed) - everywhere - {name for name in LATENCIES if _has_values(view, name)}
    jobs: dict[Key, tuple[str, ...]] = {}
    for target in scrapes:
        entity = Entity.of_labels(target.labels)
        jobs[entity.member] = _job(entity, target)
    others: dict[tuple[str, ...], set[str]] = {}
    for member, signs in shown.items():
        for group in {jobs.get(member, member[:2]), member[:2]}:
            others.setdefault(group, set()).update(signs)
    longest = max((sign.steps for signs in shown.values() for sign in signs.values()), default=0)
    lacking = []
    for member, signs in shown.items():
        if 2 * max(sign.steps for sign in signs.values()) < longest:
            continue
        expected = others[jobs.get(member, member[:2])] | absent
        if not any(sign.working_steps for sign in signs.values()):
            expected &= set(GAUGES)
        elif "request_rate" not in signs or 2 * signs["request_rate"].working_steps < longest:
            expected -= set(LATENCIES)
        if not expected <= signs.keys():
            lacking.append(view.fleet.called(Entity.of(("cluster", "namespace", "pod"), member)))
    return sorted(set(lacking))


_Job = tuple[str, str, str, str]


def _job(entity: Entity, target: Scrapes) -> _Job:
    """Cluster, namespace, job and container of a target."""
    return (*entity.member[:2], target.labels.get("job", ""), target.labels.get("container", ""))


def _jobs_of_engines(targets: Sequence[tuple[Entity, Scrapes]], engines: Collection[Key]) -> set[_Job]:
    """The jobs that scrape engines alone, as far as targets show: most of a job's targets in a namespace are engines,
    and it has none in a namespace without. A job that scrapes every annotated pod of a cluster is none."""
    places = {member[:2] for member in engines}
    counts: dict[_Job, list[int]] = {}
    elsewhere = set()
    for entity, target in targets:
        job = _job(entity, target)
        counts.setdefault(job, [0, 0])[entity.member in engines] += 1
        if entity.member[:2] not in places:
            elsewhere.add(job[2])
    return {job for job, (others, own) in counts.items() if job[2] and job[2] not in elsewhere and own >= others}


class _Sign(NamedTuple):
    """One of SIGNS of a pod. steps: at how many steps of the window it is there; working_steps: and is above 0."""

    steps: int
    working_steps: int


def _shown(view: View) -> dict[Key, dict[str, _Sign]]:
    """By pod, which of SIGNS it shows in the window."""
    frame, shown = view.frame, dict[Key, dict[str, _Sign]]()
    for name in SIGNS:
        matrix = frame.signals.get(name)
        if matrix is None:
            continue
        for entity, values in zip(matrix.entities, matrix.values, strict=True):
            inside = values[frame.begin :]
            if np.isfinite(inside).any():
                signs, there = shown.setdefault(entity.member, {}), int(np.isfinite(inside).sum())
                known = signs.get(name, _Sign(0, 0))
                signs[name] = _Sign(max(known.steps, there), max(known.working_steps, int((inside > 0).sum())))
    return shown


def _has_values(view: View, name: str) -> bool:
    """Whether any pod shows a signal in the window."""
    matrix = view.frame.signals.get(name)
    return matrix is not None and bool(np.isfinite(matrix.values[:, view.frame.begin :]).any())


def listed_signs(catalogue: Catalogue, names: Collection[str]) -> set[str]:
    """Which of SIGNS and LATENCIES have their series among those of a source."""
    readings = {sign: catalogue.signals[sign].readings for sign in (*SIGNS, *LATENCIES) if sign in catalogue.signals}
    return {
        sign
        for sign, ways in readings.items()
        if any(alias in names for way in ways for series in way.series for alias in catalogue.aliases.of(series))
    }


def silent_pods(names: Sequence[str]) -> str:
    """The text about pods without metrics."""
    return f"no engine metrics from {some(names, NAMED)}, although scrapes succeed"


def unread_engine(names: UnreadNames) -> str:
    """What is reported of an engine whose names nobody declared."""
    near = f" (nearest known: {names.nearest})" if names.nearest else ""
    engine = f"an engine ({names.word})" if names.word else "an engine"
    return (
        f"{how_many(names.families, 'metric')} of {engine} are not read, such as {names.example}{near}; declare the "
        "names in collectors/"
    )


def qualify(answer: Diagnosis, warnings: Iterable[str], calibration: Calibration) -> None:
    """Put what was not read into the document; nothing is healthy or proven where something is missing."""
    missing = [str(line) for line in warnings if isinstance(line, Incomplete)]
    if answer.coverage.pods_without_metrics:
        missing.append(silent_pods(answer.coverage.pods_without_metrics))
    if answer.coverage.pods_without_some_metrics:
        pods = some(answer.coverage.pods_without_some_metrics, NAMED)
        missing.append(f"some engine metrics are missing from {pods}, although scrapes succeed")
    missing += answer.coverage.missing_pods
    missing += [unread_engine(names) for names in answer.coverage.not_understood if names.hidden]
    window = answer.window
    if window.newest is not None:
        age = seconds(window.until) - seconds(window.newest)
        if age > max(LATEST_SECONDS, 5 * window.step_seconds):
            missing.append(f"no samples after {window.newest}: the last {lasting(age)} of the window were not seen")
    answer.source.incomplete = missing
    if not missing:
        return
    for finding in answer.findings:
        if finding.certainty == "proven":
            finding.regrade("likely", calibration.probability("likely"))
    if answer.verdict == "healthy":
        answer.verdict = "unknown"
        answer.summary = f"No cause found in what was read, but the data is incomplete: {missing[0]}."


MUCH_WORSE = 2.0
"""Twice what was usual: for less, on quiet days every user would have to repeat the query."""
LEAST_SCRAPES = 2
"""One is a spike."""
LEAST_REQUESTS = 1.5
"""A single slow request is none, even where a rate counts somewhat more than it."""


def rising(context: Context, units: Sequence[Unit]) -> Rising | None:
    """What users of these units wait for and what has risen most in the last scrapes, over all that it was before; None
    where nothing has, or over so many scrapes and requests that it was judged."""
    risen = [one for name in FELT if name in context.signals for one in _of_signal(name, context, units)]
    return max(risen, key=lambda one: one.observed / max(one.baseline, LEAST_WORSE[one.signal]), default=None)


def _of_signal(name: str, context: Context, units: Sequence[Unit]) -> Iterator[Rising]:
    clock, view, unit_of = context.clock, context.view, context.signals[name].unit
    rows = {unit: series.values for unit in units if (series := view.get(unit, name)) is not None}
    if not rows:
        return
    among = list(rows)
    values, counts = rows_of(list(rows.values())), context.counts(name, among)
    known, least = clock.out_steps + clock.window_steps, clock.steps(0.0, LEAST_SCRAPES)
    for row, middle, first, last in _beyond(values, view.steps - known, LEAST_WORSE[name], clock):
        if view.steps - first < known and last >= view.steps - least:
            since, later = stamp(view.time_at(first)), stamp(view.time_at(first + known))
            yield Rising(name, among[row].name, middle, float(values[row, last]), unit_of, since, later)
    if counts is None:
        return
    for row, middle, first, _ in _beyond(values, view.begin, LEAST_WORSE[name], clock):
        observed = float(np.nanmedian(values[row, first:]))
        requests = float(observations(counts[[row], first:], np.isfinite(counts[[row], first:]), clock)[0])
        if view.steps - first >= known and LEAST_REQUESTS <= requests < needed_observations(observed, middle):
            since = stamp(view.time_at(first))
            yield Rising(name, among[row].name, middle, observed, unit_of, since, requests=round(requests))


def _beyond(values: np.ndarray, stop: int, worse: float, clock: Clock) -> Iterator[tuple[int, float, int, int]]:
    """The rows of float64[R, T] that stay far beyond their values before a step, to the last value: row, usual value,
    first and last step beyond it."""
    before = np.isfinite(values) & (np.arange(values.shape[1]) < stop)
    rows = np.flatnonzero(before.sum(axis=1) >= clock.least_baseline)
    if not len(rows):
        return
    usual, limit = bands(values[rows], before[rows], Rule(MUCH_WORSE, by=worse))
    for row, middle, most in zip(rows.tolist(), usual.tolist(), limit.tolist(), strict=True):
        seen = np.flatnonzero(np.isfinite(values[row]))
        inside = np.flatnonzero(values[row, seen] <= most)
        outside = seen[inside[-1] + 1 :] if len(inside) else seen
        if len(outside) >= clock.steps(0.0, LEAST_SCRAPES):
            yield row, middle, int(outside[0]), int(outside[-1])


RATE = "request_rate"
MISSED = 20.0
"""So many requests would have come by the usual rate: of random arrivals none comes with a chance of e^-20."""
LEFT = 0.05
"""Of the usual rate: a health check or a single user may go on."""
ABRUPT = 0.5
"""In the minutes before, so much of the usual rate still came: an evening ends by degrees."""


def stopped(context: Context, units: Sequence[Unit]) -> Stopped | None:
    """The model, of some units, whose requests stopped and have not come back by the end of the window; of several the
    busiest."""
    families: dict[Family, list[np.ndarray]] = {}
    for unit in units:
        series = context.view.get(unit, RATE)
        if series is not None:
            families.setdefault(unit.member.pool.family, []).append(series.values)
    found = [one for family, rows in families.items() if (one := _of_family(context, family, rows)) is not None]
    return max(found, key=lambda one: one.before, default=None)


def _of_family(context: Context, family: Family, rows: list[np.ndarray]) -> Stopped | None:
    view, clock = context.view, context.clock
    values = rows_of(rows)
    known = np.flatnonzero(np.isfinite(values).any(axis=0))
    rate = np.nansum(values[:, known], axis=0)
    if len(rate) <= clock.least_baseline:
        return None
    usual = float(np.median(sliding_window_view(rate, clock.least_baseline), axis=1).max())
    pauses = runs(rate <= LEFT * usual)
    if not pauses or pauses[-1][1] != len(known):
        return None
    begin = pauses[-1][0]
    pause = max((stop - start for start, stop in pauses[:-1]), default=0)
    lasts = len(known) - begin
    before = rate[max(0, begin - clock.least_baseline) : begin]
    if len(before) < clock.least_baseline or float(np.median(before)) < ABRUPT * usual:
        return None
    if lasts < LONGEST_GAP_FACTOR * pause or usual * lasts * view.step_seconds < MISSED:
        return None
    return Stopped(family[2], usual, stamp(view.time_at(int(known[begin]))))
