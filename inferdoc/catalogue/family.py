"""Families: what several causes have in common, and what shows it, in `diagnostics/families.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from inferdoc.catalogue.conditions import AnyOf, Condition
from inferdoc.catalogue.observation import Dictionary, Name
from inferdoc.catalogue.recipe import Phase, Step
from inferdoc.catalogue.steps import Action, StepUse, step_of


class FamilyEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A mechanism as the file has it. says: what happens, in one sentence; shown_by: any of these observations shows
    it, without telling its causes apart."""

    title: str
    says: str
    phase: Phase
    next_steps: tuple[str | StepUse, ...]
    shown_by: tuple[Name, ...] = ()


class FamilyFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`families.yaml`: mechanisms by name, from what brings about to what is brought about."""

    families: dict[str, FamilyEntry]


@dataclass(frozen=True)
class Family:
    """A mechanism. shown: what shows it, None where it is seen only in one of its causes."""

    id: str
    title: str
    says: str
    phase: Phase
    next_steps: tuple[Step, ...]
    shown: Condition | None


def family_of(name: str, entry: FamilyEntry, dictionary: Dictionary, actions: Mapping[str, Action]) -> Family:
    """The entry with its names resolved. Names are checked before (`Catalogue.problems`)."""
    parts = tuple(dictionary.condition(each) for each in entry.shown_by)
    steps = tuple(step_of(use, actions) for use in entry.next_steps)
    return Family(name, entry.title, entry.says, entry.phase, steps, AnyOf(parts) if parts else None)
