"""One recipe on the units: do its symptoms hold together, is there harm, is it ruled out, how sure is it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from inferdoc.catalogue.conditions import AnyOf, Condition, Level, Move, leaves
from inferdoc.catalogue.recipe import CERTAINTIES, Certainty, Recipe
from inferdoc.judging.conditions import evaluate, prepare
from inferdoc.judging.context import Context, Outcome, UnitQuery
from inferdoc.judging.impact import FELT, immaterial, objective
from inferdoc.judging.verdict import Evidence, Match, Reached, Verdict
from inferdoc.judging.view import Unit

BLUR = 2
"""Rate windows by which the beginnings of two signals can be mistaken against each other."""
UNITS_AT_ONCE = 512
"""What is worked out for so many units and one recipe takes some 50 MB where all of them are sick."""
UNFOLDS = ("local", "load")
"""Kinds of causes whose first minute looks like another's: what is full, late or longer shows one after the other."""


@dataclass
class _Episode:
    """Where the symptoms of a recipe hold together on a unit, and what shows in it. inside: its context."""

    unit: Unit
    inside: Context
    symptoms: list[Outcome]
    onset: int
    last: int
    from_start: bool
    harm: list[Outcome] = field(default_factory=list)

    @property
    def query(self) -> UnitQuery:
        return UnitQuery(self.unit, self.onset, self.last)


def judge_recipe(recipe: Recipe, context: Context, units: Sequence[Unit]) -> dict[Unit, Verdict]:
    """Evaluate a recipe on units, so many at a time: whoever comes as far as a question is evaluated together."""
    verdicts: dict[Unit, Verdict] = {}
    for begin in range(0, len(units), UNITS_AT_ONCE):
        context.make_room()
        _judge_some(recipe, context, units[begin : begin + UNITS_AT_ONCE], verdicts)
    return verdicts


def _judge_some(recipe: Recipe, context: Context, units: Sequence[Unit], verdicts: dict[Unit, Verdict]) -> None:
    episodes = _starting(recipe, context, units, verdicts)
    episodes = _went_on(recipe, context, episodes, verdicts)
    episodes = _with_impact(recipe, context, episodes, verdicts)
    prepare(recipe.unless, context, _inside_and_whole(episodes))
    doubts = {e.unit: _doubts(recipe, context, e, verdicts) for e in episodes}
    episodes = [episode for episode in episodes if episode.unit not in verdicts]
    prepare((*recipe.support, *recipe.proof), context, [episode.query for episode in episodes])
    for episode in episodes:
        verdicts[episode.unit] = _matched(recipe, context, episode, doubts[episode.unit])


def _starting(recipe: Recipe, context: Context, units: Sequence[Unit], verdicts: dict[Unit, Verdict]) -> list[_Episode]:
    """The units on which the symptoms that find an episode hold together."""
    early = [condition for condition in recipe.symptoms if not condition.needs_split]
    outcomes: dict[Unit, list[Outcome]] = {}
    for unit in units:
        if recipe.roles and unit.member.role not in recipe.roles:
            against = f"{unit.name} serves as {unit.member.role}"
            verdicts[unit] = Verdict(recipe, unit, applies=False, against=against)
        else:
            outcomes[unit] = []
    for condition in early:
        going = [unit for unit in outcomes if unit not in verdicts]
        prepare([condition], context, [UnitQuery(unit, context.split, context.last) for unit in going])
        for unit in going:
            outcome = evaluate(condition, context, unit)
            if outcome.holds:
                outcomes[unit].append(outcome)
            else:
                verdicts[unit] = _stopped(recipe, unit, outcome)
    outcomes = {unit: symptoms for unit, symptoms in outcomes.items() if unit not in verdicts}
    _bring_together(early, outcomes, context)
    episodes = []
    for unit, symptoms in outcomes.items():
        leading = [o for c, o in zip(early, symptoms, strict=True) if c.leads]
        onset, last, from_start = _episode(symptoms, context, leading)
        onset = max(
            onset, context.clock.lead
        )  # a chosen baseline is baseline as a whole, whatever its last scrape shows
        if last < onset or _brief(symptoms, last, context):
            verdicts[unit] = Verdict(recipe, unit, against="its symptoms do not overlap in time")
        else:
            episodes.append(_Episode(unit, context.at(onset, last), symptoms, onset, last, from_start))
    return episodes


def _bring_together(conditions: Sequence[Condition], outcomes: Mapping[Unit, list[Outcome]], context: Context) -> None:
    """Put in the place of each level that was over before the others started the first span of it that lasts until
    then, where there is one: a cache that was full for a moment an hour ago is not what holds when the queue grows, and
    does not hide it."""
    until = {unit: max((o.first for o in all_ if o.first is not None), default=0) for unit, all_ in outcomes.items()}
    for place, level in enumerate(map(_levels, conditions)):
        over = _over([(unit, outcomes[place]) for unit, outcomes in outcomes.items()], until)
        while over and level is not None:
            prepare([level], context, [UnitQuery(unit, last + 1) for unit, last in over.items()])
            later = [(unit, evaluate(level, context.at(last + 1, None), unit)) for unit, last in over.items()]
            over = _over(later, until)
            for unit, outcome in later:
                if outcome.holds and unit not in over:
                    outcomes[unit][place] = outcome


def _levels(condition: Condition) -> Condition | None:
    """A level, or the levels among several ways to see one thing; None where there is none."""
    if isinstance(condition, AnyOf):
        levels = tuple(part for part in condition.parts if isinstance(part, Level))
        return AnyOf(parts=levels) if levels else None
    return condition if isinstance(condition, Level) else None


def _over(outcomes: Iterable[tuple[Unit, Outcome]], until: Mapping[Unit, int]) -> dict[Unit, int]:
    """The last steps of those that hold and were over before a step of their unit."""
    return {u: o.last for u, o in outcomes if o.holds and o.last is not None and o.last < until[u]}


def _went_on(
    recipe: Recipe, context: Context, episodes: list[_Episode], verdicts: dict[Unit, Verdict]
) -> list[_Episode]:
    """Those whose episode shows the symptoms that look at it, too."""
    later = [condition for condition in recipe.symptoms if condition.needs_split]
    prepare(later, context, _inside_and_whole(episodes))
    for episode in episodes:
        more, stopped = _hold(later, episode.inside, context, episode.unit)
        if stopped is not None:
            verdicts[episode.unit] = _stopped(recipe, episode.unit, stopped)
        elif any(o.first is not None and o.first > episode.last for o in more):
            verdicts[episode.unit] = Verdict(recipe, episode.unit, against="its symptoms do not overlap in time")
        episode.symptoms += more
    return [episode for episode in episodes if episode.unit not in verdicts]


def _with_impact(
    recipe: Recipe, context: Context, episodes: list[_Episode], verdicts: dict[Unit, Verdict]
) -> list[_Episode]:
    """Those in whose episode users are affected."""
    prepare((*recipe.harm, *FELT), context, _inside_and_whole(episodes))
    for episode in episodes:
        unit, inside = episode.unit, episode.inside
        required = _with_slo(recipe.harm, inside.limits(unit))
        harm = [_during(c, inside, context, unit, context.clock.least_baseline) for c in required]
        episode.harm = [o for o in harm if o.holds and not _affects_after(o, inside)]
        if not episode.harm:
            verdicts[unit] = Verdict(recipe, unit, against=f"no impact: {harm[0].text}")
        elif immaterial(episode.harm, inside, unit):
            text = f"no user feels it: {episode.harm[0].text}, and no mean moves"
            verdicts[unit] = Verdict(recipe, unit, against=text)
    return [episode for episode in episodes if episode.unit not in verdicts]


def _inside_and_whole(episodes: Iterable[_Episode]) -> list[UnitQuery]:
    """In the episodes, and from the beginning of what is seen: a move may have started before (`_during`,
    `_before`)."""
    return [query for episode in episodes for query in (episode.query, UnitQuery(episode.unit))]


def _doubts(recipe: Recipe, context: Context, episode: _Episode, verdicts: dict[Unit, Verdict]) -> list[str]:
    """What cannot be looked at, or was not looked at for long enough; a rival that holds is a verdict."""
    unit, inside = episode.unit, episode.inside
    doubts = [
        f"cannot see {', '.join(o.missing)}" for o in episode.symptoms if o.missing and _doubtful(o, context, unit)
    ]
    later = _impact_alone(episode, context)
    for condition in recipe.unless:
        past = condition.when == "before"
        outcome = _before(condition, inside, unit) if past else _during(condition, inside, context, unit)
        if later is not None and not past and not outcome.holds:
            with_impact = evaluate(condition, later, unit)
            outcome = with_impact if with_impact.holds else outcome
        if outcome.holds:
            reason = f"{condition.because or 'ruled out'}: {outcome.text}"
            verdicts[unit] = Verdict(recipe, unit, against=reason, excluded=True)
            return doubts
        if outcome.holds is None and not outcome.missing:
            doubts.append(f"unknown: {outcome.text}")
        elif outcome.holds is None and _doubtful(outcome, context, unit):
            doubts.append(f"cannot see {', '.join(outcome.missing)}")
    if recipe.kind in UNFOLDS and context.view.steps - episode.onset < context.clock.least_baseline:
        seen = (context.view.steps - episode.onset) * context.view.step_seconds
        doubts.append(f"too early: seen for {seen:g} s")
    return doubts


def _impact_alone(episode: _Episode, context: Context) -> Context | None:
    """The time of an impact that started later than a mechanism that was always there: what changed with the impact
    speaks against the mechanism. None where both started together."""
    begin = min((o.first for o in episode.harm if o.first is not None), default=0)
    if not episode.from_start or begin <= episode.onset + context.clock.least_baseline:
        return None
    return context.at(begin, episode.last)


def _matched(recipe: Recipe, context: Context, episode: _Episode, doubts: list[str]) -> Verdict:
    """The match, and how sure it is."""
    unit, inside, onset, last = episode.unit, episode.inside, episode.onset, episode.last
    support = [o for o in (evaluate(c, inside, unit) for c in recipe.support) if o.holds]
    evidence = [Evidence("symptom", o) for o in episode.symptoms]
    evidence += [Evidence("harm", o) for o in episode.harm] + [Evidence("support", o) for o in support]
    proof = [o for o in (evaluate(c, inside, unit) for c in recipe.proof) if o.holds]
    evidence += [Evidence("support", o) for o in proof]
    match = Match(recipe, unit, onset, last, episode.from_start, evidence, "likely", doubts)
    match.stands = max((o.first for o in episode.symptoms if o.first is not None), default=onset)
    provable = recipe.most_certain == "proven" and not doubts and not episode.from_start
    affected_before = provable and _affected_before(recipe, context.at(None, last), unit, onset)
    match.certainty = _certainty(recipe, match, bool(proof), inside, affected_before)
    match.stages = _stages(recipe, inside, unit)
    match.critical = recipe.critical_when is not None and bool(evaluate(recipe.critical_when, inside, unit).holds)
    return Verdict(recipe, unit, match)


def _during(condition: Condition, inside: Context, context: Context, unit: Unit, reach: int | None = None) -> Outcome:
    """A condition in an episode. A move that started before the episode is no move against the baseline that it spoils,
    so a rise or fall is also looked for from its own baseline on; reach: steps by which it may precede the episode."""
    outcome = evaluate(condition, inside, unit)
    moves = any(isinstance(leaf, Move) for leaf in leaves(condition))
    if outcome.holds is not False or condition.needs_split or not moves:
        return outcome
    earlier = evaluate(condition, context, unit)
    if earlier.first is None or earlier.last is None or inside.split is None or inside.last is None:
        return outcome
    if reach is None and condition.parts:  # a group rests on levels as well: those of long ago are not of this episode
        reach = context.clock.least_baseline
    near = reach is None or earlier.first >= inside.split - reach
    return earlier if near and earlier.first <= inside.last and earlier.last >= inside.split else outcome


def _before(condition: Condition, inside: Context, unit: Unit) -> Outcome:
    """A condition at the onset: it holds where it started before the episode and lasted until it. What started later is
    a consequence, and rules nothing out."""
    outcome = evaluate(condition, inside.at(None, inside.last), unit)
    if not outcome.holds or inside.split is None or outcome.first is None:
        return outcome
    blur = BLUR * inside.clock.window_steps
    stood = outcome.first < inside.split and (outcome.last is None or outcome.last + blur >= inside.split)
    return outcome if stood else outcome.but(holds=False, text=f"not before the onset: {outcome.text}")


def _with_slo(harm: tuple[Condition, ...], limits: dict[str, float]) -> list[Condition]:
    """A configured SLO replaces the relative test of the signals it speaks of (ttft_p99 stands for ttft_mean too)."""
    by_family = {signal.split("_")[0]: (signal, limit) for signal, limit in limits.items()}
    kept: list[Condition] = []
    for condition in harm:
        rises = isinstance(condition, Move) and condition.up
        known = by_family.get(condition.signals[0].split("_")[0]) if rises else None
        kept.append(condition if known is None else objective(*known))
    return list(dict.fromkeys(kept))


def _doubtful(outcome: Outcome, context: Context, unit: Unit) -> bool:
    """A rival that cannot be looked at is a doubt, unless its signal belongs to a feature that is off. Where prefill
    and decode run apart, something carries the KV cache over, whether it is scraped or not."""
    apart = unit.member.role in ("prefill", "decode")
    missing = [context.signals[name] for name in outcome.missing]
    return any(not signal.feature or (apart and signal.between_roles) for signal in missing)


def _hold(
    conditions: Iterable[Condition], inside: Context, context: Context, unit: Unit
) -> tuple[list[Outcome], Outcome | None]:
    """The outcomes in an episode up to the first that does not hold, and that one. An alternative may hold from its own
    baseline on: what rose little by little before the episode spoils the baseline that ends where it begins."""
    outcomes: list[Outcome] = []
    for condition in conditions:
        outcome = evaluate(condition, inside, unit)
        if not outcome.holds and isinstance(condition, AnyOf):
            alone = (_during(part, inside, context, unit) for part in condition.parts if not part.needs_split)
            outcome = next((one for one in alone if one.holds), outcome)
        if not outcome.holds:
            return outcomes, outcome
        outcomes.append(outcome)
    return outcomes, None


def _stopped(recipe: Recipe, unit: Unit, outcome: Outcome) -> Verdict:
    missing = outcome.missing if outcome.holds is None else ()
    return Verdict(recipe, unit, against=outcome.text, missing=missing)


def _episode(symptoms: list[Outcome], context: Context, leading: list[Outcome]) -> tuple[int, int, bool]:
    """Onset (the first symptom to leave its baseline), end, and whether nothing shows when it started. What comes
    before the symptoms that lead, by more than two rate windows can blur, is not of this episode."""
    known = [o for o in symptoms if o.first is not None]
    begins = [o.first for o in known if o.first is not None and not o.from_start]
    last = min((o.last for o in symptoms if o.last is not None), default=context.view.steps - 1)
    latest = max((o.first for o in known if o.first is not None), default=0)
    if latest > last:
        return latest, last, False
    led = min((o.first for o in leading if o.first is not None and not o.from_start), default=None)
    if led is not None:
        begins = [begin for begin in begins if led - begin <= 2 * context.clock.window_steps]
    if begins:
        return min(begins), last, False
    return min((o.first for o in known if o.first is not None), default=0), last, True


def _brief(symptoms: list[Outcome], last: int, context: Context) -> bool:
    """Whether the symptoms hold together for less than a deviation lasts, though the window goes on."""
    together = last + 1 - max((o.first for o in symptoms if o.first is not None), default=0)
    return together < context.clock.out_steps and last + 1 < context.view.steps


def _affected_before(recipe: Recipe, context: Context, unit: Unit, onset: int) -> bool:
    """Whether every harm that shows started before the mechanism did, by more than two rate windows can blur."""
    begins = [
        outcome.first
        for outcome in (evaluate(c, context, unit) for c in recipe.harm if not c.needs_split)
        if outcome.holds and outcome.first is not None and not outcome.from_start
    ]
    return bool(begins) and max(begins) + BLUR * context.clock.window_steps < onset


def _affects_after(harm: Outcome, context: Context) -> bool:
    """Whether a harm started only when the episode was over: a rate shows the end of a mechanism up to a window late,
    and the beginning of a harm at once."""
    return (
        harm.first is not None and context.last is not None and harm.first > context.last + context.clock.window_steps
    )


def _certainty(recipe: Recipe, match: Match, proved: bool, context: Context, affected_before: bool) -> Certainty:
    """proven: every rival was looked at, the mechanism came before the harm, and (where the recipe requires it) the
    proof is there. A stored baseline cannot show what changed between it and the window, and a handful of scrapes
    proves nothing. possible: the recipe can say no more, or an optional signal is absent."""
    level = 2
    by_stored = context.view.lead is not None and context.view.lead_kind == "stored"
    if match.doubts or match.from_start or affected_before or by_stored or context.clock.rarely_scraped:
        level = 1
    if recipe.support and not any(e.role == "support" for e in match.evidence):
        level = min(level, 1)
    if recipe.proof and not proved:
        level = min(level, 1)
    if all(e.outcome.frozen for e in match.evidence):  # an engine that is idle may still show its last gauges
        level = 0
    if any(
        context.view.get(match.unit, name) is None and not context.view.gpus(match.unit, name)
        for name in recipe.optional
    ):
        level = 0
    return CERTAINTIES[min(level, CERTAINTIES.index(recipe.most_certain))]


def _stages(recipe: Recipe, context: Context, unit: Unit) -> list[Reached]:
    """The stages whose condition holds, in their order."""
    outcomes = [(number, stage, evaluate(stage.when, context, unit)) for number, stage in enumerate(recipe.stages, 1)]
    return [Reached(number, stage.name, outcome.first) for number, stage, outcome in outcomes if outcome.holds]
