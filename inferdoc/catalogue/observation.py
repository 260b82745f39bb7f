"""The dictionary: facts about a unit, each declared once, by name, in `observations.yaml`.

Recipes name observations; the numbers stand here, with the reason. A fact made of others (`all`, `any`, `not`) is an
observation too. `Dictionary` turns names into the conditions that the judge evaluates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
from msgspec import structs

from inferdoc.catalogue.conditions import (
    AllOf,
    AnyOf,
    Condition,
    ConditionBase,
    Fact,
    Follow,
    Level,
    Move,
    Not,
    Odd,
    OfSignal,
    Presence,
    Reaches,
    Scope,
    Slope,
    Stall,
    Turns,
    Witnesses,
)
from inferdoc.catalogue.document import Steps, nearest

SIGNAL = "signal"
"""The key that says which signal a fact is about."""


def in_yaml(name: str) -> str:
    """A field as its key stands in YAML."""
    return name.removesuffix("_")


def _fields(kind: type[ConditionBase]) -> dict[str, structs.FieldInfo]:
    return {info.name: info for info in structs.fields(kind)}


@dataclass(frozen=True)
class Kind:
    """A kind of fact as its key names it. value: the field that the key's value fills (None: the value is `true` and
    says no more); sets: fields that the key itself decides."""

    of: type[Fact]
    value: str | None = None
    sets: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def value_type(self) -> Any:
        """The type of the key's value."""
        return bool if self.value is None else _fields(self.of)[self.value].type

    @cached_property
    def options(self) -> dict[str, structs.FieldInfo]:
        """The other keys that the kind reads beside its signal, with the fields that they fill."""
        decided = {SIGNAL, self.value, *self.sets, *_fields(OfSignal)}
        return {in_yaml(name): info for name, info in _fields(self.of).items() if name not in decided}


KINDS: dict[str, Kind] = {
    "above": Kind(Level, "limit", {"up": True}),
    "below": Kind(Level, "limit", {"up": False}),
    "rises": Kind(Move, "ratio", {"up": True}),
    "falls": Kind(Move, "ratio", {"up": False}),
    "slope": Kind(Slope, "per_second"),
    "reaches": Kind(Reaches, "limit"),
    "stalls": Kind(Stall, "work"),
    "differs": Kind(Odd, "factor"),
    "follows": Kind(Follow, "leader"),
    "turns": Kind(Turns, "times"),
    "present": Kind(Presence, None, {"there": True}),
    "absent": Kind(Presence, None, {"there": False}),
}
"""Kinds of facts by their key."""
SEVERAL: dict[str, type[AllOf | AnyOf | Witnesses]] = {kind.word: kind for kind in (AllOf, AnyOf, Witnesses)}
"""Kinds that are made of several other observations, by their key."""
GROUPS = (*SEVERAL, Not.word)
"""The keys of all kinds that are made of others."""
LIMITS = tuple(key for key, kind in KINDS.items() if kind.value == "limit")
"""Keys whose value is a number or a named limit."""
OTHER_SIGNALS = tuple(key for key, kind in KINDS.items() if kind.value_type is str)
"""Keys whose value is another signal."""
OPTIONS: dict[str, Any] = {name: info.type for kind in KINDS.values() for name, info in kind.options.items()}
"""The keys that some kind reads beside its own, with their types."""


def fact_of(given: Mapping[str, Any]) -> Fact:
    """The fact that the keys of an observation say: one kind, its signal, and what it reads besides."""
    (key,) = given.keys() & KINDS.keys()
    kind = KINDS[key]
    value = {} if kind.value is None else {kind.value: given[key]}
    options = {info.name: given[name] for name, info in kind.options.items() if name in given}
    return kind.of(signal=given[SIGNAL], **value, **kind.sets, **options)


def kinds_with(option: str) -> list[str]:
    """The kinds that read a key."""
    return [key for key, kind in KINDS.items() if option in kind.options]


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


_Keys = msgspec.defstruct(
    "Kind",
    [
        (SIGNAL, str | None, None),
        *((key, kind.value_type | None, None) for key, kind in KINDS.items()),
        *((key, option | None, None) for key, option in OPTIONS.items()),
        *((key, tuple[Name, ...] | None, None) for key in SEVERAL),
        (Not.word, Name | None, None),
    ],
    frozen=True,
    forbid_unknown_fields=True,
)
"""The keys of all kinds, each optional: which of them go together says the kind."""


class Observation(_Keys):  # type: ignore[misc, valid-type]  # its fields are known when this module is loaded
    """A fact about a unit. Of one signal: exactly one kind with its number or named limit (`kinds.KINDS`); or made of
    others by name: all, any, witnesses (of those that are visible, all), not.

    outside: it is of what arrives, or of what somebody set, so that nothing in the fleet brings it about.
    says: the fact as a sentence, where the name does not read like one; it is printed if the fact rules a cause out.
    because: why this number and no other. source: where the number stands, if it is not a choice of ours.
    """

    outside: bool = False
    says: str | None = None
    because: str | None = None
    source: str | None = None

    @property
    def given(self) -> dict[str, Any]:
        """What is set of the keys of its kind, as in YAML."""
        keys = {key: getattr(self, key) for key in _Keys.__struct_fields__}
        return {key: value for key, value in keys.items() if value is not None}

    @property
    def group(self) -> str | None:
        """The key that makes it of others; None where it is of a signal."""
        return next((key for key in GROUPS if getattr(self, key) is not None), None)

    @property
    def parts(self) -> tuple[Name, ...]:
        """The observations that it is made of; empty for one of a signal."""
        names = () if self.group is None else getattr(self, self.group)
        return names if isinstance(names, tuple) else (names,)


ABOUT = tuple(field for field in Observation.__struct_fields__ if field not in _Keys.__struct_fields__)
"""The keys of an observation of any kind, which are not of the fact but about it."""


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
        condition = self.condition(str(name.observation or name.not_))
        condition = _among(condition, name.among)
        if name.not_ is not None:
            condition = Not(condition)
        return structs.replace(condition, leads=True) if name.leads else condition

    def says(self, name: Name) -> str:
        """The fact in words."""
        if not isinstance(name, str):
            sentence = self.says(str(name.observation or name.not_))
            return sentence if name.not_ is None else f"not: {sentence}"
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
        made of, without what must not hold, what concerns other units, and what comes from outside."""
        if not isinstance(name, str):
            return self.own_facts(name.observation) if name.observation and name.among == "own" else set()
        observation = self.observations[name]
        if observation.outside:
            return set()
        parts = () if observation.group == Not.word else observation.parts
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
        if observation.group is None:
            return fact_of(observation.given)
        parts = tuple(self.condition(part) for part in observation.parts)
        return Not(*parts) if observation.group == Not.word else SEVERAL[observation.group](parts)


def _among(condition: Condition, scope: Scope) -> Condition:
    """The same fact of other units; of one made of others, each part of them."""
    if scope == "own":
        return condition
    if isinstance(condition, OfSignal):
        return structs.replace(condition, scope=scope) if condition.scope == "own" else condition
    if isinstance(condition, Not):
        return structs.replace(condition, part=_among(condition.part, scope))
    return structs.replace(condition, parts=tuple(_among(part, scope) for part in condition.parts))
