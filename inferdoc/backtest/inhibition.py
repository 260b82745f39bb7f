"""Which alerts Alertmanager would send: the inhibit rules of its configuration over what fired when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from inferdoc.backtest.replay import STEP_SECONDS, Firing
from inferdoc.generate.matchers import Matcher, read_matchers
from inferdoc.times import length_of

GROUP_WAIT = "30s"
"""Alertmanager's default: the delay before it sends a group. An alert that is inhibited by then is never sent."""


@dataclass(frozen=True)
class Inhibit:
    """While an alert that matches `source` fires, alerts that match `target` and agree in the labels `equal` are
    inhibited."""

    source: tuple[Matcher, ...]
    target: tuple[Matcher, ...]
    equal: tuple[str, ...]

    def holds_back(self, source: Mapping[str, str], target: Mapping[str, str]) -> bool:
        """Whether one alert inhibits another, by their labels with `alertname`. An alert that matches both sides is not
        inhibited by another that does."""
        both = _fit(self.source, target) and _fit(self.target, source)
        equal = all(source.get(label, "") == target.get(label, "") for label in self.equal)
        return equal and not both and _fit(self.source, source) and _fit(self.target, target)


@dataclass(frozen=True)
class Notifying:
    """Inhibition and group waits of an Alertmanager configuration. waits: of every route in order, its matchers and its
    wait in seconds."""

    inhibitions: tuple[Inhibit, ...] = ()
    waits: tuple[tuple[tuple[Matcher, ...], float], ...] = (((), length_of(GROUP_WAIT)),)

    def wait(self, labels: Mapping[str, str]) -> float:
        """Seconds that an alert waits before it is sent."""
        return next((seconds for matchers, seconds in self.waits if _fit(matchers, labels)), length_of(GROUP_WAIT))


def read_notifying(path: Path) -> Notifying:
    """Reads an Alertmanager configuration; without the file, nothing is inhibited. Raises InferdocError for a matcher
    that cannot be read."""
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
    """Matchers and wait in seconds of a route and its child routes, the deepest first."""
    matchers = (*above, *read_matchers(route.get("matchers", ()), path))
    wait = route.get("group_wait", inherited)
    for each in route.get("routes", ()):
        yield from _waits(each, matchers, wait, path)
    yield matchers, length_of(wait)


def sent(firings: Sequence[Firing], notifying: Notifying) -> list[Firing]:
    """The firings with a notification: those that are not inhibited after the group wait."""
    return [each for each in firings if _goes_out(each, firings, notifying)]


def _goes_out(firing: Firing, others: Sequence[Firing], notifying: Notifying) -> bool:
    """Whether it fires at some moment after the wait of its route without being inhibited."""
    labels = named(firing)
    blocked = sorted(
        (other.begin, other.end + STEP_SECONDS)
        for other in others
        if other is not firing and any(rule.holds_back(named(other), labels) for rule in notifying.inhibitions)
    )
    free, end = firing.begin + notifying.wait(labels), firing.end + STEP_SECONDS
    for begin, until in blocked:
        if begin <= free < until:
            free = until
    return free < end


def named(firing: Firing) -> dict[str, str]:
    """The labels as Alertmanager sees them."""
    return {**firing.labels, "alertname": firing.alert}


def _fit(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    return all(matcher.fits(labels) for matcher in matchers)
