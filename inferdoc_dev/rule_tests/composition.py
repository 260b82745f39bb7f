"""How rules put observations together, as cases: which of the records that a rule joins are there, and whether it holds
then. The records are given as they stand, so that every case can be made, whatever raw series would take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, product
from math import ceil

import msgspec

from inferdoc.catalogue.conditions import (
    AllOf,
    AnyOf,
    Condition,
    Fact,
    KOf,
    Level,
    Move,
    Not,
    OfParts,
    Witnesses,
    leaves,
)
from inferdoc.catalogue.recipe import Recipe
from inferdoc.catalogue.signal import WIDE
from inferdoc.generate.cause_rules import first_leaf, harm_beyond_symptoms, is_expressible
from inferdoc.generate.promtool import NAME
from inferdoc.generate.recorded import Recorded
from inferdoc.judging.conditions import promql
from inferdoc.judging.conditions.render import JOIN, Expression

MOST_PODS, BASES_TRIED, MOST_BARS = 12, 500, 6


@dataclass(frozen=True)
class Given:
    """A case: the records that are there, on each pod of a pool. holds: on how many pods the rule then holds, or 1
    where it is about no pod and holds; role: of the pods."""

    name: str
    pods: tuple[frozenset[str], ...]
    holds: int
    role: str | None = None


@dataclass(frozen=True)
class Composition:
    """What is recorded of conditions. records: the names under which anything is."""

    rendering: Recorded
    records: Collection[str]
    _names: dict[Condition, str | None] = field(default_factory=dict)
    _in_promql: dict[Condition, Expression | None] = field(default_factory=dict)

    def name(self, condition: Condition) -> str | None:
        """The record of a condition; None where it has none of its own."""
        if condition not in self._names:
            expression = self.in_promql(condition)
            text = "" if expression is None else expression.text
            self._names[condition] = text if NAME.fullmatch(text) and text in self.records else None
        return self._names[condition]

    def holds(self, condition: Condition, there: Collection[str]) -> bool:
        """Whether a condition holds on a pod of no role, alone, of which these records are there."""
        name = self.name(condition)
        if name is not None and name in there:
            return True
        match condition:
            case Not():
                return not self.holds(condition.part, there)
            case AnyOf():
                return any(self.holds(part, there) for part in condition.parts if self.is_rendered(part))
            case Witnesses() if not _barred(condition):
                return self.witnessed(condition, there)
            case AllOf() if condition.only_denies:
                visible = all(self.seen(part) in there for part in condition.parts)
                return visible and not any(self.bars(part.part, condition, there) for part in _denied(condition))
            case AllOf() | Witnesses():
                rendered = [part for part in condition.parts if self.is_rendered(part)]
                barred = any(self.bars(part.part, condition, there) for part in rendered if isinstance(part, Not))
                return not barred and all(self.holds(part, there) for part in rendered if not isinstance(part, Not))
            case KOf():
                return False
        if condition.scope == "pool" or self.rendering.level(condition.signal) in WIDE:
            return condition.scope != "own" and self.holds(msgspec.structs.replace(condition, scope="own"), there)
        return False

    def by(self, condition: Condition) -> tuple[str, ...]:
        """The labels on which a condition may be joined."""
        expression = self.in_promql(condition)
        return () if expression is None else expression.by

    def is_rendered(self, condition: Condition) -> bool:
        return self.in_promql(condition.part if isinstance(condition, Not) else condition) is not None

    def in_promql(self, condition: Condition) -> Expression | None:
        """A condition as PromQL; None where PromQL cannot say it."""
        if condition not in self._in_promql:
            self._in_promql[condition] = promql(condition, self.rendering)
        return self._in_promql[condition]

    def bars(self, condition: Condition, among: OfParts, there: Collection[str]) -> bool:
        """Whether a condition that must not hold stops a rule: of a move, also if nothing shows what is usual."""
        if self.holds(condition, there):
            return True
        now, usual = self.past(condition, among)
        return now in there and bool(usual) and usual not in there

    def past(self, condition: Condition, among: OfParts) -> tuple[str, str]:
        """What is recorded of the signal of a move, now and as usual, where the one without the other bars a rule about
        as much as it distinguishes. A usual value that a figure stands for is there with the signal, and is called
        ""."""
        if not isinstance(condition, Move) or condition.scope != "own":
            return "", ""
        telling = among.parts if among.only_denies else [part for part in among.parts if not isinstance(part, Not)]
        apart = {label for part in telling for label in self.by(part.part if isinstance(part, Not) else part)}
        if not set(JOIN[self.rendering.level(condition.signal)]) <= apart:
            return "", ""
        now, usual = self.now(condition.signal), self.usual(condition.signal)
        if not now or not usual:
            return "", ""
        return now, self.past_of_its_own(condition.signal)

    def now(self, signal: str) -> str:
        """The record of a signal as it is; "" where it has none."""
        name = self.rendering.signal(signal)
        return name if name is not None and name in self.records else ""

    def usual(self, signal: str) -> str:
        """The record of what is usual for a signal; "" where it has none."""
        name = self.rendering.usual(signal)
        return name if name is not None and name in self.records else ""

    def past_of_its_own(self, signal: str) -> str:
        """The record of what is usual for a signal, where it is not there with the signal itself."""
        return "" if signal in self.rendering.tiers.stand_ins else self.usual(signal)

    def seen(self, condition: Condition) -> str:
        """The record that shows that a witness can be evaluated; "" where there is none."""
        return self.now(next(leaves(condition)).signal)

    def witnessed(self, condition: Witnesses, there: Collection[str]) -> bool:
        rendered = [part for part in condition.parts if self.is_rendered(part)]
        against = [part for part in rendered if self.seen(part) in there and not self.holds(part, there)]
        return any(self.holds(part, there) for part in rendered) and (not against or len(rendered) == 1)

    def healthy(self, record: str) -> float:
        """A value of a signal for which nothing recorded of it holds by itself; 1 for all other records."""
        return self._healthy_values.get(record, 1.0)

    @cached_property
    def _healthy_values(self) -> dict[str, float]:
        rendering, found = self.rendering, dict[str, float]()
        facts = [fact for fact in rendering.observed if isinstance(fact, Level) and self.name(fact)]
        for signal in dict.fromkeys(fact.signal for c in rendering.observed for fact in leaves(c)):
            name = self.now(signal)
            if name:
                own = [fact for fact in facts if self.now(fact.signal) == name]
                figure = rendering.tiers.stand_ins.get(signal)
                tried = (
                    [figure.value]
                    if figure
                    else [0.0, 1.0, *(side * self.limit(f) for f in own for side in (0.9, 1.1))]
                )
                healthy = (v for v in tried if not any(v > self.limit(f) if f.up else v < self.limit(f) for f in own))
                found[name] = found[self.usual(signal) or name] = next(healthy, 0.0)
        return found

    def limit(self, fact: Level) -> float:
        return self.rendering.tiers.thresholds[fact.limit].value if isinstance(fact.limit, str) else fact.limit

    # ---- cases ---------------------------------------------------------------------------------------------------

    def of_observation(self, condition: Condition) -> Iterator[Given]:
        """Cases of an observation that is made of others, or concerns other pods."""
        if not isinstance(condition, OfParts):
            yield from self.of_others(condition)
            return
        for name, there in self.ways(condition):
            yield Given(name, (frozenset(there),), int(self.holds(condition, there)))

    def ways(self, condition: OfParts) -> Iterator[tuple[str, set[str]]]:
        """All parts, all but one, one of several, and each that bars it."""
        parts = [part for part in condition.parts if self.is_rendered(part)]
        plain = [part for part in parts if not isinstance(part, Not)]
        names = [name for name in map(self.name, plain) if name]
        yield "none", set()
        if isinstance(condition, AllOf) and condition.only_denies:
            yield from self.denied(condition)
            return
        if isinstance(condition, AllOf) or _barred(condition):
            yield "all", set(names)
            for number, name in enumerate(names, 1):
                yield f"without-{number}", set(names) - {name}
            for number, part in enumerate((part.part for part in parts if isinstance(part, Not)), 1):
                barred, (now, usual) = self.name(part), self.past(part, condition)
                if barred:
                    yield f"barred-{number}", {*names, barred}
                if now and usual:
                    yield f"barred-{number}-without-a-past", {*names, now}
                if now:
                    yield f"not-barred-{number}", {*names, now, *filter(None, [usual])}
            return
        for number, name in enumerate(names, 1):
            yield f"only-{number}", {name}
        if isinstance(condition, Witnesses):
            seen = [name for name in map(self.seen, plain) if name]
            yield "all-seen", {*names, *seen}
            for number, name in enumerate(names, 1):
                yield f"only-{number}-of-those-seen", {name, *seen}

    def denied(self, condition: AllOf) -> Iterator[tuple[str, set[str]]]:
        """All of what must not be there can be evaluated: with nothing of it, with each of it, with one that cannot."""
        denied = [part.part for part in _denied(condition)]
        telling = [{self.seen(part), *(self.past_of_its_own(leaf.signal) for leaf in leaves(part))} for part in denied]
        yield "all-known", set().union(*telling) - {""}
        for number, part in enumerate(denied, 1):
            barred = self.name(part)
            if barred:
                yield f"barred-{number}", set().union(*telling, {barred}) - {""}
            others = [each for place, each in enumerate(telling, 1) if place != number]
            yield f"untold-{number}", set().union(*others) - {""}

    def of_others(self, condition: Fact) -> Iterator[Given]:
        """So many pods of a pool show it; it holds for as many as have others that do."""
        own = self.name(msgspec.structs.replace(condition, scope="own"))
        if own is None:
            return
        rest = frozenset(filter(None, [self.now(condition.signal)]))
        there = rest | {own}
        if self.rendering.level(condition.signal) in WIDE:
            yield from (Given("there", (there,), 1), Given("not-there", (rest,), 0))
            return
        if condition.scope in ("prefill", "decode"):
            for role in ("prefill", "decode"):
                yield Given(f"on-{role}", (there, rest), int(role == condition.scope), role)
            return
        for of in (1, 3, 4, 5):
            for number in range(min(of, 3) + 1):
                pods = (there,) * number + (rest,) * (of - number)
                yield Given(f"on-{number}-of-{of}", pods, _true_for(condition, number, of))

    def of_cause(self, recipe: Recipe) -> Iterator[Given]:
        """Cases of the rule of a cause: every alternative of every symptom and every impact alone, one of them missing,
        and everything that rules it out."""
        cause = _Cause(recipe, self)
        base = cause.base
        yield cause.given("fires", base)
        if not cause.given("", base).holds:
            return
        for number, choices in enumerate(cause.needed, 1):
            for place, choice in enumerate(choices, 1):
                there = cause.quiet((base - set(choices)) | {choice})
                if choice not in base and there:
                    yield cause.given(f"fires-by-{number}-{place}", there)
            yield cause.given(f"without-{number}", base - set(choices))
        for number, name in enumerate(cause.exclusions, 1):
            yield cause.given(f"ruled-out-{number}", base | {name})
        if cause.other_role:
            yield Given(f"is-{cause.other_role}", cause.given("", base).pods, 0, cause.other_role)
        if recipe.pool_share:
            for name, number, of in _shares(recipe.pool_share):
                pods = (frozenset(base | cause.counted),) * number + (frozenset(cause.counted),) * (of - number)
                yield Given(name, pods, int(number >= recipe.pool_share * of and bool(cause.given("", base).holds)))


@dataclass(frozen=True)
class _Cause:
    recipe: Recipe
    among: Composition

    @cached_property
    def needed(self) -> list[list[str]]:
        """For every symptom, and for the impact, the records of which one must be there."""
        found = [self.names(condition) for condition in self.recipe.symptoms]
        impacts = [name for condition in harm_beyond_symptoms(self.recipe) for name in self.names(condition)]
        return [names for names in (*found, impacts) if names]

    def names(self, condition: Condition) -> list[str]:
        name = self.among.name(condition)
        parts = condition.parts if name is None and isinstance(condition, AnyOf) else ()
        return [name] if name else [each for part in parts for each in self.names(part)]

    @cached_property
    def base(self) -> set[str]:
        """One record for each need, with what keeps off what would rule the cause out because of them."""
        tried = islice(product(*self.needed), BASES_TRIED)
        first = {names[0] for names in self.needed}
        return next(filter(None, (self.quiet(set(chosen)) for chosen in tried)), first)

    def quiet(self, there: set[str], deep: int = MOST_BARS) -> set[str] | None:
        """These records and as few more as it takes for nothing that follows from them to rule the cause out."""
        out = [c for c in self.barriers if self.among.holds(c, there)]
        if not out or not deep:
            return there if not out and self.fires(there) else None
        for name in self.barring(out[0]):
            more = {*there, name}
            if name not in there and not self.among.holds(out[0], more):
                found = self.quiet(more, deep - 1)
                if found is not None:
                    return found
        return None

    def barring(self, condition: Condition) -> Iterator[str]:
        """Records that keep a condition from holding."""
        for part in condition.parts:
            name = self.among.name(part.part) if isinstance(part, Not) else None
            yield from [name] if name else self.barring(part)

    @cached_property
    def barriers(self) -> list[Condition]:
        """What rules the cause out, as far as its rule says so."""
        return [c for c in self.recipe.unless if is_expressible(c, self.among.rendering)]

    @cached_property
    def exclusions(self) -> list[str]:
        return list(dict.fromkeys(name for name in map(self.among.name, self.barriers) if name))

    @property
    def other_role(self) -> str | None:
        others = sorted({"prefill", "decode"} - set(self.recipe.roles))
        return others[0] if len(others) == 1 else None

    @cached_property
    def counted(self) -> set[str]:
        """What says how many pods there are, if a rule requires a share of them."""
        now = self.among.now(first_leaf(self.recipe).signal) if self.recipe.pool_share else ""
        return {now} if now else set()

    def given(self, name: str, there: Iterable[str]) -> Given:
        known = {*there, *self.counted}
        return Given(name, (frozenset(known),), int(self.fires(known)))

    def fires(self, there: Collection[str]) -> bool:
        among = self.among
        harm = [c for c in harm_beyond_symptoms(self.recipe) if among.is_rendered(c)]
        felt = not harm or any(among.holds(c, there) for c in harm)
        out = any(among.holds(c, there) for c in self.barriers)
        return all(among.holds(c, there) for c in self.recipe.symptoms) and felt and not out


def _denied(condition: OfParts) -> list[Not]:
    return [part for part in condition.parts if isinstance(part, Not)]


def _barred(condition: OfParts) -> bool:
    """Whether something must not hold beside others: witnesses are then an `all`."""
    return isinstance(condition, AllOf | Witnesses) and any(isinstance(part, Not) for part in condition.parts)


def _true_for(condition: Fact, number: int, of: int) -> int:
    """For how many pods of a pool a fact about the others holds, where so many show it."""
    if condition.scope == "pool":
        return int(number > 0)
    least = 1.0 if condition.scope == "peers" else 0.5 * (of - 1)
    if of == 1:
        return 0
    return (number if number - 1 >= least else 0) + (of - number if number and number >= least else 0)


def _shares(share: float) -> Iterator[tuple[str, int, int]]:
    """Just enough pods of a pool and one less: so many that half of the share, or twice, would give another result."""
    for of in range(2, MOST_PODS):
        enough = ceil(share * of - 1e-9)
        if enough - 1 >= share / 2 * of and enough < 2 * share * of:
            yield "enough-pods", enough, of
            yield "too-few-pods", enough - 1, of
            return
