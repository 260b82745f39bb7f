"""Which alerts Alertmanager would send: the inhibit rules of its configuration over what fired when."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from inferdoc.backtest.replay import STEP_SECONDS, Firing
from inferdoc.errors import InferdocError

MATCHER = re.compile(r'\s*([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"?((?:[^"\\]|\\.)*)"?\s*')
GROUP_WAIT_SECONDS = 30
"""Alertmanager waits so long before it sends a group: what is held back by then is never sent."""


@dataclass(frozen=True)
class Matcher:
    """One matcher of Alertmanager on a label; a label that is not there is empty."""

    label: str
    sign: str
    value: str

    def fits(self, labels: Mapping[str, str]) -> bool:
        """Whether labels fit; patterns match the whole value."""
        own = labels.get(self.label, "")
        same = bool(re.fullmatch(self.value, own)) if "~" in self.sign else own == self.value
        return same != self.sign.startswith("!")


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


def read_inhibitions(path: Path) -> tuple[Inhibit, ...]:
    """The inhibit rules of an Alertmanager configuration; none where the file is not there. Raises InferdocError for a
    matcher that cannot be read."""
    if not path.is_file():
        return ()
    document: dict[str, Any] = yaml.safe_load(path.read_text("utf-8")) or {}
    return tuple(
        Inhibit(
            _matchers(rule.get("source_matchers", ()), path),
            _matchers(rule.get("target_matchers", ()), path),
            tuple(rule.get("equal", ())),
        )
        for rule in document.get("inhibit_rules", ())
    )


def sent(firings: Sequence[Firing], inhibitions: Iterable[Inhibit]) -> list[Firing]:
    """The firings of which a notification goes out: those that are free for as long as Alertmanager waits."""
    rules = list(inhibitions)
    return [firing for firing in firings if _free_seconds(firing, firings, rules) >= GROUP_WAIT_SECONDS]


def _free_seconds(firing: Firing, others: Sequence[Firing], rules: Sequence[Inhibit]) -> float:
    """The longest stretch in which nothing holds it back."""
    labels = named(firing)
    end = firing.end + STEP_SECONDS
    held = sorted(
        (other.begin, other.end + STEP_SECONDS)
        for other in others
        if other is not firing
        and other.begin < end
        and firing.begin < other.end + STEP_SECONDS
        and any(rule.holds_back(named(other), labels) for rule in rules)
    )
    longest, free_from = 0.0, firing.begin
    for begin, until in held:
        longest, free_from = max(longest, begin - free_from), max(free_from, until)
    return max(longest, end - free_from)


def named(firing: Firing) -> dict[str, str]:
    """The labels as Alertmanager sees them."""
    return {**firing.labels, "alertname": firing.alert}


def _fit(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    return all(matcher.fits(labels) for matcher in matchers)


def _matchers(texts: Iterable[str], path: Path) -> tuple[Matcher, ...]:
    found = []
    for text in texts:
        read = MATCHER.fullmatch(text)
        if read is None:
            raise InferdocError(f'{path}: matcher {text!r} cannot be read; write label="value"')
        found.append(Matcher(read[1], read[2], read[3].replace('\\"', '"').replace("\\\\", "\\")))
    return tuple(found)
