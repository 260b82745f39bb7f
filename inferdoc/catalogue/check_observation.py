"""Cross checks of the dictionary: facts of signals and limits that exist, with numbers that can be met."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from inferdoc.catalogue.conditions import Fact, Lasting, Level, Move, Odd, Reaches, Turns
from inferdoc.catalogue.document import Steps, nearest
from inferdoc.catalogue.kinds import GROUPS, KINDS, LIMITS, OPTIONS, SIGNAL, fact_of, kinds_with
from inferdoc.catalogue.observation import Dictionary, Observation
from inferdoc.catalogue.signal import Signal, Tiers
from inferdoc.catalogue.validate import Problem, check_duration, check_signal_name, exactly_one

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
