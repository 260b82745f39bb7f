"""Evaluates and renders the arithmetic of `formula:` readings."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from inferdoc.catalogue.span import FormulaError, names_in

FUNCTIONS = {"clamp_min": np.fmax, "clamp_max": np.fmin}
ARITHMETIC = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide}
OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


@lru_cache(maxsize=512)
def parse(text: str) -> ast.expr:
    """The syntax tree of a formula, whose grammar the catalogue has checked. Raises FormulaError."""
    names_in(text)
    return ast.parse(text.strip(), mode="eval").body


def evaluate(text: str, terms: Mapping[str, np.ndarray]) -> np.ndarray:
    """The formula over arrays of one shape; x / 0 and 0 / 0 are NaN ("not applicable"), never infinite."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        result = np.asarray(_value(parse(text), terms), dtype=np.float64)
    return np.where(np.isfinite(result), result, np.nan)


def _value(node: ast.expr, terms: Mapping[str, np.ndarray]) -> np.ndarray:
    match node:
        case ast.Name(id=name):
            return terms[name]
        case ast.Constant(value=int() | float() as number):
            return np.asarray(number, dtype=np.float64)
        case ast.UnaryOp(operand=operand):
            return np.asarray(np.negative(_value(operand, terms)))
        case ast.Call(func=ast.Name(id=function), args=[first, limit]):
            clamped = _value(first, terms)
            return np.where(np.isnan(clamped), np.nan, FUNCTIONS[function](clamped, _value(limit, terms)))
        case ast.BinOp(left=left, op=op, right=right):
            return np.asarray(ARITHMETIC[type(op)](_value(left, terms), _value(right, terms)))
    raise FormulaError(ast.unparse(node))


def denominator(text: str) -> ast.expr | None:
    """What the one division of a formula divides by; None for none or several."""
    quotients = [n.right for n in ast.walk(parse(text)) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    return quotients[0] if len(quotients) == 1 else None


def render(text: str, term: Callable[[str], str]) -> str:
    """The formula as PromQL, with each term name replaced by what `term` returns for it."""
    return _render(parse(text), term)


def _render(node: ast.expr, term: Callable[[str], str]) -> str:
    match node:
        case ast.Name(id=name):
            return f"({term(name)})"
        case ast.Constant(value=int() | float() as number):
            return f"{number:g}"
        case ast.UnaryOp(operand=operand):
            return f"-{_render(operand, term)}"
        case ast.Call(func=ast.Name(id=function), args=[first, limit]):
            return f"{function}({_render(first, term)}, {_render(limit, term)})"
        case ast.BinOp(left=left, op=op, right=right):
            return f"({_render(left, term)} {OPERATORS[type(op)]} {_render(right, term)})"
    raise FormulaError(ast.unparse(node))
