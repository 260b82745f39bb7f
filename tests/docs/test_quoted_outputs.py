"""Every output that a page of docs/ quotes is what its command prints on the fixture that the page names.

A comment names the fixture (tests/docs/fixtures.py), the first line of the block the command; `...` leaves out lines.
"""

from __future__ import annotations

import re
import shlex
import shutil
from fnmatch import filter as matching
from pathlib import Path

import pytest

from tests.cli.command import alone, call
from tests.docs.fixtures import folder_of

__all__ = ["alone"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
FENCE = re.compile(r"(?:^<!-- fixture: (\w+) -->\n)?^ *```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
BLOCKS = [
    (page.name, *fence.groups())
    for page in sorted(DOCS.rglob("*.md"))
    for fence in FENCE.finditer(page.read_text("utf-8"))
]
QUOTED = [(page, fixture, text) for page, fixture, language, text in BLOCKS if language == "text"]
COLUMNS = 100


def printed(fixture: str, command: str) -> str:
    """What a command line prints in the folder of a fixture, 100 columns wide."""
    shutil.copytree(folder_of(fixture), Path(), dirs_exist_ok=True)
    name, *words = shlex.split(command)
    files = [str(path) for path in sorted(Path().iterdir())]
    done = call(*(one for word in words for one in (matching(files, word) if "*" in word else [word])))
    assert name == "inferdoc" and done.err == "", done.err
    return done.out


def pattern(text: str) -> str:
    """The outputs that a block quotes; a line `...` stands for any lines."""
    return "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + r" *\n" for line in text.splitlines())


def test_every_block_states_its_language_and_every_output_its_fixture():
    assert [(page, text) for page, _, language, text in BLOCKS if not language] == []
    assert [(page, text) for page, fixture, text in QUOTED if not fixture or not text.startswith("$ inferdoc ")] == []


@pytest.mark.takes_long("simulates fleets, and calibrates a simulator")
@pytest.mark.parametrize(("page", "fixture", "text"), QUOTED, ids=[f"{page}-{name}" for page, name, _ in QUOTED])
def test_an_output_is_what_its_command_prints(page, fixture, text, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    command, _, shown = text.removeprefix("$ ").replace("\\\n", "").partition("\n")
    output = printed(fixture, command)
    if not re.fullmatch(pattern(shown) + r"\n*", output):
        pytest.fail(f"docs/{page} quotes what `{command}` does not print. It prints\n{output}", pytrace=False)
