"""Cross checks of a cause against the rest of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from inferdoc.catalogue.conditions import Fact, Lasting, Level, Move, Odd, Reaches, Turns
from inferdoc.catalogue.document import Steps, nearest
from inferdoc.catalogue.observation import (
    GROUPS,
    KINDS,
    LIMITS,
    OPTIONS,
    SIGNAL,
    Dictionary,
    Name,
    Observation,
    fact_of,
    kinds_with,
)
from inferdoc.catalogue.recipe import Action, Step, StepUse, step_of, step_problems
from inferdoc.catalogue.recipe_file import Exclusion, FamilyEntry, RecipeFile
from inferdoc.catalogue.signal import Signal, Tiers
from inferdoc.catalogue.tables import Flags
from inferdoc.catalogue.validate import Problem, check_duration, check_known, check_signal_name, exactly_one

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def check_observation(
    name: str, observation: Observation, signals: Mapping[str, Signal], tiers: Tiers, dictionary: Dictionary
) -> list[Problem]:
    """One fact: exactly one kind, of a signal that exists, with a possible number; or made of facts that exist."""
    at: Steps = ("observations", name)
    if not _NAME.fullmatch(name):
        return [Problem(at, "a name of small letters, digits and _, which reads like a fact: queue_grows")]
    if observation.group is not None:
        return list(_check_made_of(name, observation, at, dictionary))
    return list(_check_plain(observation, at, signals, tiers))


def read_limits(dictionary: Dictionary) -> set[str]:
    """The named limits of `tiers.yaml` that observations read."""
    limits = (getattr(each, key) for each in dictionary.observations.values() for key in LIMITS)
    return {limit for limit in limits if isinstance(limit, str)}


def _check_made_of(name: str, observation: Observation, at: Steps, dictionary: Dictionary) -> Iterator[Problem]:
    given = sorted(observation.given, key=lambda key: key not in GROUPS)
    if len(given) != 1:
        yield Problem(at, f"exactly one of {', '.join(GROUPS)}, and nothing of a signal; given: {', '.join(given)}")
        return
    key = given[0]
    if not observation.parts:
        yield Problem((*at, key), "expected at least one observation")
    for index, part in enumerate(observation.parts):
        where = (*at, key, index) if isinstance(getattr(observation, key), tuple) else (*at, key)
        yield from (Problem(steps, message) for steps, message in dictionary.problems(part, where))
    if dictionary.circle(name) == name:
        yield Problem(at, "an observation cannot be made of itself")


def _check_plain(observation: Observation, at: Steps, signals: Mapping[str, Signal], tiers: Tiers) -> Iterator[Problem]:
    given = observation.given
    kinds = [key for key in given if key in KINDS]
    if len(kinds) != 1:
        yield Problem(at, exactly_one([*KINDS, *GROUPS], kinds))
        return
    kind = kinds[0]
    if SIGNAL not in given:
        yield Problem(at, f"`{kind}` needs a signal")
        return
    read = KINDS[kind].options
    lacking = [option for option, field in read.items() if field.required and option not in given]
    for option in lacking:
        yield Problem((*at, option), f"`{option}` goes with `{kind}`, and `{kind}` with `{option}`")
    if not lacking:
        yield from _check_fact(kind, fact_of(given), at, signals, tiers)
    if given[kind] is False:
        yield Problem((*at, kind), "only true says something; use the opposite kind")
    for option in [key for key in given if key in OPTIONS and key not in read]:
        yield Problem((*at, option), f"`{option}` goes with {', '.join(kinds_with(option))}")


def _check_fact(kind: str, fact: Fact, at: Steps, signals: Mapping[str, Signal], tiers: Tiers) -> Iterator[Problem]:
    """Names that are declared, and numbers that can be met."""
    yield from check_signal_name(fact.signal, (*at, SIGNAL), signals)
    for name in fact.signals[1:]:
        yield from check_signal_name(name, (*at, kind), signals)
    match fact:
        case Level() | Reaches():
            yield from _check_limit(fact, (*at, kind), signals, tiers)
        case Move(up=True) if fact.ratio < 1:
            yield Problem((*at, kind), f"at least this many times the baseline: expected 1 or more, got {fact.ratio:g}")
        case Move(up=False) if not 0 <= fact.ratio <= 1:
            yield Problem((*at, kind), f"at most this share of the baseline: expected 0 to 1, got {fact.ratio:g}")
        case Odd() if fact.factor <= 0 or fact.factor == 1:
            yield Problem((*at, kind), f"a factor from peers: expected above 0 and not 1, got {fact.factor:g}")
        case Turns() if fact.times < 1:
            yield Problem((*at, kind), f"expected 1 or more, got {fact.times}")
    if isinstance(fact, Lasting):
        yield from _check_lasting(fact, at)
    if isinstance(fact, Reaches):
        yield from check_duration(fact.within, (*at, "within"))


def _check_limit(fact: Level | Reaches, at: Steps, signals: Mapping[str, Signal], tiers: Tiers) -> Iterator[Problem]:
    """A limit that is declared, and that the signal can pass: nothing is above all of it or below none of it."""
    limit = fact.limit
    if isinstance(limit, str) and limit not in tiers.thresholds:
        yield Problem(at, f'no threshold "{limit}" in tiers.yaml{nearest(limit, tiers.thresholds)}')
        return
    if isinstance(fact, Reaches):
        return
    value = tiers.thresholds[limit].value if isinstance(limit, str) else limit
    signal = signals.get(fact.signal)
    top = None if signal is None else 1.0 if signal.unit == "bool" else signal.top
    if fact.up and top is not None and value >= top:
        yield Problem(at, f"never met: {fact.signal} is at most {top:g}; expected less, got {value:g}")
    if not fact.up and value <= 0:
        yield Problem(at, f"never met: nothing measured here is negative; expected more than 0, got {value:g}")


def _check_lasting(fact: Lasting, at: Steps) -> Iterator[Problem]:
    """A possible share, and not two keys that say how long."""
    share = fact.share_of
    if share is not None and not 0 < share <= 1:
        yield Problem((*at, "share_of"), f"a share of the windows: expected above 0 up to 1, got {share:g}")
    if share is not None and fact.for_ is not None:
        yield Problem((*at, "share_of"), "either `for` in one piece or `share_of` the windows, not both")
    yield from check_duration(fact.for_, (*at, "for"))


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
        yield from check_known(exclusion.cause, around.files, (*at, "cause"), "cause")
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
        else:
            yield from check_known(name, known, (key, index), "cause")
