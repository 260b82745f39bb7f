"""What values a signal can take, as its declaration shows: shares are at most 1, `1 + a / b` is at least 1."""

from __future__ import annotations

import ast
from functools import lru_cache

from inferdoc.catalogue.signal import Reading, Signal

FUNCTIONS = ("clamp_min", "clamp_max")
ALLOWED = "only names of terms, numbers, + - * / ( ), clamp_min(x, number) and clamp_max(x, number) are allowed"


class FormulaError(ValueError):
    """A formula that is not plain arithmetic."""


@lru_cache(maxsize=1024)
def names_in(formula: str) -> frozenset[str]:
    """The terms that a formula uses. Raises FormulaError where it is anything but arithmetic."""
    try:
        tree = ast.parse(formula.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise FormulaError(f'"{formula}" is not arithmetic') from None
    return frozenset(_names(tree, formula))


def _names(node: ast.expr, formula: str) -> set[str]:
    match node:
        case ast.Name(id=name):
            return {name}
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return set()
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _names(operand, formula)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            return _names(left, formula) | _names(right, formula)
        case ast.Call(func=ast.Name(id=name), args=[first, ast.Constant(value=int() | float())], keywords=[]) if (
            name in FUNCTIONS
        ):
            return _names(first, formula)
    raise FormulaError(f'"{formula}": {ALLOWED}')


Span = tuple[float, float]
"""The least and the most."""
ANY: Span = (0.0, float("inf"))
"""What is counted or measured is never below 0."""


def span(signal: Signal) -> Span:
    """Over all readings; `top` where it is declared."""
    found = [_of_reading(reading) for reading in signal.readings]
    low = min((low for low, _ in found), default=0.0)
    high = max((high for _, high in found), default=float("inf"))
    if signal.unit == "bool":
        high = min(high, 1.0)
    return low, high if signal.top is None else min(high, signal.top)


def _of_reading(reading: Reading) -> Span:
    if reading.codes:
        return 0.0, 1.0
    if not reading.formula:
        return ANY
    if any(term.change is not None or term.signal is not None for term in reading.terms.values()):
        return float("-inf"), float("inf")
    low, high = _value(ast.parse(reading.formula.strip(), mode="eval").body)
    return low * reading.scale, high * reading.scale


def _value(node: ast.expr) -> Span:
    """Interval arithmetic, wide where in doubt: one term that stands twice counts as two."""
    match node:
        case ast.Name():
            return ANY
        case ast.Constant(value=int() | float() as number):
            return float(number), float(number)
        case ast.UnaryOp(operand=operand):
            low, high = _value(operand)
            return -high, -low
        case ast.Call(func=ast.Name(id=name), args=[first, ast.Constant(value=int() | float() as limit)]):
            low, high = _value(first)
            return (max(low, limit), max(high, limit)) if name == "clamp_min" else (min(low, limit), min(high, limit))
        case ast.BinOp(left=left, op=op, right=right):
            one, two = _value(left), _value(right)
            if isinstance(op, ast.Add):
                return one[0] + two[0], one[1] + two[1]
            if isinstance(op, ast.Sub):
                return one[0] - two[1], one[1] - two[0]
            if one[0] >= 0 and two[0] >= 0:
                return 0.0, float("inf")
    return float("-inf"), float("inf")


def deciding(factor: float, by: float, up: bool, signal: Signal) -> tuple[str, ...]:
    """Which of the two limits on a comparison can decide, "factor" (so many times the usual value) or "by" (so much
    beyond it): one that the other implies wherever the signal can stand says nothing. Of what is on or off, by how much
    it changed; where codes say which, it is 0 or 1 and any change counts."""
    low, high = span(signal)
    if all(reading.codes for reading in signal.readings):
        return ()
    if not by:
        return ("factor",)
    if factor == 1.0 or signal.unit == "bool":
        return ("by",)
    crossing = by / abs(factor - 1.0)
    if up:
        factor_decides, by_decides = factor * crossing < high, low < crossing and low + by < high
    else:
        factor_decides, by_decides = crossing < high, crossing - by > low
    kept = [name for name, decides in (("factor", factor_decides), ("by", by_decides)) if decides]
    return tuple(kept) or ("factor", "by")
