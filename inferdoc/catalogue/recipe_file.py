"""What a cause looks like in its file: names of observations and of causes, no numbers. `resolved` makes the recipe of
it that the judge evaluates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import structs

from inferdoc.catalogue.conditions import AllOf, AnyOf, Condition, KOf, Scope, When
from inferdoc.catalogue.observation import Dictionary, Name, Observation, Use
from inferdoc.catalogue.recipe import (
    Action,
    Alert,
    Certainty,
    Kind,
    Phase,
    Rank,
    Recipe,
    Role,
    ScopeLevel,
    Severity,
    Stage,
    Step,
    StepUse,
    step_of,
)
from inferdoc.catalogue.signal import Tiers


class WitnessGroup(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Several ways to see one thing. any_of: one of them is enough; k_of with `of`: so many of them."""

    any_of: tuple[Name, ...] = ()
    k_of: int | None = None
    of: tuple[Name, ...] = ()

    @property
    def names(self) -> tuple[Name, ...]:
        """All of them."""
        return (*self.any_of, *self.of)


class Exclusion(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What rules the cause out: another cause, of which all needs hold on the unit, or an observation.

    because: printed if it rules out, instead of the sentence of the observation. when: `before`, it counts only where
    it started before the mechanism, so that what the cause itself brings about does not rule it out.
    """

    cause: str | None = None
    observation: str | None = None
    among: Scope = "own"
    because: str | None = None
    when: When = "any"


class StageFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A stage of a cause that gets worse, and the observation that shows it."""

    name: str
    when: Name


class RecipeFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`diagnostics/<id>.yaml`. needs: all hold on one unit, overlapping in time; witnesses: of every group enough are
    there; impact: at least one affects users; supported_by: raises certainty; proven_by: where given, only with one of
    these is it proven; excluded_by: rules it out; pool_share: the named limit of `tiers.yaml` for the share of a pool;
    observations: facts of this cause alone, in a catalogue of one's own. The other fields are those of `Recipe`."""

    id: str
    title: str
    phase: Phase
    scope: ScopeLevel
    severity: Severity
    next_steps: tuple[str | StepUse, ...]
    sources: tuple[str, ...]
    needs: tuple[Name, ...] = ()
    witnesses: WitnessGroup | tuple[WitnessGroup, ...] = ()
    impact: tuple[Name, ...] = ()
    supported_by: tuple[Name, ...] = ()
    proven_by: tuple[Name, ...] = ()
    excluded_by: tuple[str | Exclusion, ...] = ()
    kind: Kind = "local"
    family: str | None = None
    rank: Rank = "P"
    at_most: Certainty = "proven"
    critical_when: Name | None = None
    effects: tuple[str, ...] = ()
    look_alikes: tuple[str, ...] = ()
    more_specific_than: tuple[str, ...] = ()
    roles: tuple[Role, ...] = ()
    optional: tuple[str, ...] = ()
    stages: tuple[StageFile, ...] = ()
    pool_share: str | None = None
    recovers: bool = False
    catch_all: bool = False
    limit: bool = False
    alert: Alert | None = None
    observations: dict[str, Observation] = {}

    @property
    def witness_groups(self) -> tuple[WitnessGroup, ...]:
        """The groups of witnesses, also where there is one."""
        return (self.witnesses,) if isinstance(self.witnesses, WitnessGroup) else self.witnesses

    @property
    def exclusions(self) -> tuple[Exclusion, ...]:
        """What rules the cause out, also where the file gives no more than the name of an observation."""
        return tuple(Exclusion(observation=each) if isinstance(each, str) else each for each in self.excluded_by)

    def names(self) -> Iterator[tuple[tuple[str | int, ...], Name]]:
        """Every observation that it names, with the place in the file."""
        for key in ("needs", "impact", "supported_by", "proven_by"):
            yield from (((key, index), name) for index, name in enumerate(getattr(self, key)))
        several = not isinstance(self.witnesses, WitnessGroup)
        for index, group in enumerate(self.witness_groups):
            at: tuple[str | int, ...] = ("witnesses", index) if several else ("witnesses",)
            for key in ("any_of", "of"):
                yield from (((*at, key, place), name) for place, name in enumerate(getattr(group, key)))
        for index, exclusion in enumerate(self.excluded_by):
            if isinstance(exclusion, str):
                yield ("excluded_by", index), exclusion
            elif exclusion.observation is not None:
                yield ("excluded_by", index, "observation"), exclusion.observation
        for index, stage in enumerate(self.stages):
            yield ("stages", index, "when"), stage.when
        if self.critical_when is not None:
            yield ("critical_when",), self.critical_when


SAME = tuple(
    {field.name for field in structs.fields(RecipeFile)}
    & {field.name for field in structs.fields(Recipe)} - {"stages", "critical_when", "pool_share", "next_steps"}
)


def resolved(
    file: RecipeFile,
    dictionary: Dictionary,
    actions: Mapping[str, Action],
    files: Mapping[str, RecipeFile],
    tiers: Tiers,
) -> Recipe:
    """The recipe of a file: names replaced by the conditions, steps and numbers that they stand for."""

    def all_of(names: tuple[Name, ...]) -> tuple[Condition, ...]:
        return tuple(dictionary.condition(name) for name in names)

    same: dict[str, Any] = {name: getattr(file, name) for name in SAME}
    recipe = Recipe(
        **same,
        next_steps=tuple(step_of(use, actions) for use in file.next_steps),
        symptoms=_needed(file, dictionary),
        harm=all_of(file.impact),
        support=all_of(file.supported_by),
        proof=all_of(file.proven_by),
        unless=tuple(_excluded(exclusion, dictionary, files) for exclusion in file.exclusions),
        stages=tuple(Stage(stage.name, dictionary.condition(stage.when)) for stage in file.stages),
        pool_share=None if file.pool_share is None else tiers.thresholds[file.pool_share].value,
        critical_when=None if file.critical_when is None else dictionary.condition(file.critical_when),
    )
    return _by_kind_of_impact(recipe) if recipe.kind == "unexplained" else recipe


def _needed(file: RecipeFile, dictionary: Dictionary) -> tuple[Condition, ...]:
    """What must hold: the needs, and one condition a group of witnesses."""
    needs = tuple(dictionary.condition(name) for name in file.needs)
    return (*needs, *(_witnessed(group, dictionary) for group in file.witness_groups))


def _witnessed(group: WitnessGroup, dictionary: Dictionary) -> Condition:
    parts = tuple(dictionary.condition(name) for name in group.names)
    if group.k_of is not None:
        return KOf(parts, group.k_of)
    return parts[0] if len(parts) == 1 else AnyOf(parts)


def _by_kind_of_impact(recipe: Recipe) -> Recipe:
    """The recipe for impact without a known cause, which is evaluated once for each kind of impact."""
    symptoms = (AnyOf(tuple(_alternatives([each]))) if isinstance(each, AnyOf) else each for each in recipe.symptoms)
    return structs.replace(recipe, symptoms=tuple(symptoms), harm=tuple(_alternatives(recipe.harm)))


def _alternatives(conditions: Iterable[Condition]) -> Iterator[Condition]:
    """Each of these, and of one that is any of several, each of the several."""
    for condition in conditions:
        yield from _alternatives(condition.parts) if isinstance(condition, AnyOf) else (condition,)


def _excluded(exclusion: Exclusion, dictionary: Dictionary, files: Mapping[str, RecipeFile]) -> Condition:
    """What rules out, with the words for it."""
    if exclusion.cause is None:
        name = str(exclusion.observation)
        condition = dictionary.condition(name if exclusion.among == "own" else Use(name, among=exclusion.among))
        return structs.replace(condition, because=exclusion.because or dictionary.says(name), when=exclusion.when)
    rival = files[exclusion.cause]
    needed = _needed(rival, dictionary)
    condition = needed[0] if len(needed) == 1 else AllOf(needed)
    because = exclusion.because or f"that is {rival.id}: {rival.title[:1].lower()}{rival.title[1:]}"
    return structs.replace(condition, because=because, when=exclusion.when)


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
