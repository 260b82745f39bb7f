"""Signals as PromQL, for rules, dashboards and evidence: the same declaration the judge reads, at a fixed window."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from inferdoc.catalogue.conditions import Condition
from inferdoc.catalogue.signal import WIDE, Level, Reading, Signal, Term, Tiers
from inferdoc.catalogue.span import FormulaError
from inferdoc.source import formula
from inferdoc.source.plan import Operand, buckets, observations, operand, sum_over_count
from inferdoc.source.reads import Matcher, selector

POOL = ("role", "tier")
"""Labels that distinguish unlike pods of one model: of the targets, put there by relabelling, and often absent."""

BY_IN_RULES: Mapping[Level, tuple[str, ...]] = {
    "engine": ("cluster", "namespace", "model_name", "pod", "engine", *POOL),
    "target": ("cluster", "namespace", "pod", *POOL),
    "gpu": ("cluster", "namespace", "pod", "gpu", "modelName", *POOL),
    "router": ("cluster", "namespace", "name", "model_name"),
    "tenant": ("cluster", "namespace", "model_name", "fairness_id", "priority"),
    "namespace": ("cluster", "namespace"),
}
"""Labels that rules and panels keep; few, so that alerts group and route."""

LIKE: Mapping[Level, tuple[str, ...]] = {
    "engine": ("cluster", "namespace", "model_name", *POOL),
    "target": ("cluster", "namespace", "model_name", *POOL),
    "gpu": ("cluster", "namespace", "pod", "modelName"),
    "router": ("cluster", "namespace", "name"),
    "tenant": ("cluster", "namespace", "model_name"),
    "namespace": ("cluster",),
}
"""What members that may be compared with each other have in common."""

SELECTOR = re.compile(r'[a-zA-Z_:][\w:]*(\{(\w+[=!~]+"[^"]*"(, *)?)*\})?')
FUNCTIONS = {"last": "", "max": "max_over_time", "mean": "avg_over_time", "rate": "rate", "increase": "increase"}
ENGINES = "vllm:"
"""How the series begin that only engines have."""
SCRAPED = ("cluster", "namespace", "job", "instance")
ENGINE_SIGN = f"{ENGINES}num_requests_running"
SEEN = f"present_over_time({ENGINE_SIGN}[1d])"
"""The targets that are, or within a day were, engines: `up` alone also counts every other exporter."""
MIN_OBSERVATIONS = 20
"""A quantile, mean or share of fewer events in the window says nothing."""
FEWEST_EVENTS = 3
"""A share that fewer events make up is chance, however large it is."""
FENCE = 1.5
"""Tukey's: beyond the quartiles by this many times their distance lies outside the usual swing, about 2.7 sigma."""


WHOLE = ("cluster", "namespace")
OF_POD = ("cluster", "namespace", "pod")
EXPORTER = ("job", "instance")
SHOWN_GPUS = ("gpu_util", "sm_clock")
"""The signals whose series are the GPUs that an exporter shows: any of them, since it may drop a single field."""
MISSED, COUNTED = "1h", "5m"
"""So long a GPU that is gone is missed: who does not fix it in that time has taken it out of service. And how often in
that time the GPUs of a pod are counted."""
JOIN: Mapping[Level, tuple[str, ...]] = {
    **BY_IN_RULES,
    "target": ("cluster", "namespace", "pod"),
    **dict.fromkeys(sorted(WIDE), WHOLE),
}
"""Labels on which a clause about a signal of this level may be joined with others: exporters beside the engine know
neither role nor tier, and those above the pods only the namespace (a router may name the model by an alias)."""


@dataclass(frozen=True)
class Expression:
    """A clause of a rule: an expression that has series while it holds, the labels it may be joined on, the word that
    joins its parts, where it has several, and whether some of its series carry more labels than those."""

    text: str
    by: tuple[str, ...]
    word: str = ""
    mixed: bool = False

    def joined(self, word: str, other: Expression) -> Expression:
        """`self and other`, on the labels both have; where these are all labels of both, without saying so. Those of a
        router never are: its name, and what else distinguishes its series, comes on top."""
        shared = tuple(label for label in self.by if label in other.by)
        mixed = self.mixed or other.mixed
        on = "" if self.by == other.by != WHOLE and not mixed else f" on ({', '.join(shared)})"
        chain = self.word == word or (self.word != "or" and word != "or" and bool(self.word))
        text = f"{self.text if chain else operand_of(self.text)}\n{word}{on} {operand_of(other.text)}"
        if word != "or":
            return Expression(text, self.by, word, self.mixed)
        return Expression(text, shared, word, mixed or self.by != other.by)


@dataclass(frozen=True)
class Rendering:
    """signals, tiers: the catalogue; window: of rates; history, lag: what a relative condition compares with (the
    span `history`, ending `lag` ago); extra: matchers added to every selector (dashboard variables); kept: labels by
    level of the signal, or by: the same for all; smooth: gauges as the mean of the window, not the newest sample;
    engines: series of the targets whose `up` is that of an engine; pods: one series per pod that gives its own role and
    tier; lost: the record of lost GPUs, where there is one; called: by series name, what its exporter calls labels, by
    the usual name."""

    signals: Mapping[str, Signal]
    tiers: Tiers
    window: str = "5m"
    history: str = "6h"
    lag: str = "1h"
    extra: tuple[Matcher, ...] = ()
    by: tuple[str, ...] | None = None
    kept: Mapping[Level, tuple[str, ...]] = field(default_factory=lambda: BY_IN_RULES)
    smooth: bool = False
    engines: str = SEEN
    pods: str | None = None
    lost: str | None = None
    called: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def level(self, signal: str) -> Level:
        return self.signals[signal].level

    def labels(self, signal: str) -> tuple[str, ...]:
        return self.kept[self.level(signal)] if self.by is None else self.by

    def by_limit(self, value: float | str, name: str) -> list[tuple[Rendering, float]]:
        """A limit in figures with the series of the signal that it is for: a named one is that of all tiers here."""
        return [(self, self.tiers.thresholds[value].value if isinstance(value, str) else value)]

    def once(self, condition: Condition, texts: Callable[[Rendering], Expression | None]) -> Expression | None:
        """A condition as `write` renders it. Rules record it and say the name."""
        return texts(self)

    # ---- what conditions query for ---------------------------------------------------------------------------------

    def signal(self, name: str) -> str | None:
        """The first reading of a signal that PromQL can say, under current names; None where there is none."""
        found = self.reading(name)
        if found is None:
            return None
        text = str(self._reading(found, name))
        return text if found.scale == 1.0 else f"{number(found.scale)} * {text if _is_call(text) else f'({text})'}"

    def sound(self, name: str) -> str | None:
        """The signal, and nothing where a quantile, mean or share rests on too few events."""
        text, volume = self.signal(name), self.volume(name)
        return text if text is None or volume is None else f"{text}\nand {volume} >= {MIN_OBSERVATIONS}"

    def few(self, name: str, limit: float) -> str | None:
        """What must hold besides for a share above this limit to be more than chance; None where nothing."""
        return None

    def present(self, name: str) -> str | None:
        """Series, one per entity, while the signal exists."""
        labels = ", ".join(self.labels(name))
        info = next((r.info for r in self.signals[name].readings if r.info), None)
        if info is not None:
            return f"group by ({labels}) ({selector(info, self.extra)})"
        now = self.signal(name)
        return None if now is None else f"group by ({labels}) ({now})"

    def over(self, name: str, length: str) -> str | None:
        """The signal as a range vector."""
        now = self.signal(name)
        return None if now is None else f"({now})[{length}:1m]"

    def usual(self, name: str, beyond: bool | None = None) -> str | None:
        """The usual value of a signal: the median of its history. beyond: the reader only compares a value that lies
        outside the usual swing, above (True) or below it, so that others need no usual value."""
        return self._historic(name, "0.5")

    def edge(self, name: str, up: bool) -> str | None:
        """How far the signal usually swings: the upper or lower fence of its history."""
        low, high = self._historic(name, "0.25"), self._historic(name, "0.75")
        if low is None or high is None:
            return None
        near, far = (high, low) if up else (low, high)
        return f"{number(1 + FENCE)} * {near} - {number(FENCE)} * {far}"

    def peers(self, name: str) -> str | None:
        """What the like members show, without the member itself: their mean."""
        now = self.signal(name)
        if now is None:
            return None
        like = ", ".join(LIKE[self.level(name)])
        others = f"sum by ({like}) ({now}) - on ({like}) group_right () ({now})"
        return f"({others}) / on ({like}) group_left () ((count by ({like}) ({now}) > 1) - 1)"

    def volume(self, name: str) -> str | None:
        """How many events of the window a quantile, mean or share rests on; None where that is not the question."""
        part = self.counted(name)
        return None if part is None else self._operand(part, name)

    def counted(self, name: str) -> Operand | None:
        """The events a quantile, mean or share rests on: the observations, or what a share is a share of."""
        found = self.reading(name)
        if found is None:
            return None
        histogram = found.quantile or found.mean
        if histogram:
            return observations(histogram, found, self.level(name))
        if self.signals[name].unit != "ratio" or not found.formula:
            return None
        below = formula.denominator(found.formula)
        if not isinstance(below, ast.Name) or found.terms[below.id].rate is None:
            return None
        term = found.terms[below.id]
        return operand(Term(increase=term.rate, match=term.match, agg=term.agg), self.level(name))

    # ---- how a reading is written -----------------------------------------------------------------------------------

    def reading(self, name: str) -> Reading | None:
        """The reading that PromQL can say: the newest spelling of it."""
        return next((r for r in self.signals[name].readings if self._reading(r, name) is not None), None)

    def _historic(self, name: str, quantile: str) -> str | None:
        now = self.signal(name)
        return None if now is None else f"quantile_over_time({quantile}, ({now})[{self.history}:1m] offset {self.lag})"

    def _reading(self, reading: Reading, name: str) -> str | None:
        by, level = self.labels(name), self.level(name)
        if reading.telemetry == "lost_gpus":
            return self.lost or self.lost_gpus(self.gpus_of_pods())
        if reading.quantile:
            part = buckets(reading, level)
            return f"histogram_quantile({number(reading.q or 0)}, {self._operand(part, name, (*by, 'le'))}) >= 0"
        if reading.mean:
            total, count = sum_over_count(reading, level)
            return f"{self._operand(total, name)} / ({self._operand(count, name)} > 0)"
        if reading.formula:
            return self._arithmetic(reading, name)
        single = operand(reading, level)
        return None if single is None else self._operand(single, name, codes=reading.codes)

    def gpus_of_pods(self) -> str:
        """How many GPUs the exporters show of each pod."""
        pod = ", ".join(OF_POD)
        raw = f"group by ({pod}, exported_namespace, exported_pod, {self._device}) ({self._shown_gpus})"
        return f"count by ({pod}) (group by ({pod}, {self._device}) ({owner(raw)}))"

    def lost_gpus(self, counts: str) -> str:
        """By pod the GPUs that its exporter showed lately and does not show any more, with or without a pod, while it
        shows others: else the exporter is gone. A pod that ended lost none, nor did one that has as many as before: it
        was moved, and the exporter shows only GPUs in use. What the judge does is `judging/telemetry.py`. counts:
        `gpus_of_pods` or its record."""
        now, pod = self._shown_gpus, ", ".join(OF_POD)
        before = f"last_over_time({now}[{MISSED}])"
        gone = f"({before} unless on (cluster, {self._device}) {now} and on (cluster, {', '.join(EXPORTER)}) {now})"
        text = (
            f"group by ({pod}, {self._device}) ({owner(gone)})\n"
            f"and on ({pod}) (up or {ENGINE_SIGN})\n"
            f"unless on ({pod}) {clause(f'{counts} >= max_over_time({counts}[{MISSED}:{COUNTED}])')}"
        )
        return f"count by ({pod}) {clause(text)}"

    @property
    def _gpu_series(self) -> list[str]:
        return [one.gauge for name in SHOWN_GPUS for one in self.signals[name].readings if one.gauge]

    @property
    def _shown_gpus(self) -> str:
        return selector("", (("__name__", "=~", "|".join(self._gpu_series)), *self.extra))

    @property
    def _device(self) -> str:
        """The labels of a GPU beside that of its cluster."""
        called = dict.fromkeys(self.called.get(name, {}).get("gpu", "gpu") for name in self._gpu_series)
        return ", ".join((*EXPORTER, "UUID", *called))

    def _arithmetic(self, reading: Reading, name: str) -> str | None:
        """The formula over its terms; a term with a default takes it wherever the first term without one exists."""
        terms = {key: self._term(term, name) for key, term in reading.terms.items()}
        if any(text is None for text in terms.values()):
            return None
        certain = [str(terms[key]) for key, term in reading.terms.items() if term.default is None]
        texts = {
            key: str(terms[key])
            if term.default is None or not certain
            else f"({self.however_spelled(str(terms[key]), certain)} or {number(term.default)} * {certain[0]})"
            for key, term in reading.terms.items()
        }
        return _bare(_formula(formula.parse(str(reading.formula)), texts))

    def however_spelled(self, term: str, certain: Sequence[str]) -> str:
        """A term that has a default, under all names that its series may have. certain: the terms beside it."""
        return term

    def _term(self, term: Term, name: str) -> str | None:
        single = operand(term, self.level(name))
        if single is not None:
            return self._operand(single, name)
        text = self.signal(str(term.signal))
        return text if text is None or _is_call(text) else f"({text})"

    def _operand(
        self, part: Operand, name: str, by: tuple[str, ...] | None = None, codes: tuple[float, ...] = ()
    ) -> str:
        labels = ", ".join(by or self.labels(name))
        what = selector(part.name, part.match + self.extra)
        function = "deriv" if part.fn == "change" else FUNCTIONS[part.fn]
        if part.fn == "last" and self.smooth and self.signals[name].unit != "bool":
            function = "avg_over_time"
        inner = f"{function}({what}[{self.window}])" if function else what
        if codes:
            inner = f"0 * ({' or '.join(f'{inner} == {number(code)}' for code in codes)}) + 1 or 0 * {inner}"
        own = self.called.get(part.name, {})
        for label in (label for label in own if label in (by or self.labels(name))):
            inner = f'label_replace({inner}, "{label}", "$1", "{own[label]}", "(.+)")'
        if self.level(name) == "gpu":
            inner = owner(inner)
        if part.name == "up":
            inner = f"{inner} and on ({', '.join(SCRAPED)}) {self.engines}"
        if self.pods is not None and self.level(name) in ("engine", "target", "gpu"):
            pods = f"on (cluster, namespace, pod) group_left ({', '.join(POOL)}) {clause(self.pods)}"
            inner = f"{inner if part.name != 'up' else f'({inner})'} * {pods}"
        return f"{part.agg} by ({labels}) ({inner})"


def clause(text: str) -> str:
    """A clause in parentheses: short ones on their line, longer ones indented."""
    if "\n" not in text and len(text) <= 100:
        return f"({text})"
    inner = "\n".join(f"  {line}" for line in text.splitlines())
    return f"(\n{inner}\n)"


def operand_of(text: str) -> str:
    """A clause as one side of `and`, `or`, `unless`: a plain selector needs no parentheses."""
    return text if SELECTOR.fullmatch(text) else clause(text)


def number(value: float) -> str:
    """A number as PromQL writes it, short where it is round: 0.05, 1024, 1e+09."""
    return f"{value:.12g}"


def _is_call(text: str) -> bool:
    """Whether a text is one call or aggregation, which needs no parentheses: its last bracket closes at the end."""
    if not text[:1].isalpha() or not text.endswith(")"):
        return False
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == ")" and depth == 0 and place < len(text) - 1 and not text[place + 1 :].startswith(" ("):
            return False
    return " " not in text.split("(", 1)[0].replace(" by ", "")


def _bare(text: str) -> str:
    """Without a pair of parentheses around the whole."""
    return text[1:-1] if text.startswith("(") and _is_call(f"f{text}") else text


def owner(series: str) -> str:
    """GPU series under the pod that uses the GPU: exporters scraped without honor_labels call it `exported_pod`."""
    pod = f'label_replace({series}, "pod", "$1", "exported_pod", "(.+)")'
    return f'label_replace({pod}, "namespace", "$1", "exported_namespace", "(.+)")'


def _formula(node: ast.expr, terms: Mapping[str, str]) -> str:
    """Arithmetic over rendered terms; a quotient by zero is no value, as for the judge."""
    match node:
        case ast.Name(id=name):
            return terms[name]
        case ast.Constant(value=int() | float() as value):
            return number(value)
        case ast.UnaryOp(operand=operand):
            return f"-{_formula(operand, terms)}"
        case ast.Call(func=ast.Name(id=name), args=[first, limit]):
            return f"{name}({_bare(_formula(first, terms))}, {_formula(limit, terms)})"
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            below = _formula(right, terms)
            plain = isinstance(right, ast.Constant | ast.Call)
            return f"({_formula(left, terms)} / {below if plain else f'({below} != 0)'})"
        case ast.BinOp(left=left, op=op, right=right):
            return f"({_formula(left, terms)} {formula.OPERATORS[type(op)]} {_formula(right, terms)})"
    raise FormulaError(ast.unparse(node))
