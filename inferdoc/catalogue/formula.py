"""The arithmetic of derived signals: names of terms, numbers, + - * / and parentheses, nothing else."""

from __future__ import annotations

import ast
from functools import lru_cache


class FormulaError(ValueError):
    """A formula that is not plain arithmetic."""


@lru_cache(maxsize=1024)
def parse(formula: str) -> ast.expr:
    """The expression tree, of which every node is a BinOp (+ - * /), a UnaryOp (+ -), a Name or a number.

    Raises FormulaError for anything else.
    """
    try:
        tree = ast.parse(formula.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise FormulaError(f'"{formula}" is not arithmetic over terms') from None
    for node in ast.walk(tree):
        if not _allowed(node):
            raise FormulaError(f'"{formula}": only names of terms, numbers, + - * / and parentheses are allowed')
    return tree


def names_in(formula: str) -> frozenset[str]:
    """The terms that a formula uses. Raises FormulaError."""
    return frozenset(node.id for node in ast.walk(parse(formula)) if isinstance(node, ast.Name))


def _allowed(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    arithmetic = (ast.BinOp, ast.UnaryOp, ast.Name, ast.Load, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.UAdd, ast.USub)
    return isinstance(node, arithmetic)
