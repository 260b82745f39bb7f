"""From the diagnosis of all that was read to the report on what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inferdoc.judging import phases
from inferdoc.judging.answer import baseline_of, summarise, verdict_of
from inferdoc.judging.events import Event
from inferdoc.judging.focus import ASPECTS, Focus
from inferdoc.judging.judge import Judgement, can_judge, short_of_steps
from inferdoc.judging.model import Baseline, Change, Diagnosis, Elsewhere, FocusInfo, stamp
from inferdoc.judging.not_yet import rising
from inferdoc.judging.session import Session
from inferdoc.judging.traffic import stopped
from inferdoc.judging.view import View


@dataclass
class Whole:
    """What a diagnosis was made from. judgement: its roots in the order of the findings; baseline: where an earlier day
    told, the stretch that did."""

    session: Session
    judgement: Judgement
    events: Sequence[Event]
    baseline: Baseline | None


class Judged(Diagnosis, dict=True):
    """A Diagnosis made here: the same document, and beside it the series that it was judged on, for plots."""

    @property
    def view(self) -> View | None:
        """The series; not part of the document. None after a copy."""
        return self.__dict__.get("view")


def narrowed(answer: Judged, whole: Whole) -> Judged:
    """The answer with the findings, phases, changes and verdict of the pods in focus; what else was found is named in
    `focus.elsewhere`."""
    if whole.session.focus.members is None:
        return answer
    focus, context = whole.session.focus, whole.session.context
    there = [focus.concerns(root) for root in whole.judgement.roots]
    roots = [root for root, here in zip(whole.judgement.roots, there, strict=True) if here]
    others = [finding for finding, here in zip(answer.findings, there, strict=True) if not here]
    answer.findings = [finding for finding, here in zip(answer.findings, there, strict=True) if here]
    units = [unit for unit in context.view.units if focus.holds(unit.member)]
    too_new = None if answer.findings else rising(context, units)
    answer.stopped = None if answer.findings else stopped(context, units)
    doubtful = too_new is not None or answer.stopped is not None
    judged = can_judge(context, units) and not short_of_steps(context) and not doubtful
    answer.verdict = verdict_of(answer.findings, judged)
    answer.focus = _described(focus, len(context.view.fleet.members), [Elsewhere(f.id, f.scope.pods) for f in others])
    if answer.findings or judged or doubtful:
        told = None if too_new is None else (context.signals[too_new.signal].title, too_new)
        answer.summary = summarise(
            answer.verdict, answer.findings, len(focus.keys), rising=told, stopped=answer.stopped
        )
    answer.rising = too_new
    hit = [match.unit for match in roots[0].matches] if roots else units
    answer.phases = phases.split_phases(context.view, hit, roots[0].onset if roots else None)
    answer.window.baseline = whole.baseline or baseline_of(context.view, Judgement(roots))
    events = [event for event in whole.events if _is_about(event, focus)]
    answer.changes = [Change(stamp(e.at), e.kind, e.entity, e.detail) for e in events]
    return answer


def _described(focus: Focus, of_pods: int, elsewhere: list[Elsewhere]) -> FocusInfo:
    wanted = focus.wanted
    pods = list(dict.fromkeys(member.pod for member in focus.members or ()))
    asked = {name: getattr(wanted, name) for name in ASPECTS}
    return FocusInfo(**asked, pods=pods, of_pods=of_pods, elsewhere=elsewhere)


def _is_about(event: Event, focus: Focus) -> bool:
    """Whether a change is one of a pod in focus, of its pool where pods came or went, or of no pod at all."""
    if event.unit is None or focus.holds(event.unit.member):
        return True
    pools = {member.pool for member in focus.members or ()}
    return event.kind in ("replicas", "rollout") and event.unit.member.pool in pools
