"""Which alerts Alertmanager would send: the inhibit rules of its configuration over what fired when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from inferdoc.backtest.replay import STEP_SECONDS, Firing
from inferdoc.generate.alertmanager import Matcher, read_matchers
from inferdoc.times import length_of

GROUP_WAIT = "30s"
"""Alertmanager's default: it waits so long before it sends a group, and what is held back by then is never sent."""


@dataclass(frozen=True)
class Inhibit:
    """While an alert fires that fits `source`, those that fit `target` and agree in `equal` are held back."""

    source: tuple[Matcher, ...]
    target: tuple[Matcher, ...]
    equal: tuple[str, ...]

    def holds_back(self, source: Mapping[str, str], target: Mapping[str, str]) -> bool:
        """Whether one alert holds back another, by their labels with `alertname`. What fits both sides itself is not
        held back by others that do."""
        both = _fit(self.source, target) and _fit(self.target, source)
        equal = all(source.get(label, "") == target.get(label, "") for label in self.equal)
        return equal and not both and _fit(self.source, source) and _fit(self.target, target)


@dataclass(frozen=True)
class Notifying:
    """What an Alertmanager configuration says of when alerts go out. waits: of every route in order, whom it takes and
    how many seconds it waits; without a route that fits, the last."""

    inhibitions: tuple[Inhibit, ...] = ()
    waits: tuple[tuple[tuple[Matcher, ...], float], ...] = (((), length_of(GROUP_WAIT)),)

    def wait(self, labels: Mapping[str, str]) -> float:
        """How long an alert is held before it is sent, seconds."""
        return next((seconds for matchers, seconds in self.waits if _fit(matchers, labels)), length_of(GROUP_WAIT))


def read_notifying(path: Path) -> Notifying:
    """An Alertmanager configuration; where the file is not there, nothing is held back. Raises InferdocError for a
    matcher that cannot be read."""
    if not path.is_file():
        return Notifying()
    document: dict[str, Any] = yaml.safe_load(path.read_text("utf-8")) or {}
    inhibitions = tuple(
        Inhibit(
            read_matchers(rule.get("source_matchers", ()), path),
            read_matchers(rule.get("target_matchers", ()), path),
            tuple(rule.get("equal", ())),
        )
        for rule in document.get("inhibit_rules", ())
    )
    waits = tuple(_waits(document.get("route") or {}, (), GROUP_WAIT, path))
    return Notifying(inhibitions, waits)


def _waits(
    route: Mapping[str, Any], above: tuple[Matcher, ...], inherited: str, path: Path
) -> Iterator[tuple[tuple[Matcher, ...], float]]:
    """Of a route and those below it, the matchers and the wait, seconds: the deepest first."""
    matchers = (*above, *read_matchers(route.get("matchers", ()), path))
    wait = route.get("group_wait", inherited)
    for each in route.get("routes", ()):
        yield from _waits(each, matchers, wait, path)
    yield matchers, length_of(wait)


def sent(firings: Sequence[Firing], notifying: Notifying) -> list[Firing]:
    """The firings of which a notification goes out: those that nothing holds back once Alertmanager has waited."""
    return [each for each in firings if _goes_out(each, firings, notifying)]


def _goes_out(firing: Firing, others: Sequence[Firing], notifying: Notifying) -> bool:
    """Whether there is a moment, after the wait of its route, at which it fires and nothing holds it back."""
    labels = named(firing)
    held = sorted(
        (other.begin, other.end + STEP_SECONDS)
        for other in others
        if other is not firing and any(rule.holds_back(named(other), labels) for rule in notifying.inhibitions)
    )
    free, end = firing.begin + notifying.wait(labels), firing.end + STEP_SECONDS
    for begin, until in held:
        if begin <= free < until:
            free = until
    return free < end


def named(firing: Firing) -> dict[str, str]:
    """The labels as Alertmanager sees them."""
    return {**firing.labels, "alertname": firing.alert}


def _fit(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    return all(matcher.fits(labels) for matcher in matchers)
