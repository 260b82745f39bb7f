"""Cross checks of the dictionary: facts of signals and limits that exist, with numbers that can be met."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from inferdoc.catalogue.document import Steps, nearest
from inferdoc.catalogue.observation import PLAIN, Dictionary, Observation
from inferdoc.catalogue.recipe import CONDITION_KINDS
from inferdoc.catalogue.signal import Signal, Tiers
from inferdoc.catalogue.validate import Problem, check_duration, check_signal_name, exactly_one

PLAIN_KINDS = tuple(kind for kind in CONDITION_KINDS if kind not in ("all", "any", "witnesses", "not_", "k_of"))
COMPARING = ("rises", "falls", "differs")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def check_observation(
    name: str, observation: Observation, signals: Mapping[str, Signal], tiers: Tiers, dictionary: Dictionary
) -> list[Problem]:
    """One fact: exactly one kind, of a signal that exists, with a possible number; or made of facts that exist."""
    at: Steps = ("observations", name)
    if not _NAME.fullmatch(name):
        return [Problem(at, "a name of small letters, digits and _, which reads like a fact: queue_grows")]
    if observation.parts or observation.all is not None or observation.any is not None:
        return list(_check_made_of(name, observation, at, dictionary))
    return list(_check_plain(observation, at, signals, tiers))


def read_limits(dictionary: Dictionary) -> set[str]:
    """The named limits of `tiers.yaml` that observations read."""
    limits = (
        getattr(each, kind) for each in dictionary.observations.values() for kind in ("above", "below", "reaches")
    )
    return {limit for limit in limits if isinstance(limit, str)}


def _check_made_of(name: str, observation: Observation, at: Steps, dictionary: Dictionary) -> Iterator[Problem]:
    given = [_spelled(key) for key in ("all", "any", "witnesses", "not_") if getattr(observation, key) is not None]
    plain = [_spelled(key) for key in PLAIN if getattr(observation, key) not in (None, False)]
    if len(given) != 1 or plain:
        yield Problem(
            at, f"exactly one of all, any, witnesses, not, and nothing of a signal; given: {', '.join(given + plain)}"
        )
        return
    if not observation.parts:
        yield Problem((*at, given[0]), "expected at least one observation")
    for index, part in enumerate(observation.parts):
        where = (*at, given[0]) if observation.not_ is not None else (*at, given[0], index)
        yield from (Problem(steps, message) for steps, message in dictionary.problems(part, where))
    if dictionary.circle(name) == name:
        yield Problem(at, "an observation cannot be made of itself")


def _check_plain(observation: Observation, at: Steps, signals: Mapping[str, Signal], tiers: Tiers) -> Iterator[Problem]:
    kinds = [kind for kind in PLAIN_KINDS if getattr(observation, kind) is not None]
    if len(kinds) != 1:
        yield Problem(at, exactly_one([_spelled(field) for field in CONDITION_KINDS], kinds))
        return
    kind = kinds[0]
    if observation.signal is None:
        yield Problem(at, f"`{kind}` needs a signal")
    else:
        yield from check_signal_name(observation.signal, (*at, "signal"), signals)
    if kind in ("stalls", "follows"):
        yield from check_signal_name(getattr(observation, kind), (*at, kind), signals)
    if kind in ("above", "below", "reaches"):
        yield from _check_limit(observation, kind, (*at, kind), signals, tiers)
    yield from _check_factor(observation, kind, at)
    yield from _check_options(observation, kind, at)
    yield from check_duration(observation.for_, (*at, "for"))
    yield from check_duration(observation.within, (*at, "within"))


def _check_limit(
    observation: Observation, kind: str, at: Steps, signals: Mapping[str, Signal], tiers: Tiers
) -> Iterator[Problem]:
    """A limit that is declared, and that the signal can pass: nothing is above all of it or below none of it."""
    limit: float | str = getattr(observation, kind)
    if isinstance(limit, str) and limit not in tiers.thresholds:
        yield Problem(at, f'no threshold "{limit}" in tiers.yaml{nearest(limit, tiers.thresholds)}')
        return
    value = tiers.thresholds[limit].value if isinstance(limit, str) else limit
    signal = signals.get(observation.signal or "")
    top = None if signal is None else 1.0 if signal.unit == "bool" else signal.top
    if kind == "above" and top is not None and value >= top:
        yield Problem(at, f"never met: {observation.signal} is at most {top:g}; expected less, got {value:g}")
    if kind == "below" and value <= 0:
        yield Problem(at, f"never met: nothing measured here is negative; expected more than 0, got {value:g}")


def _check_factor(observation: Observation, kind: str, at: Steps) -> Iterator[Problem]:
    if observation.rises is not None and observation.rises < 1:
        message = f"at least this many times the baseline: expected 1 or more, got {observation.rises:g}"
        yield Problem((*at, "rises"), message)
    if observation.falls is not None and not 0 <= observation.falls <= 1:
        yield Problem((*at, "falls"), f"at most this share of the baseline: expected 0 to 1, got {observation.falls:g}")
    if observation.differs is not None and (observation.differs <= 0 or observation.differs == 1):
        message = f"a factor from peers: expected above 0 and not 1, got {observation.differs:g}"
        yield Problem((*at, "differs"), message)
    if kind in ("present", "absent") and getattr(observation, kind) is False:
        yield Problem((*at, kind), "only true says something; use the opposite kind")


def _check_options(observation: Observation, kind: str, at: Steps) -> Iterator[Problem]:
    """Keys that belong to other kinds, and two that say the same thing twice."""
    if (kind == "reaches") != (observation.within is not None):
        yield Problem((*at, "within"), "`within` goes with `reaches`, and `reaches` with `within`")
    if observation.by is not None and kind not in COMPARING:
        yield Problem((*at, "by"), "`by` goes with rises, falls, differs")
    if observation.average and kind not in COMPARING:
        yield Problem((*at, "average"), "`average` goes with rises, falls, differs")
    share = observation.share_of
    if share is not None and not 0 < share <= 1:
        yield Problem((*at, "share_of"), f"a share of the windows: expected above 0 up to 1, got {share:g}")
    if share is not None and observation.for_ is not None:
        yield Problem((*at, "share_of"), "either `for` in one piece or `share_of` the windows, not both")


def _spelled(field: str) -> str:
    """A field of an observation as it stands in YAML."""
    return field.removesuffix("_")
