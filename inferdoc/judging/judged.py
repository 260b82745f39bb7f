"""One session judged: the causes that hold in it, compared with one reference, and whether another explains more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from msgspec import structs

from inferdoc.catalogue.recipe import CERTAINTIES
from inferdoc.catalogue.recipe_file import Family
from inferdoc.extras import install
from inferdoc.judging.answer import baseline_of
from inferdoc.judging.conditions import evaluate, prepare
from inferdoc.judging.context import Context, Outcome, UnitQuery
from inferdoc.judging.fold import Cause
from inferdoc.judging.judge import Judgement, judge
from inferdoc.judging.references.lifetime import FirstLook, Lifetime, absolute, doubted
from inferdoc.judging.references.rhythm import Rhythm, take_out_rhythm
from inferdoc.judging.released import blame_rollouts
from inferdoc.judging.session import Lead, Session
from inferdoc.judging.verdict import Evidence, Match


@dataclass(frozen=True)
class Judged:
    """judgement: the roots, worst first; rhythm: what an earlier day explains; first_look: what can be compared where
    nobody scraped before, None otherwise."""

    session: Session
    judgement: Judgement
    rhythm: Rhythm | None
    first_look: FirstLook | None

    @property
    def context(self) -> Context:
        """Where conditions are evaluated."""
        return self.session.context

    @property
    def roots(self) -> list[Cause]:
        """The causes that explain the others."""
        return self.judgement.roots

    @property
    def is_explained(self) -> bool:
        """Whether a root names a cause."""
        return any(root.recipe.kind != "unexplained" for root in self.roots)

    @property
    def is_compared(self) -> bool:
        """Whether a root names a cause, and by more than limits: a past may show it better."""
        return self.is_explained and baseline_of(self.context.view, self.roots).kind != "absolute"

    def explains_more(self, other: Judged, reference: Lead) -> bool:
        """Whether to take this one, by another reference, instead of the other. That the life of the processes was no
        better speaks for nothing; where impact shows by itself, only a cause explains more. A change of which the
        history excludes the cause is not explained by the life of the processes, which shows no more than levels."""
        if other.is_explained:
            first, then = other.roots[0].best, self.roots[0].best if self.roots else None
            return then is not None and CERTAINTIES.index(then.certainty) >= CERTAINTIES.index(first.certainty)
        named = [root for root in self.roots if root.recipe.kind != "unexplained"]
        if isinstance(reference, Lifetime) and other.roots:
            named = [root for root in named if not other._excludes(root)]
        if isinstance(reference, Lifetime) or other.roots:
            return bool(named or (self.roots and not other.roots))
        return True

    def _excludes(self, cause: Cause) -> bool:
        """Whether the cause is excluded on a pod of its own here, and shows on none."""
        pods = {match.unit.name for match in cause.matches}
        seen = [v for unit, v in self.judgement.verdicts.get(cause.recipe.id, {}).items() if unit.name in pods]
        return any(v.excluded for v in seen) and not any(v.match for v in seen)


def judge_session(session: Session) -> Judged:
    """Evaluate every cause, then what only the whole shows: the rhythm of earlier days, releases, mechanisms."""
    context, catalogue = session.context, session.catalogue
    first_look = FirstLook.of(context.view) if context.view.lead_kind == "lifetime" else None
    judgement = judge(context, absolute(catalogue.recipes, first_look) if first_look else catalogue.recipes)
    if first_look:
        doubted(judgement.roots, catalogue.recipes, first_look)
    rhythm = take_out_rhythm(session, judgement.roots)
    _rank_unexplained(session, judgement)
    judgement.roots = blame_rollouts(judgement.roots, context, catalogue.recipes)
    name_mechanisms(judgement.roots, context, catalogue.families)
    return Judged(session, judgement, rhythm, first_look)


def _rank_unexplained(session: Session, judgement: Judgement) -> None:
    """Impact without a known cause gets the most unusual signals as its support."""
    odd = [root for root in judgement.roots if root.recipe.kind == "unexplained"]
    if odd:
        from inferdoc.judging.anomaly import earlier_days, has_forest, read_rest, unusual

        if not has_forest():
            text = f"unusual signals are ranked by how far they moved alone; better with: {install('scikit-learn')}"
            session.source.warnings.append(text)
        read_rest(session)
        earlier = earlier_days(session)
        for root in odd:
            root.best.evidence += [Evidence("support", outcome) for outcome in unusual(session.context, root, earlier)]


def name_mechanisms(roots: Iterable[Cause], context: Context, families: Mapping[str, Family]) -> None:
    """Give causes that nothing explains the name of the mechanism that shows; those without one stay as they are."""
    for root in roots:
        if root.recipe.kind == "unexplained":
            _name(root, context, families.values())


def _name(root: Cause, context: Context, families: Iterable[Family]) -> None:
    queries = [UnitQuery(match.unit, match.onset, match.last) for match in root.matches]
    for family in families:
        prepare([family.shown] if family.shown is not None else [], context, queries)
        shown = [_shown(family, match, context) for match in root.matches]
        if 2 * sum(map(bool, shown)) > len(shown):
            named = structs.replace(
                root.recipe,
                id=family.id,
                family=family.id,
                title=family.title,
                phase=family.phase,
                next_steps=family.next_steps,
                look_alikes=(),
            )
            root.recipe = named
            root.matches = [
                replace(match, recipe=named, evidence=[*outcomes, *match.evidence])
                for match, outcomes in zip(root.matches, shown, strict=True)
            ]
            return


def _shown(family: Family, match: Match, context: Context) -> list[Evidence]:
    """What shows a mechanism on the pod of a match while its impact lasts."""
    if family.shown is None:
        return []
    outcome = evaluate(family.shown, context.at(match.onset, match.last), match.unit)
    seen = [one for one in outcome.parts or (outcome,) if one.holds and _lasts(one, match)]
    return [Evidence("symptom", leaf) for one in seen[:1] for leaf in one.leaves]


def _lasts(one: Outcome, match: Match) -> bool:
    """Whether an observation covers half of the impact: what only its first minutes show came with its beginning."""
    first, last = max(one.first or 0, match.onset), match.last if one.last is None else min(one.last, match.last)
    return 2 * (last - first + 1) >= match.last - match.onset + 1
