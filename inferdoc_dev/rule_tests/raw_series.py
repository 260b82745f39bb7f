"""A small made-up world for the unit tests of rules: raw series in a healthy and a faulty state, and the value that
every signal then has. The rules see only the raw series; the values here say what they must find."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import Literal

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import Reading
from inferdoc.errors import InferdocError
from inferdoc.judging.conditions.render import ENGINE_SIGN, SHOWN_GPUS, Rendering
from inferdoc.source import formula
from inferdoc.source.plan import Operand, buckets, operand, sum_over_count
from inferdoc.source.reads import Matcher, matches

Phase = Literal["healthy", "fault", "swing"]
PHASES: tuple[Phase, Phase] = ("healthy", "fault")
"""swing comes on top of them where a case needs it."""
Key = tuple[str, tuple[tuple[str, str], ...]]
"""A metric and the labels that its matchers ask for."""

COUNTER_PER_SECOND = 10.0
SUM_PER_SECOND = 50.0
GAUGE = 1.0
WINDOW_SECONDS = 300.0
BUSY = 4.0
"""Requests running on an engine of which nothing else is required."""
SIZES: tuple[float, ...] = (0.0, *(10.0 ** (exponent / 2) for exponent in range(-16, 25)))
ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
BESIDE = 4
"""So many series beside the one that is the largest."""
NARROW = 0.9
"""Observations of a histogram lie between this share of the requested quantile and a little beyond it."""


@dataclass
class Raw:
    """One raw series: a gauge's value, a counter's increase per second or, for a histogram, the quantile `q` of its
    observations; of devices how many are gone; `ramp`: growth per second while faulty; `swing`: where it was for the
    first part of the healthy time."""

    kind: Literal["gauge", "counter", "histogram", "info", "devices"]
    healthy: float
    fault: float
    ramp: float = 0.0
    q: float = 0.0
    swing: float | None = None

    def at(self, phase: Phase) -> float:
        if phase == "swing":
            return self.healthy if self.swing is None else self.swing
        return self.healthy if phase == "healthy" else self.fault


@dataclass(frozen=True, slots=True)
class _Total:
    """An operand: the keys of its raw series, how they are put together, whether it needs their changes, and over
    how many seconds it counts."""

    keys: tuple[Key, ...]
    over: Callable[[list[float]], float] = sum
    still: bool = False
    seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class _Form:
    """How a signal is made up: its parts, an operand or another signal each, and what is worked out of them. The one
    part of a signal without arithmetic is called ""; what is only there or not has none."""

    parts: Mapping[str, _Total | str]
    arithmetic: Callable[[Mapping[str, float]], float] | None
    codes: tuple[float, ...]
    scale: float


@dataclass
class World:
    """Raw series of one entity, and the signals they make up."""

    catalogue: Catalogue
    raw: dict[Key, Raw] = field(default_factory=dict)
    _formed: dict[str, _Form] = field(default_factory=dict)
    """How signals are made up of the raw series that are there now."""

    def remove(self, key: Key) -> None:
        """Take a raw series away, if it is there."""
        self.raw.pop(key, None)
        self._formed.clear()

    def add(self, signal: str) -> None:
        """The raw series of a signal, in a state of no particular interest."""
        self._formed.clear()
        reading = self._reading(signal)
        level = self.catalogue.signals_of_rules[signal].level
        if reading.telemetry:
            self.raw.setdefault(_key(_operand(_parts(self.catalogue, signal)[""])), Raw("devices", 0.0, 0.0))
        elif reading.info:
            self.raw.setdefault((reading.info, (("max_lora", "4"),)), Raw("info", 1.0, 1.0))
        elif reading.quantile:
            cells = buckets(reading, level)
            self.raw.setdefault(_key(cells), Raw("histogram", 1.0, 1.0, q=reading.q or 0.5))
            self._counter(Operand(f"{reading.quantile}_count", "increase", (), cells.match, "sum"))
        else:
            for part in _parts(self.catalogue, signal).values():
                if isinstance(part, str):
                    self.add(part)
                else:
                    self._counter(part)
            self._beside(signal)
        if any(name == "up" for name, _ in self.raw):
            self.raw.setdefault((ENGINE_SIGN, ()), Raw("gauge", BUSY, BUSY))

    def value(self, signal: str, phase: Phase) -> float:
        """What the signal reads in a phase; raises ZeroDivisionError where a quotient has nothing below."""
        form = self._formed.get(signal)
        if form is None:
            form = self._formed[signal] = self._form(signal)
        if form.arithmetic is None:
            if not form.parts:
                return 1.0
            found = self._value_of(form.parts[""], phase)
        else:
            found = form.arithmetic({name: self._value_of(part, phase) for name, part in form.parts.items()})
        if form.codes:
            found = float(found in form.codes)
        return found * form.scale

    def events(self, signal: str, phase: Phase) -> float | None:
        """How many events of a rate window a share rests on; None where it rests on none."""
        part = _counted(self.catalogue, signal)
        return None if part is None else self._value_of(self._taken(part), phase)

    def counted(self, signal: str) -> Key | None:
        """The raw series whose events a share is a share of."""
        part = _counted(self.catalogue, signal)
        return None if part is None else _key(part)

    def levers(self, signal: str) -> Iterator[Key]:
        """The raw series by which a signal is moved, the most direct first."""
        return iter(_levers(self.catalogue, signal))

    def move(self, signal: str, phase: Phase, target: float, lever: Key) -> bool:
        """Set the lever so that the signal reads the target; whether that is possible."""
        raw = self.raw[lever]
        before = raw.at(phase)
        codes = self._reading(signal).codes
        if codes or raw.kind == "devices":
            setattr(raw, phase, (codes[0] if codes else 1.0) if target > 0.5 else 0.0)
            return True

        def reads(x: float) -> float | None:
            setattr(raw, phase, x)
            try:
                return self.value(signal, phase) - target
            except ZeroDivisionError:
                return None

        solved = _root(reads)
        if solved is None:
            at_least = ((x, away) for x in SIZES if x >= before and (away := reads(x)) is not None)
            solved = _bracketed(reads, list(islice(at_least, 1)))
        setattr(raw, phase, before if solved is None else solved)
        return solved is not None

    def _reading(self, signal: str) -> Reading:
        return _reading(self.catalogue, signal)

    def _counter(self, part: Operand) -> None:
        counts = part.fn in ("rate", "increase")
        kind: Literal["counter", "gauge"] = "counter" if counts else "gauge"
        sums = part.name.endswith("_sum")
        start = (SUM_PER_SECOND if sums else COUNTER_PER_SECOND) if counts else GAUGE
        self.raw.setdefault(_key(part), Raw(kind, start, start))

    def _beside(self, signal: str) -> None:
        """More series beside one of which a signal reads the largest and the sum: alone it is both."""
        parts = [part for part in _parts(self.catalogue, signal).values() if isinstance(part, Operand)]
        for part in parts:
            alike = {other.agg for other in parts if _key(other) == _key(part)}
            if part.agg == "max" and "sum" in alike:
                metric, match = _key(part)
                for number in range(BESIDE):
                    self.raw.setdefault((metric, (*match, ("of", f"other-{number}"))), replace(self.raw[metric, match]))

    def _form(self, signal: str) -> _Form:
        reading, parts = self._reading(signal), _parts(self.catalogue, signal)
        if reading.quantile:
            return _Form({"": _Total((_key(_operand(parts[""])),))}, None, (), reading.scale)
        totals = {name: part if isinstance(part, str) else self._taken(part) for name, part in parts.items()}
        formula = reading.formula or ("sum / count" if reading.mean else None)
        return _Form(totals, _arithmetic(formula) if formula else None, tuple(reading.codes or ()), reading.scale)

    def _taken(self, part: Operand) -> _Total:
        """The raw series that the matchers of an operand take."""
        keys = (key for key in self.raw if key[0] == part.name and _matches(part.match, key[1]))
        over = max if part.agg == "max" else min if part.agg == "min" else sum
        return _Total(tuple(keys), over, part.fn == "change", WINDOW_SECONDS if part.fn == "increase" else 1.0)

    def _value_of(self, part: _Total | str, phase: Phase) -> float:
        if isinstance(part, str):
            return self.value(part, phase)
        raw = self.raw
        if len(part.keys) == 1 and not part.still:
            return raw[part.keys[0]].at(phase) * part.seconds
        return float(part.over([0.0 if part.still else raw[key].at(phase) for key in part.keys])) * part.seconds


@lru_cache(maxsize=1024)
def _reading(catalogue: Catalogue, signal: str) -> Reading:
    """The reading that the rules take."""
    info = next((r for r in catalogue.signals_of_rules[signal].readings if r.info), None)
    found = Rendering(catalogue.signals_of_rules, catalogue.tiers).reading(signal) or info
    if found is None:
        raise InferdocError(f"no rule can read {signal}, so no test can be made for one that does")
    return found


@lru_cache(maxsize=1024)
def _levers(catalogue: Catalogue, signal: str) -> tuple[Key, ...]:
    reading, parts = _reading(catalogue, signal), _parts(catalogue, signal)
    names = list(parts)
    if reading.formula:
        names = re.findall("|".join(map(re.escape, sorted(reading.terms, reverse=True))), reading.formula)
    found: list[Key] = [(reading.info, (("max_lora", "4"),))] if reading.info else []
    for part in (parts[name] for name in names):
        found += _levers(catalogue, part) if isinstance(part, str) else [_key(part)]
    return tuple(found)


@lru_cache(maxsize=1024)
def _counted(catalogue: Catalogue, signal: str) -> Operand | None:
    return Rendering(catalogue.signals_of_rules, catalogue.tiers).counted(signal)


@lru_cache(maxsize=1024)
def _parts(catalogue: Catalogue, signal: str) -> Mapping[str, Operand | str]:
    """What the reading of a signal is made of, by the names of its formula: an operand, or the id of another signal.
    "sum" and "count" of a mean; "" for the one operand of any other reading."""
    reading, level = _reading(catalogue, signal), catalogue.signals_of_rules[signal].level
    if reading.info:
        return {}
    if reading.telemetry:
        return {"": _operand(operand(_reading(catalogue, SHOWN_GPUS[0]), level))}
    if reading.quantile:
        return {"": buckets(reading, level)}
    if reading.mean:
        return dict(zip(("sum", "count"), sum_over_count(reading, level), strict=True))
    if reading.formula:
        return {name: operand(term, level) or str(term.signal) for name, term in reading.terms.items()}
    return {"": _operand(operand(reading, level))}


def _operand(part: Operand | str | None) -> Operand:
    assert isinstance(part, Operand)
    return part


@lru_cache(maxsize=1024)
def _arithmetic(text: str) -> Callable[[Mapping[str, float]], float]:
    """A formula as a function of the values of its names."""
    return _function(formula.parse(text))


def _function(node: ast.expr) -> Callable[[Mapping[str, float]], float]:
    match node:
        case ast.Name(id=name):
            return lambda values: values[name]
        case ast.Constant(value=int() | float() as value):
            return lambda _: float(value)
        case ast.UnaryOp(operand=inner):
            positive = _function(inner)
            return lambda values: -positive(values)
        case ast.Call(func=ast.Name(id=name), args=[first, second]):
            choose = max if name == "clamp_min" else min
            clamped, limit = _function(first), _function(second)
            return lambda values: choose(clamped(values), limit(values))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            one, two, combine = _function(left), _function(right), ARITHMETIC[type(op)]
            return lambda values: combine(one(values), two(values))
    raise InferdocError(f"not arithmetic: {ast.unparse(node)}")


@lru_cache(maxsize=1024)
def _key(part: Operand) -> Key:
    return part.name, tuple((label, _example(op, value)) for label, op, value in part.match)


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


@lru_cache(maxsize=4096)
def _matches(match: tuple[Matcher, ...], labels: tuple[tuple[str, str], ...]) -> bool:
    return matches(dict(labels), match)


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
    return _bracketed(reads, [(x, away) for x in SIZES[:2] if (away := reads(x)) is not None])


def _bracketed(reads: Callable[[float], float | None], defined: list[tuple[float, float]]) -> float | None:
    """The least of SIZES at which the function is zero, else a zero between two neighbours of it. defined: the least
    of them at which it has a value, with that value. A steady function crosses zero once: the sizes are halved."""
    top = reads(SIZES[-1])
    if not defined or top is None:
        return None
    x, first = defined[0]
    if first == 0:
        return x
    if top != 0 and (top > 0) == (first > 0):
        return None
    low, high, beyond = SIZES.index(x), len(SIZES) - 1, top
    while high - low > 1:
        middle = (low + high) // 2
        away = reads(SIZES[middle])
        if away is None or (away != 0 and (away > 0) == (first > 0)):
            low = middle
        else:
            high, beyond = middle, away
    return SIZES[high] if beyond == 0 else _halved(reads, SIZES[low], SIZES[high], first)


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
