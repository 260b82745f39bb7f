"""An overlay folder and a recipe that is sound, for tests that break one thing at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

RECIPE = """\
id: {id}
title: Queue grows without end
phase: queue
scope: pod
severity: warning
observations:
  line_grows: {{signal: waiting, rises: 2.0, for: 30s}}
  tail_late: {{signal: ttft_p99, rises: 1.5}}
needs: [line_grows]
impact: [tail_late]
next_steps:
  - do: Add a replica.
    why: The queue grows faster than it drains.
    cost: One more GPU.
    undo: Remove the replica.
sources: ["field guide, section 9.3"]
"""

Write = Callable[[str, str], Path]


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """An empty catalogue folder of a user."""
    folder = tmp_path / "mine"
    for name in ("collectors", "diagnostics"):
        (folder / name).mkdir(parents=True)
    return folder


@pytest.fixture
def write(overlay: Path) -> Write:
    """Writes a file of the overlay: path inside it, text."""

    def file(name: str, text: str) -> Path:
        path = overlay / name
        path.write_text(dedent(text), encoding="utf-8")
        return path

    return file


def recipe(name: str, old: str = "", new: str = "") -> str:
    """A sound recipe of this id, with one piece of text replaced."""
    text = RECIPE.format(id=name)
    assert not old or old in text
    return text.replace(old, new) if old else text
