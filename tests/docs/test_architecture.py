"""What ARCHITECTURE.md names exists."""

from __future__ import annotations

import re

from tests.conftest import ROOT
from tests.test_layers import LAYERS

TEXT = (ROOT / "ARCHITECTURE.md").read_text("utf-8")


def test_every_file_that_is_named_exists():
    code = " ".join(re.findall(r"`([^`\n]+)`", TEXT)) + re.search(r"```text\n(.*?)```", TEXT, re.S)[1]
    names = {*re.findall(r"[\w/.-]+\.py\b", code)}
    there = {str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if ".venv" not in path.parts}
    assert len(names) > 30
    assert [name for name in names if not any(f"/{path}".endswith(f"/{name}") for path in there)] == []


def test_every_package_has_a_row():
    packages = {path.name for path in (ROOT / "inferdoc").iterdir() if (path / "__init__.py").exists()}
    named = {*re.findall(r"`(\w+)`", TEXT[: TEXT.index("## A scrape")])}
    assert len(packages) > 20 and packages - named == set()
    assert packages <= {part for parts in LAYERS for part in parts}
