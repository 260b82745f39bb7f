"""Tables of docs/ that a benchmark made show when, at which commit and by which command."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import measured
import pytest

DOCS = Path(__file__).parents[2] / "docs"
MEASURED = re.compile(
    r"Measured \d{4}-\d\d-\d\d at (commit [0-9a-f]{8}( with uncommitted changes)?|unknown commit) \(`[^`]+`\)\."
)
NAMES_SCRIPT = re.compile(r"(?<![\w/])benchmarks/[\w/]+\.py")
TABLE = re.compile(r"^\|[ :|-]+\|\n\|[^\n]*\d", re.MULTILINE)


def sections(page: Path) -> Iterator[tuple[str, str]]:
    """Heading and text of each section, without the sections below it."""
    _, *parts = re.split(r"^(#+ .*)$", "\n" + page.read_text("utf-8"), flags=re.MULTILINE)
    yield from zip(parts[::2], parts[1::2], strict=True)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_a_section_with_a_table_of_a_script_shows_when_it_was_measured(page):
    parts = list(sections(page))
    found = {heading: bool(MEASURED.search(text)) for heading, text in parts}
    made = [heading for heading, text in parts if NAMES_SCRIPT.search(heading + text) and TABLE.search(text)]
    assert [heading for heading in made if not found[heading]] == []
    if NAMES_SCRIPT.search(parts[0][1]) and any(TABLE.search(text) for _, text in parts):
        assert any(found.values()), "the introduction names a script, and no table shows when it was measured"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_lines_have_one_form(page):
    lines = [line for line in page.read_text("utf-8").splitlines() if "Measured 20" in line]
    assert [line for line in lines if not MEASURED.search(line)] == []


def test_a_script_states_date_commit_and_command(monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(DOCS.parent / "benchmarks" / "kv.py"), "prefixes, small", "--minutes", "5"])
    line = measured.measured_line()
    assert MEASURED.fullmatch(line)
    assert line.endswith("(`python benchmarks/kv.py 'prefixes, small' --minutes 5`).")
    monkeypatch.setattr(sys, "argv", [str(DOCS.parent / "benchmarks" / "real_vllm" / "__main__.py")])
    assert measured.command() == "python -m benchmarks.real_vllm"


def test_outside_a_checkout_the_commit_is_unknown(monkeypatch, tmp_path):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setattr(measured, "ROOT", tmp_path)
    assert measured.commit.__wrapped__() == "unknown commit"
    monkeypatch.setenv("PATH", "")
    assert measured.commit.__wrapped__() == "unknown commit"


def test_uncommitted_changes_are_stated(monkeypatch, tmp_path):
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True)

    git("init")
    (tmp_path / "inferdoc").mkdir()
    (tmp_path / "inferdoc" / "a.py").write_text("", "utf-8")
    git("add", ".")
    git("commit", "-m", "a")
    monkeypatch.setattr(measured, "ROOT", tmp_path)
    assert re.fullmatch(r"commit [0-9a-f]{8}", measured.commit.__wrapped__())
    (tmp_path / "inferdoc" / "a.py").write_text("1", "utf-8")
    assert re.fullmatch(r"commit [0-9a-f]{8} with uncommitted changes", measured.commit.__wrapped__())
