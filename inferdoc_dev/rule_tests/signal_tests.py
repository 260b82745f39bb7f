"""promtool unit tests of what is recorded of signals: the value that each reading gives under each spelling of its
series, beside series that its matchers leave out, and of how many events it takes to give one."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import msgspec

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.record_names import OF_OBSERVATIONS
from inferdoc.generate.promql_words import Selector, selectors
from inferdoc.generate.promtool import NAME
from inferdoc.generate.recorded import INTERVAL, recorded
from inferdoc.judging.conditions.render import ENGINE_SIGN, MIN_OBSERVATIONS
from inferdoc.source.plan import operand
from inferdoc.source.reads import matches
from inferdoc.times import length_of
from inferdoc_dev.rule_tests.cases import Case
from inferdoc_dev.rule_tests.excluded_series import OTHER, left_out
from inferdoc_dev.rule_tests.input_series import MODEL, FaultSpan, lines
from inferdoc_dev.rule_tests.raw_series import Key, Raw, World
from inferdoc_dev.rule_tests.signal_values import MARGIN

MINUTES = 8
"""A window of five minutes full, and a little."""
UNLIKE = 1.3
"""Raw series of a signal differ by this factor, so that none of them stands for another."""
CLOSE = 1e-6
PRESENT, EVENTS = "present", "events"


@dataclass(frozen=True)
class SignalCase:
    """Raw series of a record. value: what it has of them; None where it is enough that it is there; there: whether it
    is."""

    record: str
    case: Case
    value: float | None = None
    there: bool = True

    @property
    def query(self) -> str:
        place = f'{self.record}{{namespace="{self.case.name}"}}'
        if self.value is not None and self.there:
            place = f"abs({place} - {self.value:.12g}) <= {CLOSE * (abs(self.value) or 1.0):.6g}"
        return f"group by (namespace, model_name) ({place})"

    @property
    def labels(self) -> str:
        """Whose it is: of a pod beside the engines no model is known, nor of what is above the pods, but a router."""
        of_pod = not self.case.stranger and self.record.startswith(("engine:", "target:"))
        model = f', model_name="{MODEL}"' if of_pod or self.record.startswith("router:") else ""
        return f'{{namespace="{self.case.name}"{model}}}'


def signal_tests(
    rules: Mapping[str, str],
    catalogue: Catalogue,
    rule_files: list[str],
    groups: list[str],
) -> dict[str, dict[str, Any]]:
    """Test files by whom the signals are about. rules: expressions by name, of which those are tested that record raw
    series."""
    of_signals = [name for name in rules if _signal(name, catalogue) and not name.endswith(OF_OBSERVATIONS)]
    raw = [name for name in of_signals if not any(_signal(other, catalogue) for other in NAME.findall(rules[name]))]
    every = [case for name in raw for case in _cases(name, rules[name], catalogue)]
    every.sort(key=lambda each: each.record.split(":")[0])
    return {
        f"signals-{level}": {
            "rule_files": rule_files,
            "evaluation_interval": f"{length_of(INTERVAL):g}s",
            "group_eval_order": groups,
            "tests": [_test(list(cases))],
        }
        for level, cases in groupby(every, key=lambda each: each.record.split(":")[0])
    }


def _test(cases: Sequence[SignalCase]) -> dict[str, Any]:
    checks = [
        {
            "expr": each.query,
            "eval_time": f"{MINUTES}m",
            "exp_samples": [{"labels": each.labels, "value": 1}] if each.there else [],
        }
        for each in cases
    ]
    series = [line for each in cases for line in lines(each.case, False, FaultSpan(MINUTES, 2))]
    return {"interval": "1m", "input_series": series, "promql_expr_test": checks}


def _cases(record: str, expr: str, catalogue: Catalogue) -> Iterator[SignalCase]:
    """What is recorded of a signal by each of its readings under each spelling: the value, of enough events, of too
    few; of what is only there, whether it is."""
    level, _, operation = record.split(":")
    signal = _signal(record, catalogue)
    slug = f"{signal}-{operation}".replace("_", "-")
    for number, (alone, world, own) in enumerate(_worlds(signal, catalogue, selectors([expr])), 1):
        for which, value, there, series in _valued(world, alone, operation, own):
            for place, each in enumerate(_under_former_names(series, catalogue)):
                case = SignalCase(record, Case(f"{slug}-{number}-{which}-{place}", each, True), value, there)
                yield case
                strangers = level == "target" and not recorded(catalogue).of_engines(signal)
                if strangers and not any(metric == "up" for metric, _ in each.raw):
                    beside = replace(case.case, name=f"{case.case.name}-beside-engines", stranger=True)
                    yield replace(case, case=beside)


def _signal(rule: str, catalogue: Catalogue) -> str:
    """The signal that a rule records; "" where it is none."""
    level, _, rest = rule.partition(":")
    name = rest.partition(":")[0].removeprefix("inferdoc_")
    signal = catalogue.signals_of_rules.get(name)
    return name if signal is not None and signal.level == level else ""


def _worlds(
    signal: str, catalogue: Catalogue, read: Mapping[str, Sequence[Selector]]
) -> Iterator[tuple[str, World, set[Key]]]:
    """By each reading alone: the name under which it is a signal, and its series, no two of them alike, with those that
    it takes; then without the series of terms that have a default. read: what the record needs of raw series."""
    declared = catalogue.signals_of_rules
    for number, reading in enumerate(declared[signal].readings, 1):
        alone, other = f"{signal} by reading {number}", copy.copy(catalogue)
        one = msgspec.structs.replace(declared[signal], readings=(reading,))
        vars(other)["signals_of_rules"] = {**declared, alone: one}
        if reading.info or recorded(other).signal(alone) is None:
            continue
        for falls in (True, False):
            world = World(other)
            world.add(alone)
            own = set(world.raw)
            _add_left_out(world, read)
            _spread(world, reading.codes, falls)
            yield alone, world, own
            optional = {operand(term, one.level) for term in reading.terms.values() if term.default == 0}
            names = {part.name for part in optional if part is not None}
            rest = {key: raw for key, raw in world.raw.items() if key[0] not in names}
            if len(rest) < len(world.raw):
                yield alone, World(other, rest), own


def _add_left_out(world: World, read: Mapping[str, Sequence[Selector]]) -> None:
    """Beside each series one that its matchers leave out, for each of its labels: who lost a matcher counts it too."""
    for (metric, match), raw in list(world.raw.items()):
        taken = [selector for selector in read.get(metric, ()) if matches(dict(match), selector)]
        for label, _ in match:
            for value in (OTHER, *left_out(label, taken)):
                other = tuple((name, value if name == label else own) for name, own in match)
                if not all(matches(dict(other), selector) for selector in taken):
                    world.raw.setdefault((metric, other), replace(raw))
                    break


def _spread(world: World, codes: Sequence[float], falls: bool) -> None:
    own = [key for key in world.raw if key[0] != ENGINE_SIGN or len(world.raw) == 1]
    for number, key in enumerate(own):
        raw, far = world.raw[key], UNLIKE ** (-number if falls else number)
        raw.healthy = raw.fault = codes[0] if codes and raw.kind == "gauge" else float(f"{raw.healthy * far:.4g}")


def _valued(
    world: World, alone: str, operation: str, own: Collection[Key]
) -> Iterator[tuple[str, float | None, bool, World]]:
    """The value of a record of these series, and whether it is there: where it takes events, of just enough and of just
    too few. own: the series that it takes."""
    events = world.events(alone, "healthy")
    if operation == PRESENT:
        yield "there", None, True, world
        left = {key: raw for key, raw in world.raw.items() if not key[1] or key not in own}
        if len(left) < len(world.raw):
            yield "left-out", None, False, World(world.catalogue, left)
    elif operation.startswith(EVENTS):
        yield "events", events, True, world
    else:
        try:
            yield "plain", world.value(alone, "healthy"), True, world
        except ZeroDivisionError:
            return
        if not events:
            return
        for which, share in (("enough", 1 + MARGIN), ("too-few", 1 - MARGIN)):
            few = _times(world, MIN_OBSERVATIONS * share / events)
            yield which, few.value(alone, "healthy"), share > 1, few


def _times(world: World, factor: float) -> World:
    """The world with its counters so much faster."""
    raw = {key: replace(each) for key, each in world.raw.items()}
    for each in raw.values():
        if each.kind == "counter":
            each.healthy = each.fault = each.healthy * factor
    return World(world.catalogue, raw)


def _under_former_names(world: World, catalogue: Catalogue) -> Iterator[World]:
    """The world as it is, and under the names that its series had before."""
    yield world
    former = recorded(catalogue).former
    for place in range(max((len(former.get(metric, ())) for metric, _ in world.raw), default=0)):
        raw: dict[Key, Raw] = {}
        for (metric, match), each in world.raw.items():
            names = former.get(metric, ())
            raw[names[min(place, len(names) - 1)] if names else metric, match] = replace(each)
        yield World(world.catalogue, raw)
