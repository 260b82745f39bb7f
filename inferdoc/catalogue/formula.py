"""The arithmetic of derived signals: terms, numbers, + - * /, parentheses, clamp_min and clamp_max; nothing else."""

from __future__ import annotations

import ast
from functools import lru_cache

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
