"""From what was judged to the document: the findings of the pods in focus, the verdict, and what was looked at."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from msgspec.structs import replace

from inferdoc.catalogue.recipe import Phase
from inferdoc.judging.answer import baseline_of, coverage_of, newest_sample, scraped_in_window, summarise, verdict_of
from inferdoc.judging.changes import Event, find_events, of_window
from inferdoc.judging.cohort_signals import traits_of
from inferdoc.judging.completeness import listed_signs, rising, stopped
from inferdoc.judging.context import Context
from inferdoc.judging.findings import NEAR_DEPLOY_SECONDS, FindingMaker
from inferdoc.judging.focus import ASPECTS, Focus
from inferdoc.judging.judge import can_judge, short_of_steps
from inferdoc.judging.judged import Judged
from inferdoc.judging.missing_pods import missing_pods
from inferdoc.judging.model import (
    Change,
    Diagnosis,
    Elsewhere,
    FocusInfo,
    PhaseSplit,
    SourceInfo,
    Timing,
    UnreadNames,
    Window,
    stamp,
)
from inferdoc.judging.places import Places, read_places
from inferdoc.judging.session import Session, needed_signals
from inferdoc.judging.settings import CACHE_SETTINGS, newest_settings
from inferdoc.judging.unjudged import explain_unknown, not_judged, nothing_to_judge
from inferdoc.judging.view import Unit, View
from inferdoc.source.base import Source
from inferdoc.source.identified import Identified
from inferdoc.version import __version__


class DiagnosisWithSeries(Diagnosis, dict=True):
    """A Diagnosis made here: the same document, and beside it the series that it was judged on, for plots."""

    @property
    def view(self) -> View | None:
        """The series; not part of the document. None after a copy."""
        return self.__dict__.get("view")


def document(judged: Judged) -> DiagnosisWithSeries:
    """The document of what was judged."""
    session, context, rhythm = judged.session, judged.context, judged.rhythm
    view, grid, focus, seen = context.view, session.frame.grid, session.focus, session.visibility
    roots = [root for root in judged.roots if focus.concerns(root)]
    events = find_events(context, session.scrapes, session.catalogue.markers, session.infos)
    events += rhythm.events if rhythm else []
    events = of_window(events, context, [root.onset for root in judged.roots], NEAR_DEPLOY_SECONDS)
    maker = _maker(judged, events)
    findings = [maker.make(root) for root in roots]
    others = [Elsewhere(root.recipe.id, maker.scope(root).pods) for root in judged.roots if root not in roots]
    units = [unit for unit in view.units if focus.holds(unit.member)]
    short = short_of_steps(context)
    too_new = None if findings else rising(context, units)
    gone = None if findings else stopped(context, units)
    verdict = verdict_of(findings, can_judge(context, units) and not short and too_new is None and gone is None)
    hit = [match.unit for match in roots[0].matches] if roots else units
    fleet = view.fleet.members if session.scan is None else session.scan.members
    elsewhere = _newest_elsewhere(session)
    answer = DiagnosisWithSeries(
        schema="inferdoc.diagnosis/v1",
        inferdoc_version=__version__,
        window=Window(
            stamp(view.time_at(view.begin)),
            stamp(max(grid.end_ms, session.frame.until_ms) / 1000),
            view.step_seconds,
            baseline_of(view, roots) if rhythm is None else rhythm.baseline(grid),
            newest_sample(session.scrapes, grid),
        ),
        source=SourceInfo(session.source.kind, session.source.location, list(session.source.warnings)),
        verdict=verdict,
        summary=summarise(
            verdict,
            findings,
            len(fleet) if focus.members is None else len(focus.keys),
            _ask_again(context, short),
            judged.first_look is not None,
            view.fleet.spread,
            elsewhere,
            None if too_new is None else (context.signals[too_new.signal].title, too_new),
            gone,
        ),
        phases=split_phases(view, hit, roots[0].onset if roots else None),
        findings=findings,
        not_judged=not_judged(judged.judgement, seen) if view.units else nothing_to_judge(seen),
        changes=[Change(stamp(e.at), e.kind, e.entity, e.detail) for e in events if _is_about(e, focus)],
        coverage=replace(
            coverage_of(
                view,
                session.scrapes,
                needed_signals(session.catalogue),
                _listed(session),
                session.scan,
                session.options.match,
            ),
            not_understood=unread_names(session.source, session.names),
            missing_pods=missing_pods(session, bool(findings)) if judged.first_look is None else [],
        ),
        timing=Timing(0.0, 0.0, 0, 0),
        focus=None if focus.members is None else _described(focus, len(view.fleet.members), others),
        rising=too_new,
        stopped=gone,
    )
    if elsewhere is None:
        explain_unknown(answer, session)
    answer.__dict__["view"] = view
    return answer


def _maker(judged: Judged, events: Sequence[Event]) -> FindingMaker:
    session, context = judged.session, judged.context
    source, catalogue = session.source, session.catalogue
    return FindingMaker(
        context,
        judged.judgement,
        catalogue.recipes,
        events,
        session.options.links,
        traits_of(context.view, session.scrapes, catalogue.markers, session.infos),
        catalogue.flags,
        session.older_than,
        catalogue.calibration,
        read_places(source, session.frame.grid, session.scrapes) if judged.roots else Places(),
        source.location if source.kind == "prometheus" else None,
        newest_settings(session.infos.get(CACHE_SETTINGS, ())),
        session.engines,
        source.stored if isinstance(source, Identified) else frozenset(),
    )


def unread_names(source: Source, names: Collection[str]) -> list[UnreadNames]:
    """The names of series that look like those of an engine or a router, and that no declaration explains."""
    known = source.not_understood(names) if isinstance(source, Identified) else []
    return [UnreadNames(one.word, one.families, one.example, one.nearest, one.hidden) for one in known]


def _newest_elsewhere(session: Session) -> str | None:
    """The time of the newest sample, where the source has none in the window."""
    view = session.context.view
    if view.units or scraped_in_window(view, session.scrapes):
        return None
    newest, begin = session.source.latest_ms(), 1000 * view.time_at(view.begin)
    if newest is None or begin <= newest <= max(session.frame.grid.end_ms, session.frame.until_ms):
        return None
    return stamp(newest / 1000)


def _ask_again(context: Context, short: int) -> str | None:
    """When there will be enough to judge, where too few scrapes were seen; None where that is not what is missing."""
    if not short or not can_judge(context):
        return None
    return stamp(context.view.time_at(context.view.steps - 1 + short))


def _described(focus: Focus, of_pods: int, elsewhere: list[Elsewhere]) -> FocusInfo:
    pods = list(dict.fromkeys(member.pod for member in focus.members or ()))
    chosen = {name: getattr(focus.selected, name) for name in ASPECTS}
    return FocusInfo(**chosen, pods=pods, of_pods=of_pods, elsewhere=elsewhere)


def _is_about(event: Event, focus: Focus) -> bool:
    """Whether a change is one of a pod in focus, of its pool where pods came or went, or of no pod at all."""
    if event.unit is None or focus.holds(event.unit.member):
        return True
    pools = {member.pool for member in focus.members or ()}
    return event.kind in ("replicas", "rollout") and event.unit.member.pool in pools


def _listed(session: Session) -> set[str]:
    """Which signs of engines the source lists. None where its names may be those of other engines than the ones that
    were read."""
    if session.options.match or len(session.engines) != 1:
        return set()
    return listed_signs(session.catalogue, session.names)


MEANS: tuple[tuple[Phase, str], ...] = (
    ("prefill", "prefill_time_mean"),
    ("transfer", "nixl_xfer_mean"),
    ("decode", "decode_time_mean"),
)
REAL = ("queue", "prefill", "transfer", "decode")
"""Phases with a histogram of their own; the others are differences, and need a present."""
SANE_SECONDS = 86_400.0


def split_phases(view: View, units: Sequence[Unit], onset: int | None) -> list[PhaseSplit]:
    """Median over the units of the phase means, before and after the onset (without one: now only), in the order a
    request goes through them.

    Means, since the histograms of queue and prefill begin at 0.3 s. The gateway is what the router's time to first
    token holds beyond that of the engines (with prefill and decode apart: of one after the other), the front end what
    the engine's holds beyond queue and prefill. On a pod that reads KV the queue time holds the transfer, which is
    taken out of it.
    """
    rows: dict[Phase, list[np.ndarray | None]] = {
        "gateway": [_gateway(view, units)],
        "frontend": [_residual(view, unit) for unit in units if unit.member.role == "both"],
        "queue": [_queue(view, unit) for unit in units],
    }
    rows |= {phase: [_clean(view, unit, signal) for unit in units] for phase, signal in MEANS}
    found = []
    for phase, known in rows.items():
        before, now = _medians([row for row in known if row is not None], onset)
        if now is not None or (before is not None and phase in REAL):
            found.append(PhaseSplit(phase, before, now))
    return found


def _queue(view: View, unit: Unit) -> np.ndarray | None:
    """The time in the queue without the transfer of KV that counts as queueing on the pod that reads it."""
    queue, transfer = _clean(view, unit, "queue_time_mean"), _clean(view, unit, "nixl_xfer_mean")
    if queue is None or transfer is None or unit.member.role == "prefill":
        return queue
    return np.asarray(np.clip(queue - np.nan_to_num(transfer), 0.0, None))


def _gateway(view: View, units: Sequence[Unit]) -> np.ndarray | None:
    """What the router's mean time to first token holds beyond the engines', seconds: float64[T]."""
    if not units:
        return None
    router = view.get(units[0], "router_ttft_mean")
    if router is None:
        return None
    family = units[0].member.pool.family
    engines = np.zeros(len(router.values))
    for role in sorted({u.member.role for u in view.units if u.member.pool.family == family}):
        like = [u for u in view.units if u.member.pool.family == family and u.member.role == role]
        rows = [row for row in (_clean(view, unit, "ttft_mean") for unit in like) if row is not None]
        if not rows:
            return None
        stacked = np.vstack(rows)
        seen = np.isfinite(stacked).any(axis=0)
        engines[~seen] = np.nan
        engines[seen] += np.nanmean(stacked[:, seen], axis=0)
    return np.asarray(np.clip(router.values - engines, 0.0, None))


def _clean(view: View, unit: Unit, signal: str) -> np.ndarray | None:
    """A mean without the nonsense that requests leave which fail before they are scheduled."""
    series = view.get(unit, signal)
    if series is None:
        return None
    errors = view.get(unit, "error_rate")
    bad = np.zeros(len(series.values), dtype=bool) if errors is None else np.nan_to_num(errors.values) > 0
    with np.errstate(invalid="ignore"):
        bad |= (series.values < 0) | (series.values > SANE_SECONDS)
    return np.where(bad, np.nan, series.values)


def _residual(view: View, unit: Unit) -> np.ndarray | None:
    parts = [_clean(view, unit, name) for name in ("ttft_mean", "queue_time_mean", "prefill_time_mean")]
    if any(part is None for part in parts):
        return None
    ttft, queue, prefill = parts
    assert ttft is not None and queue is not None and prefill is not None
    return np.asarray(np.clip(ttft - queue - prefill, 0.0, None))


def _medians(rows: Sequence[np.ndarray], onset: int | None) -> tuple[float | None, float | None]:
    if not rows:
        return None, None
    stacked = np.vstack(rows)
    if onset is None:
        return None, _median(stacked)
    return _median(stacked[:, :onset]), _median(stacked[:, onset:])


def _median(values: np.ndarray) -> float | None:
    seen = values[np.isfinite(values)]
    return float(np.median(seen)) if len(seen) else None
