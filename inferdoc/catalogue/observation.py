"""The dictionary: facts about a unit, each declared once, by name, in `observations.yaml`.

Recipes name observations; the numbers stand here, with the reason. A fact made of others (`all`, `any`, `not`) is an
observation too. `Dictionary` turns names into the conditions that the judge evaluates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec
from msgspec import structs

from inferdoc.catalogue.document import Steps, nearest
from inferdoc.catalogue.recipe import Condition, Scope


class Use(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True, rename={"not_": "not"}):
    """An observation by name, where the name alone does not say all. on: whose, where not the unit's own (pool, peers,
    prefill, decode: any of them; most: at least half of the peers). leads: the episode begins with it, whatever the
    others did before. not: instead of `observation`, this one does not hold."""

    observation: str | None = None
    not_: str | None = None
    among: Scope = "own"
    leads: bool = False


Name = str | Use
"""An observation by its name, or by its name and more."""


class Observation(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename={"for_": "for", "not_": "not"}):
    """A fact about a unit. Of one signal: exactly one kind with its number or named limit, as in `Condition`; or made
    of others by name: all, any, witnesses (of those that are visible, all), not.

    outside: it is of what arrives, or of what somebody set, so that nothing in the fleet brings it about.
    says: the fact as a sentence, where the name does not read like one; it is said where the fact rules a cause out.
    because: why this number and no other. source: where the number stands, if it is not a choice of ours.
    """

    signal: str | None = None
    above: float | str | None = None
    below: float | str | None = None
    rises: float | None = None
    falls: float | None = None
    slope: float | None = None
    reaches: float | str | None = None
    within: str | None = None
    stalls: str | None = None
    differs: float | None = None
    follows: str | None = None
    turns: int | None = None
    present: bool | None = None
    absent: bool | None = None
    by: float | None = None
    for_: str | None = None
    share_of: float | None = None
    average: bool = False
    all: tuple[Name, ...] | None = None
    any: tuple[Name, ...] | None = None
    witnesses: tuple[Name, ...] | None = None
    not_: Name | None = None
    outside: bool = False
    says: str | None = None
    because: str | None = None
    source: str | None = None

    @property
    def parts(self) -> tuple[Name, ...]:
        """The observations that it is made of; empty for one of a signal."""
        negated = () if self.not_ is None else (self.not_,)
        return (*(self.all or ()), *(self.any or ()), *(self.witnesses or ()), *negated)


PLAIN = tuple(
    field.name
    for field in structs.fields(Observation)
    if field.name not in ("all", "any", "witnesses", "not_", "outside", "says", "because", "source")
)


class ObservationFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`observations.yaml`: observations by name."""

    observations: dict[str, Observation]


class Dictionary:
    """Observations by name, as conditions."""

    def __init__(self, observations: Mapping[str, Observation]) -> None:
        self.observations = observations
        self._conditions: dict[str, Condition] = {}

    def condition(self, name: Name) -> Condition:
        """The condition that a name stands for. Raises KeyError for an unknown name (`problems` says it better)."""
        if isinstance(name, str):
            if name not in self._conditions:
                self._conditions[name] = self._built(self.observations[name])
            return self._conditions[name]
        held = self.condition(str(name.observation or name.not_))
        held = _among(held, name.among)
        if name.not_ is not None:
            held = Condition(not_=held)
        return structs.replace(held, leads=True) if name.leads else held

    def says(self, name: Name) -> str:
        """The fact in words."""
        if not isinstance(name, str):
            said = self.says(str(name.observation or name.not_))
            return said if name.not_ is None else f"not: {said}"
        return self.observations[name].says or name.replace("_", " ")

    def problems(self, name: Name, at: Steps) -> Iterator[tuple[Steps, str]]:
        """What is wrong with a name where it is used: unknown, or neither of `observation` and `not` given."""
        if not isinstance(name, str):
            if (name.observation is None) == (name.not_ is None):
                yield at, "expected either `observation` or `not`"
                return
            key = "observation" if name.observation is not None else "not"
            at, name = (*at, key), str(name.observation or name.not_)
        if name not in self.observations:
            yield at, f'no such observation "{name}"{nearest(name, self.observations)}'

    def own_facts(self, name: Name) -> set[str]:
        """The facts that a name asserts of the unit itself and that a cause may bring about: it and those that it is
        made of, without what must not hold, what is asked of other units, and what comes from outside."""
        if not isinstance(name, str):
            return self.own_facts(name.observation) if name.observation and name.among == "own" else set()
        observation = self.observations[name]
        if observation.outside:
            return set()
        parts = () if observation.not_ is not None else observation.parts
        return {name, *(fact for part in parts for fact in self.own_facts(part))}

    def circle(self, name: str, above: Collection[str] = ()) -> str | None:
        """The first observation under a name that is made of itself, or None."""
        if name in above:
            return name
        observation = self.observations.get(name)
        parts = () if observation is None else observation.parts
        names = (part if isinstance(part, str) else str(part.observation or part.not_) for part in parts)
        return next((round_ for part in names if (round_ := self.circle(part, (*above, name)))), None)

    def _built(self, observation: Observation) -> Condition:
        if not observation.parts:
            return Condition(**{key: getattr(observation, key) for key in PLAIN})
        if observation.not_ is not None:
            return Condition(not_=self.condition(observation.not_))
        parts = tuple(self.condition(part) for part in observation.parts)
        if observation.witnesses is not None:
            return Condition(witnesses=parts)
        return Condition(any=parts) if observation.all is None else Condition(all=parts)


def _among(condition: Condition, scope: Scope) -> Condition:
    """The same fact of other units; of one made of others, each part of them."""
    if scope == "own":
        return condition
    if not condition.parts:
        return structs.replace(condition, scope=scope) if condition.scope == "own" else condition
    return structs.replace(
        condition,
        all=None if condition.all is None else tuple(_among(part, scope) for part in condition.all),
        any=None if condition.any is None else tuple(_among(part, scope) for part in condition.any),
        witnesses=None if condition.witnesses is None else tuple(_among(part, scope) for part in condition.witnesses),
        of=None if condition.of is None else tuple(_among(part, scope) for part in condition.of),
        not_=None if condition.not_ is None else _among(condition.not_, scope),
    )
