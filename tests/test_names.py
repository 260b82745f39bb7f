"""One name, one thing: whoever greps for a class lands on it."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import inferdoc

PACKAGE = Path(inferdoc.__file__).parent


def classes() -> dict[str, list[str]]:
    """Name of a class -> the modules that define one."""
    held: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                held[node.name].append(str(path.relative_to(PACKAGE)))
    return held


def test_no_two_classes_share_a_name():
    assert {name: places for name, places in classes().items() if len(places) > 1} == {}
