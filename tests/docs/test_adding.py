"""docs/adding: each page fits on a screen, and whoever follows it to the letter in a checkout succeeds."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from inferdoc.prewarm.plan import to_json
from tests.prewarm.plans import office_plan

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "adding").glob("*.md"))
CHECKOUT = (
    "inferdoc",
    "inferdoc_dev",
    "collectors",
    "diagnostics",
    "dashboards",
    "alerts",
    "runbooks",
    "docs",
    "fixtures/incidents",
    "fixtures/pages",
)
LINES, COLUMNS = 70, 132
STEP = re.compile(
    r"after\s+the line `(?P<line>[^`]+)` of `(?P<into>[^`]+)`"
    r"|^Write `(?P<file>[^`]+)`"
    r"|^```(?P<kind>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
GENERATES = pytest.mark.takes_long("runs make generate in a copy of the checkout")
COMMANDS = {
    "inferdoc": [sys.executable, "-c", "from inferdoc.cli.main import main; main()"],
    "make": [sys.executable, "-m", "inferdoc_dev.generate"],
}


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A checkout that a test may change."""
    for name in CHECKOUT:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def follow(page: Path, checkout: Path) -> list[str]:
    """Do what the page says; the output of each command."""
    outputs, line, place = [], "", None
    for step in STEP.finditer(page.read_text("utf-8")):
        if step["into"]:
            line, place = step["line"], checkout / step["into"]
        elif step["file"]:
            line, place = "", checkout / step["file"]
        elif step["kind"] == "sh":
            outputs += [run(words, checkout) for words in step["text"].splitlines()]
        elif place is not None:
            before = place.read_text("utf-8") if line else ""
            assert not line or before.count(f"\n{line}\n") == 1, f"{place}: {line}"
            place.write_text(
                before.replace(f"\n{line}\n", f"\n{line}\n{step['text']}") if line else step["text"], "utf-8"
            )
            place = None
    return outputs


def run(command: str, checkout: Path) -> str:
    """Output of a command of a page. It must exit 0."""
    name, *words = shlex.split(command, comments=True)
    words = [] if (name, words) == ("make", ["generate"]) else words
    home = {"HOME": str(checkout), "PATH": os.environ["PATH"], "PYTHONPATH": str(checkout), "COLUMNS": "200"}
    done = subprocess.run(
        [*COMMANDS[name], *words], cwd=checkout, env=home, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_fits_on_a_screen(page):
    lines = page.read_text("utf-8").splitlines()
    assert len(lines) <= LINES and max(map(len, lines)) <= COLUMNS


@GENERATES
def test_a_cause_is_added_as_the_page_says(checkout):
    outputs = follow(ROOT / "docs" / "adding" / "cause.md", checkout)
    assert "runaway-answers.yaml: good" in outputs[1] and "right: runaway-answers is the first finding" in outputs[2]
    assert "InferdocRunawayAnswers" in (checkout / "alerts" / "generated" / "inferdoc-rules.yaml").read_text("utf-8")
    assert "All of these, on one pod" in (checkout / "runbooks" / "runaway-answers.md").read_text("utf-8")
    assert "no test" not in outputs[3], "the rule has a unit test"


@GENERATES
def test_a_tier_is_added_as_the_page_says(checkout):
    outputs = follow(ROOT / "docs" / "adding" / "tier.md", checkout)
    assert "NVIDIA L20" in outputs[1] or "l20-48" in outputs[1]
    assert "SM clock" in outputs[3] or "sm_clock" in outputs[3]
    assert "l20-48" in (checkout / "alerts" / "generated" / "relabelling.yaml").read_text("utf-8")


@GENERATES
def test_a_metric_is_added_as_the_page_says(checkout):
    outputs = follow(ROOT / "docs" / "adding" / "metric.md", checkout)
    assert re.search(r"^paused +requests +Requests paused", outputs[1], re.MULTILINE)
    assert "0.34" in (checkout / "docs" / "versions.md").read_text("utf-8")


def test_a_target_is_added_as_the_page_says(checkout):
    (checkout / "plan.json").write_text(to_json(office_plan()), "utf-8")
    (checked,) = follow(ROOT / "docs" / "adding" / "target.md", checkout)
    assert len(checked.splitlines()) == 7 and checked.count("equal") == 7
    module = checkout / "inferdoc" / "prewarm" / "emit" / "floor_file.py"
    module.write_text(module.read_text("utf-8").replace("pool.at(options.now)", "pool.row.base"), "utf-8")
    with pytest.raises(AssertionError, match="plan 11, floor-file 2"):
        run("inferdoc prewarm check --plan plan.json --target floor-file", checkout)
