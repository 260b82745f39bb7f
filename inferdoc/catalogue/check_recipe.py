"""Cross checks of a cause against the rest of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from inferdoc.catalogue.document import Steps, nearest
from inferdoc.catalogue.family import FamilyEntry
from inferdoc.catalogue.flags import Flags
from inferdoc.catalogue.observation import Dictionary, Name
from inferdoc.catalogue.recipe import Step
from inferdoc.catalogue.recipe_file import Exclusion, RecipeFile
from inferdoc.catalogue.signal import Tiers
from inferdoc.catalogue.steps import Action, StepUse, step_of, step_problems
from inferdoc.catalogue.validate import Problem, check_duration, check_signal_name

_NUMBER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class CatalogueNames:
    """What a recipe may name. numbers: those that steps can work out, None if none are needed."""

    signals: Collection[str]
    tiers: Tiers
    dictionary: Dictionary
    actions: Mapping[str, Action]
    files: Mapping[str, RecipeFile]
    flags: Flags
    families: Collection[str]
    numbers: Collection[str] | None = None


def check_recipe(recipe: RecipeFile, around: CatalogueNames) -> list[Problem]:
    """One cause. It has needs or witnesses, and impact unless it is about the telemetry itself (blindness affects no
    user); every name is declared; what rules it out is not what it brings about."""
    problems = []
    if not recipe.needs and not recipe.witness_groups:
        problems.append(Problem(("needs",), "a cause needs at least one observation"))
    if not recipe.impact and recipe.kind != "telemetry":
        problems.append(
            Problem(("impact",), "a cause needs at least one impact: without an impact there is no finding")
        )
    for at, name in recipe.names():
        problems += [Problem(steps, message) for steps, message in around.dictionary.problems(name, at)]
    if not problems:
        for index, exclusion in enumerate(recipe.exclusions):
            problems += _check_exclusion(exclusion, ("excluded_by", index), recipe, around)
    if recipe.family is not None and recipe.family not in around.families:
        near = nearest(recipe.family, around.families)
        problems.append(Problem(("family",), f'no family "{recipe.family}" in families.yaml{near}'))
    if recipe.pool_share is not None and recipe.pool_share not in around.tiers.thresholds:
        near = nearest(recipe.pool_share, around.tiers.thresholds)
        problems.append(Problem(("pool_share",), f'no threshold "{recipe.pool_share}" in tiers.yaml{near}'))
    for index, signal in enumerate(recipe.optional):
        problems += check_signal_name(signal, ("optional", index), around.signals)
    for key in ("effects", "look_alikes", "more_specific_than"):
        problems += _check_ids(getattr(recipe, key), key, recipe.id, around.files)
    for index, use in enumerate(recipe.next_steps):
        problems += _check_step(use, ("next_steps", index), around)
    if recipe.alert is not None:
        for key, text in (("for", recipe.alert.for_), ("keep_firing_for", recipe.alert.keep_firing_for)):
            problems += check_duration(text, ("alert", key))
    return problems


def check_family(name: str, family: FamilyEntry, around: CatalogueNames) -> list[Problem]:
    """One family: its observations and steps are declared, and some cause belongs to it."""
    at: Steps = ("families", name)
    problems = [
        Problem(steps, message)
        for index, each in enumerate(family.shown_by)
        for steps, message in around.dictionary.problems(each, (*at, "shown_by", index))
    ]
    for index, use in enumerate(family.next_steps):
        problems += _check_step(use, (*at, "next_steps", index), around)
    if name in around.files:
        problems.append(Problem(at, f'a cause is called "{name}" already'))
    if not any(file.family == name for file in around.files.values()):
        problems.append(Problem(at, "no cause belongs to this family"))
    return problems


def _check_exclusion(exclusion: Exclusion, at: Steps, recipe: RecipeFile, around: CatalogueNames) -> Iterator[Problem]:
    if (exclusion.cause is None) == (exclusion.observation is None):
        yield Problem(at, "expected either `cause` or `observation`")
        return
    if exclusion.cause == recipe.id:
        yield Problem((*at, "cause"), "a cause cannot rule itself out")
        return
    if exclusion.cause is not None and exclusion.cause not in around.files:
        yield Problem((*at, "cause"), f'no such cause "{exclusion.cause}"{nearest(exclusion.cause, around.files)}')
        return
    effect = _brought_about(exclusion, recipe, around)
    if effect is not None and exclusion.when == "any":
        what = exclusion.cause or exclusion.observation
        yield Problem(at, f"{what} may be brought about by its own effect {effect}; expected `when: before`")


def _brought_about(exclusion: Exclusion, recipe: RecipeFile, around: CatalogueNames) -> str | None:
    """The effect of a cause that shows what is to rule it out on the same unit, or None. What must not hold, and what
    concerns other units is brought about by none."""
    if exclusion.cause is not None:
        return exclusion.cause if exclusion.cause in recipe.effects else None
    if exclusion.among != "own":
        return None
    own = around.dictionary.own_facts(str(exclusion.observation))
    for effect in recipe.effects:
        file = around.files.get(effect)
        if file is not None and own & _signs(file, around.dictionary):
            return effect
    return None


def _signs(file: RecipeFile, dictionary: Dictionary) -> set[str]:
    """The facts that a cause needs or is witnessed by, on the unit itself."""
    names: list[Name] = [*file.needs, *(name for group in file.witness_groups for name in group.names)]
    return {fact for name in names for fact in dictionary.own_facts(name)}


def check_action(action: Action | Step, at: Steps, around: CatalogueNames) -> Iterator[Problem]:
    """Flags that a release of vLLM has, and numbers that can be worked out."""
    for index, flag in enumerate(action.flags):
        if flag not in around.flags.flags:
            near = nearest(flag, around.flags.flags)
            yield Problem((*at, "flags", index), f"{flag} does not stand in collectors/vllm-flags.yaml{near}")
    if around.numbers is None:
        return
    for key in ("do", "why", "cost", "undo", "command"):
        for number in _NUMBER.findall(getattr(action, key) or ""):
            if number not in around.numbers:
                allowed = ", ".join(sorted(around.numbers))
                yield Problem((*at, key), f"no number {{{number}}} can be worked out; there are: {allowed}")


def _check_step(use: str | StepUse, at: Steps, around: CatalogueNames) -> Iterator[Problem]:
    problems = [Problem(steps, message) for steps, message in step_problems(use, at, around.actions)]
    yield from problems or check_action(step_of(use, around.actions), at, around)


def _check_ids(ids: tuple[str, ...], key: str, own: str, known: Collection[str]) -> Iterator[Problem]:
    for index, name in enumerate(ids):
        if name == own:
            yield Problem((key, index), "a cause cannot name itself here")
        elif name not in known:
            yield Problem((key, index), f'no such cause "{name}"{nearest(name, known)}')
