"""The test files of what rules are made of: every recorded signal, and every observation on one, from raw series, and
how rules put observations together, from records. The tests of a cause (`cases.py`) then show that the two meet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from inferdoc.catalogue.conditions import Condition, Fact, OfParts, OfSignal
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recipe import Recipe
from inferdoc.generate.cause_rules import alert_name
from inferdoc.generate.promql_words import selectors
from inferdoc.generate.recorded import Recorded
from inferdoc_dev.rule_tests.composition import Composition
from inferdoc_dev.rule_tests.composition_tests import composition_test
from inferdoc_dev.rule_tests.lost_gpu_tests import SIGNAL, lost_gpu_test
from inferdoc_dev.rule_tests.signal_tests import signal_tests
from inferdoc_dev.rule_tests.single_signal_tests import fact_tests, observed

COMPOSED, LOST_GPUS = "composed", "lost-gpus"


@dataclass(frozen=True)
class ObservationTests:
    """files: test documents by name; none: by record the limits of which no course of the raw series makes a case."""

    files: dict[str, dict[str, Any]]
    none: dict[str, tuple[str, ...]]


def observation_tests(
    exprs: Mapping[str, str],
    recipes: Iterable[Recipe],
    rendering: Recorded,
    catalogue: Catalogue,
    rule_files: list[str],
    groups: list[str],
) -> ObservationTests:
    """exprs: every rule of the pack by name; recipes: those whose rules are made of observations; rendering: the one
    that made the rules."""
    recorded_conditions = _conditions_of(rendering, exprs)
    facts = {name: c for name, c in recorded_conditions.items() if not isinstance(c, OfParts) and c.scope == "own"}
    every = list(observed(facts, catalogue, selectors(exprs.values())))
    composition = Composition(rendering, exprs.keys())
    made = {name: list(composition.of_observation(c)) for name, c in recorded_conditions.items() if name not in facts}
    causes = {alert_name(recipe.id): list(composition.of_cause(recipe)) for recipe in recipes}
    composed = composition_test(causes, made, composition.healthy, rule_files, groups)
    none = {each.record: each.cases.none for each in every if each.cases.none}
    signals = signal_tests(exprs, catalogue, rule_files, groups)
    files = {**signals, **fact_tests(every, catalogue, rule_files, groups), COMPOSED: composed}
    lost = [name for name, c in facts.items() if isinstance(c, OfSignal) and c.signal == SIGNAL]
    if lost:
        files[LOST_GPUS] = lost_gpu_test(lost, rule_files, groups)
    return ObservationTests(files, none)


def _conditions_of(rendering: Recorded, names: Collection[str]) -> dict[str, Condition | Fact]:
    """The observations that are recorded, by the names of their records."""
    records = {name.partition(":")[2]: name for name in names}
    found: dict[str, Condition | Fact] = {}
    for condition, name in rendering.observed.items():
        record = records.get(f"inferdoc_{name}:holds")
        if record is not None:
            found.setdefault(record, condition)
    return found
