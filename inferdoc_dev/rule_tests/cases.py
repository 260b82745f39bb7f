"""The cases of the rule of a cause from raw series to the alert, from the same conditions as the rule: what fires, and
what stays short of it. The limits of its observations and how it joins them have tests of their own
(`observation_tests.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

import msgspec

from inferdoc.catalogue.conditions import (
    AllOf,
    AnyOf,
    Condition,
    Fact,
    KOf,
    Move,
    Not,
    Odd,
    OfParts,
    Witnesses,
    leaves,
)
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recipe import Recipe
from inferdoc.errors import InferdocError
from inferdoc.generate.baseline_rules import POOLED, YOUNG
from inferdoc.generate.cause_rules import harm_beyond_symptoms, is_expressible
from inferdoc.generate.recorded import Recorded, recorded
from inferdoc.judging.conditions import promql
from inferdoc.times import length_of
from inferdoc_dev.rule_tests import limits
from inferdoc_dev.rule_tests.raw_series import World
from inferdoc_dev.rule_tests.signal_values import Want, build

POOL_SIZE = 3


@dataclass(frozen=True)
class Case:
    """One pod of the test (or pool, where the cause is one of pools). name: also its namespace. affected: how many of
    the three pods of the pool are faulty; young: too little history for a usual value; role, tier: its labels;
    stranger: no engine is seen on it; gone: it vanishes when the fault would begin; restarts: its counters begin anew
    then; shown: the observation whose series the alert carries, where not the first."""

    name: str
    world: World
    fires: bool
    affected: int = 1
    young: bool = False
    role: str | None = None
    tier: str | None = None
    stranger: bool = False
    gone: bool = False
    restarts: bool = False
    shown: Fact | None = None


@lru_cache(maxsize=256)
def cases(recipe: Recipe, catalogue: Catalogue) -> tuple[Case, ...]:
    """Every case of a cause's rule. Raises InferdocError where none can be made that fires, or none that is quiet."""
    found = tuple(_Maker(recipe, catalogue).cases())
    if not any(case.fires for case in found) or all(case.fires for case in found):
        raise InferdocError(f"{recipe.id}: no test follows from its conditions")
    return found


class _Maker:
    def __init__(self, recipe: Recipe, catalogue: Catalogue) -> None:
        rendering = recorded(catalogue)
        symptoms = tuple(_rendered(condition, rendering) for condition in recipe.symptoms)
        self.recipe, self.catalogue = msgspec.structs.replace(recipe, symptoms=symptoms), catalogue
        self.harm = [c for c in harm_beyond_symptoms(recipe) if promql(c, rendering) is not None]
        own = [c for c in recipe.unless if all(leaf.scope == "own" for leaf in leaves(c))]
        self.unless = [c for c in own if is_expressible(c, rendering)]
        conditions = [*symptoms, *self.harm, *self.unless]
        self.signals = list(dict.fromkeys(name for c in conditions for name in c.signals))
        self.role = next((role for role in recipe.roles if role != "both"), None)
        self.affected = POOL_SIZE if recipe.pool_share else 1

    def cases(self) -> Iterator[Case]:
        holding = (*self.recipe.symptoms, *self.harm[:1])
        firing = list(islice(self.firing(), 1))
        yield from firing
        yield from self.short_symptoms()
        yield from islice(self.unhurt(), 1)
        ruled_out = (each for c in self.unless for each in self.made("ruled-out", self.wants(*holding, c), False))
        yield from islice(ruled_out, 1)
        world = build(self.catalogue, self.signals, self.wants(*holding))
        if world is not None:
            yield from self.of_sick(world)
        for case in firing if world is None else ():
            yield from self.of_others(case.world)

    def firing(self) -> Iterator[Case]:
        """Just beyond every limit: the factors, else the least moves, else by any margin; by the first symptoms and the
        first impact, else by others."""
        symptoms = self.recipe.symptoms
        sick = self.wants(*symptoms, *self.harm[:1])
        for wants in ([_at(want, "factor") for want in sick], [_at(want, "by") for want in sick], sick):
            yield from self.made("fires", wants, True)
        for harm in self.harm[1:]:
            wants = self.wants(*(harm if harm in _choices(c) else c for c in symptoms), harm)
            yield from self.made("fires", [_at(want) for want in wants], True)
        for symptom in symptoms:
            for other in _choices(symptom)[1:]:
                others = [part for part in _choices(symptom) if part is not other]
                felt = (other,) if other in self.harm else self.felt_beside(others)
                rest = self.wants(*(c for c in symptoms if c is not symptom), *felt)
                wants = [*_true_of(other), *rest, *(want for part in others for want in _off(part))]
                for case in self.made("fires", wants, True):
                    yield replace(case, shown=next(leaves(other)) if symptom is symptoms[0] else None)

    def unhurt(self) -> Iterator[Case]:
        """Every impact missed by a little."""
        for at in _limits_of(self.harm):
            none = [want for c in self.harm for want in next(_short_of(c, at))[1]]
            yield from self.made(
                f"no-harm-{at}", [*_all_true(self.recipe.symptoms), *self.not_ruled_out(), *none], False
            )

    def short_symptoms(self) -> Iterator[Case]:
        """Every symptom missed by a little, all others met."""
        for number, symptom in enumerate(self.recipe.symptoms, 1):
            felt = self.felt_beside(_choices(symptom))
            rest = self.wants(*(c for c in self.recipe.symptoms if c is not symptom), *felt)
            state = any(self.catalogue.signals_of_rules[name].unit == "bool" for name in symptom.signals)
            ways = (
                self.short(f"short-of-symptom-{number}", symptom, [*rest, *short])
                for label, short in _short_of(symptom)
                if not (state and label.endswith("swing"))  # what is on or off does not swing
            )
            yield from next(filter(None, ways), [])

    def short(self, name: str, symptom: Condition, wants: list[Want]) -> list[Case]:
        return list(self.alike(name, wants)) if isinstance(symptom, Odd) else self.made(name, wants, False)

    def of_sick(self, world: World) -> Iterator[Case]:
        """The faulty state where it must not count: in the other role, without history, on one pod of a pool; and
        that of others."""
        if self.role:
            other = "prefill" if self.role == "decode" else "decode"
            yield Case(f"is-{other}", world, False, self.affected, role=other)
        if self._peers_decide(world):
            yield Case("young-among-peers", world, True, self.affected, young=True, role=self.role)
        elif self._relative():
            yield Case("too-young", world, False, self.affected, young=True, role=self.role)
        if self.recipe.pool_share:
            yield Case("one-of-three", world, False, 1, role=self.role)
        yield from self.of_others(world)

    def of_others(self, world: World) -> Iterator[Case]:
        """The faulty state gone, and the healthy one whose counters restart."""
        yield Case("gone", world, False, self.affected, role=self.role, gone=True)
        yield Case("restarts", _without_fault(world), False, self.affected, role=self.role, restarts=True)

    def wants(self, *holding: Condition) -> list[Want]:
        """These conditions hold; of harm and of what rules out, everything else does not."""
        others = [c for c in self.harm if c not in holding]
        none = [want for c in others for want in _off(c)]
        return [*_all_true(holding), *none, *self.not_ruled_out(*holding)]

    def felt_beside(self, off: Iterable[Condition]) -> tuple[Condition, ...]:
        """The first harm that is none of what must not hold: a cause may be recognised by what it does."""
        return next(((harm,) for harm in self.harm if harm not in off), ())

    def not_ruled_out(self, *holding: Condition) -> list[Want]:
        return [want for c in self.unless if c not in holding for want in _off(c)]

    def made(self, name: str, wants: list[Want], fires: bool) -> list[Case]:
        """The case, where some course of the signals gives it: limits on one signal may exclude each other."""
        world = build(self.catalogue, self.signals, list(dict.fromkeys(wants)))
        return [] if world is None else [Case(name, world, fires, self.affected, role=self.role)]

    def alike(self, name: str, wants: list[Want]) -> Iterator[Case]:
        """The case of a pod that must not stand out: where it has to change as well, the whole pool changes with it."""
        alone = self.made(name, wants, False)
        world = (
            None if alone else build(self.catalogue, self.signals, self.wants(*self.recipe.symptoms, *self.harm[:1]))
        )
        yield from alone
        if world is not None:
            yield Case(name, world, False, POOL_SIZE, role=self.role)

    def _relative(self) -> bool:
        """Whether nothing can fire without a usual value."""

        def needs(condition: Condition) -> bool:
            parts = list(leaves(condition))
            relative = [isinstance(part, Move) for part in parts]
            return all(relative) if isinstance(condition, AnyOf) else any(relative)

        relative = any(needs(c) for c in self.recipe.symptoms) or bool(self.harm and all(needs(c) for c in self.harm))
        return relative and not self._stood_in()

    def _peers_decide(self, world: World) -> bool:
        """Whether the other pods of the pool, which are well, show what is usual of all that has to get worse until the
        alert comes up: a short past of its own, half of it healthy, stands in between later."""
        holding = _all_true((*self.recipe.symptoms, *self.harm[:1]))
        moves = [want.condition for want in holding if isinstance(want.condition, Move)]
        signals, figures = self.catalogue.signals_of_rules, self.catalogue.tiers.stand_ins
        worse = all(signals[m.signal].harm == ("up" if m.up else "down") for m in moves)
        alike = all(signals[m.signal].level in POOLED for m in moves)
        known = [m.signal for m in moves if m.signal in figures]
        well = all(world.value(name, "healthy") <= figures[name].value for name in known)
        soon = self.recipe.alert is not None and length_of(self.recipe.alert.for_) <= length_of(YOUNG[1])
        return bool(moves) and worse and alike and well and soon and self.affected == 1 and has_pool(self.recipe)

    def _stood_in(self) -> bool:
        """Whether something stands in for a usual value that nobody recorded."""
        parts = [part for c in (*self.recipe.symptoms, *self.harm) for part in leaves(c)]
        return any(isinstance(part, Move) and part.signal in self.catalogue.tiers.stand_ins for part in parts)


def has_pool(recipe: Recipe) -> bool:
    """Whether a test of the cause needs the pods beside the faulty one."""
    return bool(recipe.pool_share) or any(isinstance(fact, Odd) for fact in facts_of(recipe))


def facts_of(recipe: Recipe) -> list[Fact]:
    """Everything that a cause looks at."""
    return [leaf for condition in (*recipe.symptoms, *recipe.harm, *recipe.unless) for leaf in leaves(condition)]


def _without_fault(world: World) -> World:
    """The world without its fault."""
    raw = {key: replace(each, fault=each.healthy, ramp=0.0) for key, each in world.raw.items()}
    return World(world.catalogue, raw)


def _rendered(condition: Condition, rendering: Recorded) -> Condition:
    """A condition without the alternatives that its rule leaves out, because PromQL cannot say them."""
    if not isinstance(condition, AnyOf):
        return condition
    kept = tuple(_rendered(part, rendering) for part in condition.parts if promql(part, rendering) is not None)
    return msgspec.structs.replace(condition, parts=kept)


def _choices(condition: Condition) -> tuple[Condition, ...]:
    """The alternatives of a condition, itself where it has none."""
    return condition.parts if isinstance(condition, AnyOf) else (condition,)


def _at(want: Want, limit: str | None = None) -> Want:
    """A want brought close to its limit, where it is to hold; limit: which of its limits decides."""
    return replace(want, at=limit, near=True) if want.holds else want


def _limits_of(conditions: Iterable[Condition]) -> list[str]:
    """The kinds of limits that some conditions have."""
    return list(dict.fromkeys(name for c in conditions for leaf in leaves(c) for name in limits.names(leaf)))


def _all_true(conditions: Iterable[Condition]) -> list[Want]:
    return [want for condition in conditions for want in _true_of(condition)]


def _true_of(condition: Condition) -> list[Want]:
    """What makes a condition hold: all of `all`, the first of `any`."""
    match condition:
        case Not():
            return _off(condition.part)
        case AnyOf():
            return _true_of(condition.parts[0])
        case OfParts():
            return _all_true(condition.parts)
    return [Want(condition, True)]


def _off(condition: Condition) -> list[Want]:
    """What makes a condition fail, no matter by how much."""
    if isinstance(condition, Not):
        return _true_of(condition.part)
    if not isinstance(condition, OfParts):
        return [Want(condition, False)]
    parts = condition.parts if isinstance(condition, AnyOf | KOf) else condition.parts[:1]
    return [want for part in parts for want in _off(part)]


def _short_of(condition: Condition, at: str | None = None) -> Iterator[tuple[str, list[Want]]]:
    """Ways in which a condition is just not met, each with a label: one of `all` short, every one of `any`. All
    witnesses are visible to a rule.

    at: the limit to be missed, where the condition has it.
    """
    if isinstance(condition, Not):
        yield "not", _true_of(condition.part)
    elif isinstance(condition, AllOf | Witnesses):
        for number, part in enumerate(condition.parts, 1):
            rest = [want for other in condition.parts if other is not part for want in _true_of(other)]
            for label, short in _short_of(part, at):
                yield f"{number}-{label}", [*rest, *short]
    elif isinstance(condition, AnyOf | KOf):
        for which in [at] if at else _limits_of(condition.parts):
            yield str(which), [want for part in condition.parts for want in next(_short_of(part, which))[1]]
    else:
        known = limits.names(condition)
        for which in [at] if at in known else known:
            yield str(which), [Want(condition, False, which, near=True)]
