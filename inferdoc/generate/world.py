"""A small made-up world for the unit tests of rules: raw series in a calm and a faulty state, and the value that every
signal then has. The rules see only the raw series; the values here say what they must find."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import Reading, Term
from inferdoc.diagnose.conditions.render import ENGINE_SIGN, Rendering
from inferdoc.errors import InferdocError
from inferdoc.source import formula
from inferdoc.source.plan import Operand, buckets, operand, sum_over_count

Phase = Literal["calm", "fault", "swing"]
PHASES: tuple[Phase, Phase] = ("calm", "fault")
"""swing comes on top of them where a case needs it."""
Key = tuple[str, tuple[tuple[str, str], ...]]
"""A metric and the labels that its matchers ask for."""

COUNTER_PER_SECOND = 10.0
SUM_PER_SECOND = 50.0
GAUGE = 1.0
WINDOW_SECONDS = 300.0
SIZES: tuple[float, ...] = (0.0, *(10.0 ** (exponent / 2) for exponent in range(-16, 25)))
NARROW = 0.9
"""Observations of a histogram lie between this share of the quantile asked for and a little beyond it."""


@dataclass
class Raw:
    """One raw series: a gauge's value, a counter's increase per second or, for a histogram, the quantile `q` of its
    observations; `ramp`: growth per second while faulty; `swing`: where it was for the first part of the calm."""

    kind: Literal["gauge", "counter", "histogram", "info"]
    calm: float
    fault: float
    ramp: float = 0.0
    q: float = 0.0
    swing: float | None = None

    def at(self, phase: Phase) -> float:
        if phase == "swing":
            return self.calm if self.swing is None else self.swing
        return self.calm if phase == "calm" else self.fault


@dataclass
class World:
    """Raw series of one entity, and the signals they make up."""

    catalogue: Catalogue
    raw: dict[Key, Raw] = field(default_factory=dict)

    def add(self, signal: str) -> None:
        """The raw series of a signal, in a state of no particular interest."""
        reading = self._reading(signal)
        level = self.catalogue.signals[signal].level
        if reading.info:
            self.raw.setdefault((reading.info, (("max_lora", "4"),)), Raw("info", 1.0, 1.0))
        elif reading.quantile:
            key = self._key(buckets(reading, level))
            self.raw.setdefault(key, Raw("histogram", 1.0, 1.0, q=reading.q or 0.5))
            self._counter(Operand(f"{reading.quantile}_count", "increase", (), buckets(reading, level).match, "sum"))
        elif reading.mean:
            for part in sum_over_count(reading, level):
                self._counter(part)
        else:
            for term in _terms(reading):
                single = operand(term, level)
                if single is None:
                    self.add(str(term.signal))
                else:
                    self._counter(single)
        if any(name == "up" for name, _ in self.raw):
            self.raw.setdefault((ENGINE_SIGN, ()), Raw("gauge", 4.0, 4.0))

    def value(self, signal: str, phase: Phase) -> float:
        """What the signal reads in a phase; raises ZeroDivisionError where a quotient has nothing below."""
        reading = self._reading(signal)
        level = self.catalogue.signals[signal].level
        if reading.info:
            return 1.0
        if reading.quantile:
            found = self.raw[self._key(buckets(reading, level))].at(phase)
        elif reading.mean:
            total, count = sum_over_count(reading, level)
            found = self._total(total, phase) / self._total(count, phase)
        elif reading.formula:
            found = _evaluate(
                formula.parse(reading.formula), lambda name: self._term(reading.terms[name], level, phase)
            )
        else:
            single = operand(reading, level)
            assert single is not None
            found = self._total(single, phase)
        if reading.codes:
            found = float(found in reading.codes)
        return found * reading.scale

    def events(self, signal: str, phase: Phase) -> float | None:
        """How many events of a rate window a share rests on; None where it rests on none."""
        part = _counted(self.catalogue, signal)
        return None if part is None else self._total(part, phase) * WINDOW_SECONDS

    def counted(self, signal: str) -> Key | None:
        """The raw series whose events a share is a share of."""
        part = _counted(self.catalogue, signal)
        return None if part is None else self._key(part)

    def levers(self, signal: str) -> Iterator[Key]:
        """The raw series by which a signal is moved, the most direct first."""
        reading = self._reading(signal)
        level = self.catalogue.signals[signal].level
        if reading.info:
            yield (reading.info, (("max_lora", "4"),))
        elif reading.quantile:
            yield self._key(buckets(reading, level))
        elif reading.mean:
            for part in sum_over_count(reading, level):
                yield self._key(part)
        elif reading.formula:
            for name in re.findall("|".join(map(re.escape, sorted(reading.terms, reverse=True))), reading.formula):
                single = operand(reading.terms[name], level)
                if single is None:
                    yield from self.levers(str(reading.terms[name].signal))
                else:
                    yield self._key(single)
        else:
            single = operand(reading, level)
            assert single is not None
            yield self._key(single)

    def move(self, signal: str, phase: Phase, target: float, lever: Key) -> bool:
        """Set the lever so that the signal reads the target; whether that is possible."""
        raw = self.raw[lever]
        before = raw.at(phase)
        codes = self._reading(signal).codes
        if codes:
            setattr(raw, phase, codes[0] if target > 0.5 else 0.0)
            return True

        def reads(x: float) -> float | None:
            setattr(raw, phase, x)
            try:
                return self.value(signal, phase) - target
            except ZeroDivisionError:
                return None

        solved = _root(reads)
        setattr(raw, phase, before if solved is None else solved)
        return solved is not None

    def _reading(self, signal: str) -> Reading:
        return _reading(self.catalogue, signal)

    def _counter(self, part: Operand) -> None:
        counts = part.fn in ("rate", "increase")
        kind: Literal["counter", "gauge"] = "counter" if counts else "gauge"
        sums = part.name.endswith("_sum")
        start = (SUM_PER_SECOND if sums else COUNTER_PER_SECOND) if counts else GAUGE
        self.raw.setdefault(self._key(part), Raw(kind, start, start))

    def _key(self, part: Operand) -> Key:
        return part.name, tuple((label, _example(op, value)) for label, op, value in part.match)

    def _total(self, part: Operand, phase: Phase) -> float:
        """The operand over all raw series that its matchers take."""
        found = [
            (0.0 if part.fn == "change" else raw.at(phase))
            for (name, labels), raw in self.raw.items()
            if name == part.name and _matches(part, dict(labels))
        ]
        return max(found) if part.agg == "max" else min(found) if part.agg == "min" else sum(found)

    def _term(self, term: Term, level: str, phase: Phase) -> float:
        single = operand(term, level)  # type: ignore[arg-type]
        return self.value(str(term.signal), phase) if single is None else self._total(single, phase)


@lru_cache(maxsize=1024)
def _reading(catalogue: Catalogue, signal: str) -> Reading:
    """The reading that the rules take."""
    info = next((r for r in catalogue.signals[signal].readings if r.info), None)
    found = Rendering(catalogue.signals, catalogue.tiers).reading(signal) or info
    if found is None:
        raise InferdocError(f"no rule can read {signal}, so no test can be made for one that does")
    return found


@lru_cache(maxsize=1024)
def _counted(catalogue: Catalogue, signal: str) -> Operand | None:
    return Rendering(catalogue.signals, catalogue.tiers).counted(signal)


def _terms(reading: Reading) -> list[Term]:
    if reading.formula:
        return list(reading.terms.values())
    return [
        Term(
            reading.gauge,
            reading.rate,
            reading.increase,
            reading.change,
            None,
            reading.match,
            reading.over,
            reading.agg,
        )
    ]


def _example(op: str, value: str) -> str:
    """A label value that a matcher takes."""
    if op == "=":
        return value
    if op in ("!=", "!~"):
        return "other"
    for choice in value.split("|"):
        plain = re.sub(r"\[(.)\]", r"\1", choice.replace(".*", "").replace(".+", "x")).replace("\\", "")
        for tried in (plain.replace(".", "x"), plain):
            if re.fullmatch(value, tried):
                return tried
    raise InferdocError(f"no label value comes to mind that {value!r} matches")


def _matches(part: Operand, labels: Mapping[str, str]) -> bool:
    tests: dict[str, Callable[[str, str], bool]] = {
        "=": lambda have, want: have == want,
        "!=": lambda have, want: have != want,
        "=~": lambda have, want: bool(re.fullmatch(want, have)),
        "!~": lambda have, want: not re.fullmatch(want, have),
    }
    return all(tests[op](labels.get(label, ""), value) for label, op, value in part.match)


def _evaluate(node: ast.expr, term: Callable[[str], float]) -> float:
    match node:
        case ast.Name(id=name):
            return term(name)
        case ast.Constant(value=int() | float() as value):
            return float(value)
        case ast.UnaryOp(operand=inner):
            return -_evaluate(inner, term)
        case ast.Call(func=ast.Name(id=name), args=[first, limit]):
            choose = max if name == "clamp_min" else min
            return choose(_evaluate(first, term), _evaluate(limit, term))
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _evaluate(left, term), _evaluate(right, term)
            if isinstance(op, ast.Add):
                return a + b
            if isinstance(op, ast.Sub):
                return a - b
            return a * b if isinstance(op, ast.Mult) else a / b
    raise InferdocError(f"not arithmetic: {ast.unparse(node)}")


def _root(reads: Callable[[float], float | None]) -> float | None:
    """A number at which a steady function of one number is zero: read off where it or its inverse is a straight line,
    else bracketed over many sizes and halved."""
    one, two = reads(1.0), reads(2.0)
    if one is not None and two is not None and one != two:
        for tried in (1.0 - one / (two - one), _inverse(1.0 + 0.5 * one / (two - one))):
            x = float(f"{tried:.12g}")
            away = reads(x) if x >= 0 else None
            if away is not None and abs(away) <= 1e-9 * max(abs(one), abs(two)):
                return x
    last: tuple[float, float] | None = None
    for x in SIZES:
        away = reads(x)
        if away is None:
            continue
        if away == 0:
            return x
        if last is not None and (away > 0) != (last[1] > 0):
            return _halved(reads, last[0], x, last[1])
        last = (x, away)
    return None


def _inverse(x: float) -> float:
    return 1.0 / x if x else -1.0


def _halved(reads: Callable[[float], float | None], low: float, high: float, sign: float) -> float:
    for _ in range(80):
        middle = (low + high) / 2
        away = reads(middle)
        if away is None or (away > 0) == (sign > 0):
            low = middle
        else:
            high = middle
    return float(f"{high:.12g}")
