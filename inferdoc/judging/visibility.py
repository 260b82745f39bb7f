"""Why a signal is not visible, and what would make it so.

Three kinds of absence: `off`, of a feature that is not in use; `later`, of a series that comes with its first event;
and `blind`, of what could be seen if somebody scraped it, switched it on or no longer dropped it. Derived from what the
catalogue declares of each series (its exporter, its release, what it needs) and from the names that the source has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from inferdoc.catalogue.aliases import MAIN, declared_series, engines_of, engines_there
from inferdoc.catalogue.conditions import AnyOf, Condition, KOf, OfParts, Presence, Witnesses
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recipe import Recipe
from inferdoc.catalogue.signal import Exporter, Metric, Reading, Signal
from inferdoc.catalogue.tables import version
from inferdoc.judging.model import AbsenceKind
from inferdoc.source.base import Scrapes

COHORTS = {
    "other-tiers": "the model runs on one hardware tier",
    "over-other-tiers": "the model runs on one hardware tier",
    "blend": "the model runs on one hardware tier",
    "over-ranks": "no deployment with several data-parallel ranks",
    "ranks-skew": "no deployment with several data-parallel ranks",
    "unlike": "one pod, or pods that are all alike",
}
"""What a comparison lacks where it has no value (`Reading.cohort`)."""
ADDED = frozenset({"inferdoc", "prometheus"})
"""Exporters that no operator adds: what inferdoc writes itself, and what every scraper adds."""
ONE_SCRAPE = "one scrape shows no rate: scrape again after 30 s, or save each page a second time"
EASIEST: Mapping[AbsenceKind, int] = {"later": 0, "blind": 1, "off": 2}
"""Of several ways to read a signal, the one that takes least to see."""


@dataclass(frozen=True)
class Absence:
    """kind: see the module; remedy: what to do, or for `off` what is not in use, or for `later` what brings it."""

    kind: AbsenceKind
    remedy: str


@dataclass
class Visibility:
    """names: of the series that the source has; visible: the signals that have a value; once: no target was scraped
    more than once; dense: no model has experts."""

    catalogue: Catalogue
    names: Collection[str]
    visible: Collection[str]
    once: bool = False
    dense: bool = False

    @cached_property
    def _declared(self) -> dict[str, tuple[Exporter, Metric]]:
        """Series name -> who exposes it, and its declaration."""
        return declared_series(self.catalogue.exporters.values())

    @cached_property
    def engines(self) -> list[Exporter]:
        """The engines that are there."""
        return engines_there(self.catalogue.exporters.values(), self.names)

    @cached_property
    def _engines_older_than(self) -> str | None:
        return self.catalogue.flags.older_than(self.names)

    @cached_property
    def _scraped(self) -> set[tuple[str, str]]:
        """Exporter and first word of those of its series that are there: one declaration may stand for several
        programs (kube-state-metrics, cAdvisor, KEDA)."""
        spelled = self.catalogue.aliases
        return {
            (exporter.exporter, _family(name))
            for name, (exporter, _) in self._declared.items()
            if any(alias in self.names for alias in spelled.of(name))
        }

    @property
    def beside_engines(self) -> list[Exporter]:
        """The exporters that are there and are no engine, without what every scraper adds."""
        shown = {name for name, _ in self._scraped} - ADDED
        found = (one for name, one in self.catalogue.exporters.items() if name in shown and one.page != "engine")
        return sorted(found, key=lambda each: each.title.lower())

    @cached_property
    def _hosts(self) -> dict[str, str]:
        """Engines whose metrics are on the page of another program, and its title."""
        shown = {name for name, _ in self._scraped}
        exporters = self.catalogue.exporters
        return {one: exporters[name].title for name in sorted(shown) for one in exporters[name].hands_on}

    def absence(self, signal: str) -> Absence:
        """Why a signal has no value. Raises KeyError for a signal that no catalogue declares."""
        declared = self.catalogue.signals[signal]
        if declared.experts and self.dense:
            return Absence("off", "no model with experts")
        readings = self._ways(declared)
        if not readings:
            titles = [engine.title for engine in self.engines]
            return Absence(
                "off", f"{' and '.join(titles)} {'shows' if len(titles) == 1 else 'show'} nothing of the kind"
            )
        off = declared.feature and not any(self._in_use(name) for way in readings for name in way.series)
        ways = [self._of_reading(reading, self._enable(reading, declared)) for reading in readings]
        way = min(ways, key=_effort)
        enable = self._enable(readings[ways.index(way)], declared)
        if off and enable:
            return Absence("off", enable)
        return Absence("off", way.remedy) if off else way

    def _ways(self, signal: Signal) -> list[Reading]:
        """The readings of a signal without those of engines that nobody runs here."""
        there = {engine.exporter for engine in self.engines}
        return [way for way in signal.readings if not there or engines_of(way, self._declared) <= there]

    def _enable(self, reading: Reading, signal: Signal) -> str | None:
        """What to switch on, as text about a signal: that is about the main engine, and about no engine."""
        return signal.enable if engines_of(reading, self._declared) <= {MAIN} else None

    def _in_use(self, series: str) -> bool:
        """Whether what a series needs is switched on: another series that needs the same is there."""
        exporter, metric = self._declared.get(series, (None, None))
        if exporter is None or metric is None or metric.needs is None:
            return False
        similar = (name for name, other in exporter.metrics.items() if other.needs == metric.needs)
        return any(self._there(name) or self._there(f"{name}_count") for name in similar)

    def _of_reading(self, reading: Reading, enable: str | None) -> Absence:
        if reading.cohort is not None and (reading.of is None or reading.of in self.visible):
            return Absence("off", COHORTS[reading.cohort])
        if reading.telemetry is not None:
            return Absence("later", enable or "nothing has happened that it counts")
        reasons = [self._of_series(name, enable) for name in reading.series if not self._there(name)]
        reasons += [self.absence(name) for name in reading.signals if name not in self.visible]
        if not reasons and self.once:
            return Absence("blind", ONE_SCRAPE)
        if not reasons:
            return Absence("blind", enable) if enable else Absence("later", "no value in the window")
        return max(reasons, key=_effort)

    def _there(self, series: str) -> bool:
        return any(name in self.names for name in self.catalogue.aliases.of(series))

    def _of_series(self, series: str, enable: str | None) -> Absence:
        if series not in self._declared:
            return Absence("blind", enable or f"scrape what exposes {series}")
        exporter, metric = self._declared[series]
        if (exporter.exporter, _family(series)) not in self._scraped:
            has_page = exporter.endpoint.startswith("/")
            required = enable if enable and (enable.startswith("scrape ") or not has_page) else None
            page = f"scrape the {exporter.title}: {exporter.endpoint}"
            if exporter.page == "engine":
                page = f"scrape the engines, for {exporter.title} {exporter.endpoint}"
            return Absence("blind", required or page)
        host = self._hosts.get(exporter.exporter)
        if host is not None and not metric.needs:
            return Absence("blind", f"the {host} shows a part of the metrics of {exporter.title}; check its engine")
        older = self._engines_older_than if exporter.exporter == MAIN else None
        if metric.since and older is not None and version(metric.since) >= version(older):
            release = metric.since.removesuffix(".0")
            return Absence("blind", f"vLLM {release} or later has it; these engines look older than {older}")
        if metric.needs:
            return Absence("blind", enable or metric.needs)
        if metric.born_at_first_event:
            return Absence("later", f"{series} comes with its first event, unless the scrape drops it")
        dropped = f"{exporter.title} exposes {series}: is it dropped by metric_relabel_configs?"
        return Absence("blind", dropped if exporter.whole else enable or dropped)

    def can_decide(self, condition: Condition, more: Collection[str] = ()) -> bool:
        """Whether a condition can be answered with what is visible, and with `more` signals."""
        if isinstance(condition, OfParts):
            known = sum(self.can_decide(part, more) for part in condition.parts)
            least = condition.k if isinstance(condition, KOf) else len(condition.parts)
            return known >= (1 if isinstance(condition, AnyOf | Witnesses) else least)
        if isinstance(condition, Presence) and not condition.there:
            return True
        return all(signal in self.visible or signal in more for signal in condition.signals)

    def judges(self, recipe: Recipe, more: Collection[str] = ()) -> bool:
        """Whether a cause can be judged."""
        return all(self.can_decide(condition, more) for condition in recipe.symptoms)

    def lacking(self, recipe: Recipe) -> list[str]:
        """The signals without which a cause cannot be judged."""
        unseen = (condition for condition in recipe.symptoms if not self.can_decide(condition))
        names = dict.fromkeys(name for condition in unseen for name in condition.signals)
        return [name for name in names if name not in self.visible]

    def reason(self, recipe: Recipe) -> Absence:
        """Why a cause cannot be judged: what is hardest to see of all that it needs, easiest of what stands in for each
        other. Raises ValueError for one that can be judged."""
        unseen = [condition for condition in recipe.symptoms if not self.can_decide(condition)]
        return _hardest(self._of_condition(condition) for condition in unseen)

    def _of_condition(self, condition: Condition) -> Absence:
        if not isinstance(condition, OfParts):
            return _hardest(self.absence(name) for name in condition.signals if name not in self.visible)
        unseen = [self._of_condition(part) for part in condition.parts if not self.can_decide(part)]
        return min(unseen, key=_effort) if isinstance(condition, AnyOf | Witnesses | KOf) else _hardest(unseen)


def scraped_once(scrapes: Iterable[Scrapes]) -> bool:
    """Whether there are scrapes, and no second one of any target."""
    lengths = [len(target.times_ms) for target in scrapes]
    return max(lengths, default=0) == 1


def _effort(reason: Absence) -> int:
    return EASIEST[reason.kind]


def _hardest(reasons: Iterable[Absence]) -> Absence:
    """Of several reasons the hardest, with all that would remedy it."""
    given = list(reasons)
    kind = max(given, key=_effort).kind
    remedies = dict.fromkeys(reason.remedy for reason in given if reason.kind == kind)
    longest = [
        remedy for remedy in remedies if not any(other != remedy and other.startswith(remedy) for other in remedies)
    ]
    return Absence(kind, "; ".join(longest))


def _family(series: str) -> str:
    """The first word of the name of a series: kube, container, vllm."""
    return series.replace(":", "_").partition("_")[0]


def gains(visibility: Visibility, recipes: Iterable[Recipe], absent: Iterable[str]) -> dict[str, list[str]]:
    """Remedy of a blind spot -> the causes that could be judged with it alone, most first, those without any last."""
    by_remedy: dict[str, list[str]] = {}
    for name in absent:
        reason = visibility.absence(name)
        if reason.kind == "blind":
            by_remedy.setdefault(reason.remedy, []).append(name)
    unjudged = [recipe for recipe in recipes if not visibility.judges(recipe)]
    gained = {remedy: [r.id for r in unjudged if visibility.judges(r, names)] for remedy, names in by_remedy.items()}
    return dict(sorted(gained.items(), key=lambda item: -len(item[1])))
