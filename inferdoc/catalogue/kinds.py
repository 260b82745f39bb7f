"""How the kinds of conditions stand in YAML: the key that names the kind, what its value means, and the other keys that
the kind reads. All of it follows from the classes of `conditions.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from msgspec import structs

from inferdoc.catalogue.conditions import (
    AllOf,
    AnyOf,
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
    Slope,
    Stall,
    Turns,
    Witnesses,
)

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
