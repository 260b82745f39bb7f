"""Rules with one mistake each, as people make them: a test that lets one pass does not hold its rule."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from inferdoc.generate.promql_words import COMPARATORS, Word, clauses, closing, words
from inferdoc.times import length_of

Rule = Mapping[str, Any]
FLIPPED = {"==": "!=", "!=": "==", ">": "<", "<": ">", ">=": "<=", "<=": ">="}
PARAMETERS = ("quantile", "quantile_over_time", "histogram_quantile", "topk", "bottomk", "limitk", "vector")
"""Their first argument is no limit."""
SHOWN = 34


@dataclass(frozen=True)
class Mutant:
    """operator: the kind of mistake; nth: which of its kind in the rule; place: what stood there."""

    operator: str
    nth: int
    place: str


def mutants(rule: Rule, interval: float = 1.0) -> Iterator[Mutant]:
    """Every mistake of every kind in one rule, alert or record. Raises ValueError where its expression has no words.
    interval: seconds between two evaluations: half a wait that ends at the same one is no mistake."""
    for operator in OPERATORS:
        if operator == "for halved" and rule.get("for") and _waits(rule, 1, interval) == _waits(rule, 2, interval):
            continue
        for nth, (place, _) in enumerate(_changes(rule, operator)):
            yield Mutant(operator, nth, place)


def mutated(rule: Rule, mutant: Mutant) -> dict[str, Any]:
    """The rule with the mistake. Raises StopIteration where the rule has no such place."""
    return next(islice((changed for _, changed in _changes(rule, mutant.operator)), mutant.nth, None))


def _changes(rule: Rule, operator: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What stood at each place where a kind of mistake can be made, and the rule with it."""
    if operator in EXPRESSION:
        for place, expr in EXPRESSION[operator](str(rule["expr"])):
            yield place, {**rule, "expr": expr}
        return
    field, _, change = operator.partition(" ")
    if rule.get(field):
        half = {field: f"{round(500 * length_of(rule[field]))}ms"} if change == "halved" else {}
        yield f"{field} {rule[field]}", {**{key: rule[key] for key in rule if key != field}, **half}


def _waits(rule: Rule, part: int, interval: float) -> int:
    """After how many evaluations a part of its wait is over."""
    return math.ceil(length_of(rule["for"]) / part / interval)


Changed = Iterator[tuple[str, str]]
"""What stood there, and the expression as it is now."""


def _comparators(expr: str) -> Changed:
    for word in words(expr):
        if word.kind == "sign" and word.text in COMPARATORS and not word.in_selector:
            yield _around(expr, word), _with(expr, word, FLIPPED[word.text])


def _scaled(factor: float) -> Callable[[str], Changed]:
    def change(expr: str) -> Changed:
        for word in _limits(expr):
            yield _around(expr, word), _with(expr, word, f"{float(word.text) * factor:.12g}")

    return change


def _limits(expr: str) -> Iterator[Word]:
    """Numbers that decide: no zero, which is neither halved nor doubled, and no parameter of a function."""
    found = words(expr)
    functions: list[str] = []
    for number, word in enumerate(found):
        before = found[number - 1] if number else None
        if word.text == "(":
            functions.append(_function(found, number))
        elif word.text == ")":
            functions.pop()
        elif word.kind == "number" and not word.inside.endswith(("{", "[")) and float(word.text):
            first = before is not None and before.text == "("
            if not (first and functions and functions[-1] in PARAMETERS):
                yield word


def _function(found: list[Word], number: int) -> str:
    """The function whose arguments begin at a bracket: its name stands before it, or before `by (...)`."""
    before = number - 1
    if before >= 0 and found[before].text == ")":
        begin = next(
            n for n in range(before, -1, -1) if found[n].text == "(" and found[n].inside == found[before].inside
        )
        before = begin - 2 if begin >= 2 and found[begin - 1].text in ("by", "without") else -1
    return found[before].text if before >= 0 and found[before].kind == "name" else ""


def _totals(expr: str) -> Changed:
    for word in words(expr):
        if word.kind == "name" and word.text.endswith("_total") and not word.in_selector:
            yield word.text, _with(expr, word, word.text.removesuffix("_total"))


def _matchers(expr: str) -> Changed:
    """Without one of the matchers of a selector; the last one of a selector without a name has to stay."""
    found = words(expr)
    for number, word in enumerate(found):
        if word.text != "{":
            continue
        end = closing(found, number)
        starts = [n for n in range(number + 1, end) if found[n].kind == "name" and found[n + 1].text != ","]
        named = number > 0 and found[number - 1].kind == "name" and found[number - 1].end == word.start
        if not named and len(starts) < 2:
            continue
        for at in (n for n in starts if found[n].text != "__name__"):
            rest = [expr[found[n].start : found[n + 2].end] for n in starts if n != at]
            text = f"{expr[: word.start]}{'{' + ','.join(rest) + '}' if rest else ''}{expr[found[end].end :]}"
            yield expr[found[at].start : found[at + 2].end], text


def _unless(expr: str) -> Changed:
    found = words(expr)
    for first, last in clauses(found, "unless"):
        start, end = found[first].start, found[last].end
        yield _short(expr[start:end]), f"{expr[:start].rstrip()} {expr[end:].lstrip()}".strip()


EXPRESSION: dict[str, Callable[[str], Changed]] = {
    "comparator flipped": _comparators,
    "threshold halved": _scaled(0.5),
    "threshold doubled": _scaled(2.0),
    "_total dropped": _totals,
    "matcher dropped": _matchers,
    "unless removed": _unless,
}
OPERATORS = (*EXPRESSION, "for removed", "for halved", "keep_firing_for removed")
OF_RAW_SERIES = ("_total dropped", "matcher dropped")
"""Mistakes that are made where series are read, and so in recording rules."""


def _with(expr: str, word: Word, text: str) -> str:
    return f"{expr[: word.start]}{text}{expr[word.end :]}"


def _around(expr: str, word: Word) -> str:
    return _short(expr[max(0, word.start - SHOWN) : word.end + SHOWN // 2])


def _short(text: str) -> str:
    flat = re.sub(r"\s+", " ", text).strip()
    return flat if len(flat) <= 2 * SHOWN else f"{flat[: 2 * SHOWN]}..."
