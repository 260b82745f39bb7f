"""promtool unit tests of the observations on one signal: from raw series, each for itself, several in one file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from inferdoc.catalogue.conditions import Fact, Move
from inferdoc.catalogue.load import Catalogue
from inferdoc.escaping import label_pairs
from inferdoc.generate.baseline_rules import PODS_ALONE
from inferdoc.generate.promql_words import Selector
from inferdoc.generate.recorded import JOINED, RECORDED_LABELS
from inferdoc_dev.rule_tests.cause_tests import (
    CALM_MINUTES,
    EVALUATED_MINUTES,
    SLOW_MINUTES,
    SPARE_MINUTES,
    WINDOW_MINUTES,
)
from inferdoc_dev.rule_tests.input_series import FaultSpan, identity, lines, pod_info
from inferdoc_dev.rule_tests.observation_cases import FactCase, FactCases, fact_cases, has_peers, is_slow

SHORT_PAST_MINUTES = 62
"""Enough if only the last half hour is needed."""
NO_PAST_MINUTES = 10
"""Enough if no past is needed."""


@dataclass(frozen=True)
class FactTrials:
    """An observation on one signal, by the name of its record."""

    record: str
    condition: Fact
    cases: FactCases

    @property
    def slug(self) -> str:
        return self.record.split(":")[1].removeprefix("inferdoc_").replace("_", "-")


def observed(
    facts: Mapping[str, Fact], catalogue: Catalogue, read: Mapping[str, Sequence[Selector]]
) -> Iterator[FactTrials]:
    """Observations with their cases. facts: by the names of their records; read: what the rules ask of raw series. How
    a signal is spelled is a matter of the first observation on it."""
    spelled = set[str]()
    for record, condition in facts.items():
        cases = fact_cases(condition, catalogue, read, spellings=condition.signal not in spelled)
        spelled.add(condition.signal)
        yield FactTrials(record, condition, cases)


def fact_tests(
    every: Iterable[FactTrials], catalogue: Catalogue, rule_files: list[str], groups: list[str]
) -> dict[str, dict[str, Any]]:
    """Test files by what their observations are about: the level and the unit of the signal."""
    by_kind: dict[str, list[FactTrials]] = {}
    for each in every:
        signal = catalogue.signals_of_rules[each.condition.signal]
        by_kind.setdefault(f"{signal.level}-{_word(signal.unit)}", []).append(each)
    return {
        f"observed-{kind}": {
            "rule_files": rule_files,
            "evaluation_interval": f"{EVALUATED_MINUTES}m",
            "group_eval_order": groups,
            "tests": list(_tests(found)),
        }
        for kind, found in sorted(by_kind.items())
    }


def _word(unit: str) -> str:
    return re.sub(r"\W+", "-", unit.replace("1/s", "per-second")).strip("-").lower()


def _tests(found: Sequence[FactTrials]) -> Iterator[dict[str, Any]]:
    """A test per length of the past and of the fault."""
    by_span: dict[FaultSpan, list[tuple[FactTrials, FactCase]]] = {}
    for each in found:
        for case in each.cases.of:
            by_span.setdefault(_span(case), []).append((each, case))
    for span, pairs in sorted(by_span.items(), key=lambda entry: (entry[0].healthy, entry[0].faulty)):
        at = span.healthy + span.faulty - 2
        named = [
            (each, replace(case, case=replace(case.case, name=f"{each.slug}_{case.case.name}"))) for each, case in pairs
        ]
        series = [line for _, case in named for line in lines(case.case, has_peers(case.condition), span)]
        checks = [
            {
                "expr": f'group without () ({each.record}{{namespace=~"{each.slug}_.+"}})',
                "eval_time": f"{at}m",
                "exp_samples": [
                    {"labels": _labels(case), "value": 1} for other, case in named if other is each and case.holds
                ],
            }
            for each in {each.record: each for each, _ in named}.values()
        ]
        yield {"interval": "1m", "input_series": series, "promql_expr_test": checks}


def _span(case: FactCase) -> FaultSpan:
    slow = SLOW_MINUTES if is_slow(case.condition) else 0
    past = SHORT_PAST_MINUTES if isinstance(case.condition, Move) else NO_PAST_MINUTES
    return FaultSpan(CALM_MINUTES if case.long else past, WINDOW_MINUTES + SPARE_MINUTES + slow + 2)


def _labels(case: FactCase) -> str:
    """All labels of the series of the faulty pod."""
    level = case.case.world.catalogue.signals_of_rules[case.condition.signal].level
    series = {**(pod_info(case.case) if level in JOINED else {}), **identity(case.metric, case.case, "p0")}
    labels = PODS_ALONE[level] if case.case.stranger else RECORDED_LABELS[level]
    kept = [name for name in labels if name in series]
    return f"{{{label_pairs({name: series[name] for name in kept})}}}"
