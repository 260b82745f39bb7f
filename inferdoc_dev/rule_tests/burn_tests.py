"""promtool unit tests of the limits of alerts on objectives, and of how long they wait: every share of a pair of
windows, and the events it needs, just beyond and just short. Records stand as given: days hold no other course."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from inferdoc.catalogue.slo import Slo
from inferdoc.generate.cause_rules import AlertRule
from inferdoc.generate.recorded import INTERVAL
from inferdoc.generate.slo import SPEEDS, budget
from inferdoc.generate.slo_events import alert_name, record_name
from inferdoc.times import length_of
from inferdoc_dev.rule_tests.signal_values import MARGIN

STEP, LASTS, ASKED = "10s", "x30", "4m"
ONCE = "stale"
"""Events are given once, between two evaluations: what is recorded of them where there are none of a kind would stand
beside what is given."""
WATCHED_MINUTES = 62
"""As long as the longest wait, and a little."""
FAR = 2.0
Values = Mapping[str, str]
Cases = Mapping[str, tuple[Values, bool]]


def burn_test(
    slo: Slo, rules: Sequence[AlertRule], least: int, rule_files: list[str], groups: list[str], more: Iterable[Any]
) -> dict[str, Any]:
    """The test file of one objective, every case in a namespace of its own. least: the fewest events that count; more:
    tests at the same interval."""
    every = [*_burning(slo, least), ("TrafficTooLow", _too_few(slo, least))]
    limits, waits = _Test(), _Test()
    for ending, cases in every:
        name = alert_name(ending)
        for case, (values, _) in cases.items():
            limits.give(f"{ending.lower()}-{case}", values, LASTS)
        places = [f"{ending.lower()}-{case}" for case, (_, fires) in cases.items() if fires]
        query = f'ALERTS{{alertname="{name}", slo="{slo.id}", namespace=~"{ending.lower()}-.+"}}'
        limits.ask(f"count by (namespace) ({query})", ASKED, dict.fromkeys(places, 1))
        (first, values), *_ = ((case, values) for case, (values, fires) in cases.items() if fires)
        place = f"{ending.lower()}-{first}"
        waits.give(place, values, f"x{6 * WATCHED_MINUTES}")
        pending = f'ALERTS{{alertname="{name}", alertstate="pending", slo="{slo.id}", namespace="{place}"}}'
        counted = f"sum by (namespace) (count_over_time({pending}[{WATCHED_MINUTES}m]))"
        wait = next(length_of(rule.for_) for rule in rules if rule.name == name)
        waits.ask(counted, f"{WATCHED_MINUTES}m", {place: round(wait / length_of(INTERVAL))})
    return {
        "rule_files": rule_files,
        "evaluation_interval": INTERVAL,
        "group_eval_order": groups,
        "tests": [limits.document(), waits.document(), *more],
    }


class _Test:
    """A test in the making."""

    def __init__(self) -> None:
        self.series: list[dict[str, str]] = []
        self.checks: list[dict[str, Any]] = []

    def give(self, place: str, values: Values, lasts: str) -> None:
        for record, value in values.items():
            labels = f'cluster="c1", namespace="{place}", model_name="model-a"'
            text = value if value.endswith(ONCE) else f"{value}{lasts}"
            self.series.append({"series": f"{record}{{{labels}}}", "values": text})

    def ask(self, query: str, at: str, by_place: Mapping[str, int]) -> None:
        samples = [{"labels": f'{{namespace="{place}"}}', "value": value} for place, value in by_place.items()]
        self.checks.append({"expr": query, "eval_time": at, "exp_samples": samples})

    def document(self) -> dict[str, Any]:
        return {"interval": STEP, "input_series": self.series, "promql_expr_test": self.checks}


def _burning(slo: Slo, least: int) -> Iterator[tuple[str, Cases]]:
    """Of every pair of windows both shares beyond the limit, either of them short of it, and too few events."""
    for speed, burns, *_ in SPEEDS:
        cases: dict[str, tuple[Values, bool]] = {}
        for burn in burns:
            limit = burn.factor(slo.window) * budget(slo)
            for name, long, short, events in _around():
                values = {
                    record_name(slo, "bad", f"ratio{burn.long}"): f"{limit * long:.6g}",
                    record_name(slo, "bad", f"ratio{burn.short}"): f"{limit * short:.6g}",
                    record_name(slo, "all", "rate5m"): _once(least * events),
                }
                cases[f"{burn.long}-{name}"] = values, min(long, short, events) > 1
        yield f"Burn{speed}", cases


def _around() -> Iterable[tuple[str, float, float, float]]:
    above, below = 1 + MARGIN, 1 - MARGIN
    yield "fires", above, above, above
    yield "long-short", below, FAR, FAR
    yield "short-short", FAR, below, FAR
    yield "too-few", FAR, FAR, below


def _too_few(slo: Slo, least: int) -> Cases:
    every = record_name(slo, "all", "rate5m")
    return {
        "fires": ({every: _once(least * (1 - MARGIN))}, True),
        "enough": ({every: _once(least * (1 + MARGIN))}, False),
    }


def _once(events: float) -> str:
    """As events per second, in the one evaluation that counts them."""
    return f"_ {events / length_of(INTERVAL):.6g} {ONCE}"
