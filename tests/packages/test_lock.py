"""What the image and CI install is locked: each package by version and hash, and as pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ENTRY = re.compile(r"([\w.-]+)==([\w.!+-]+)( ; [^\\]+?)? \\((\n    --hash=sha256:[0-9a-f]{64}( \\)?)+)\n")
FILES = {"requirements.txt": ("all",), "requirements-ci.txt": ("test", "dev", "release")}


def locked(file: str) -> dict[str, list[str]]:
    """The locked versions of each package, one for each range of Pythons. The file holds nothing else."""
    text, end = (ROOT / "packaging" / file).read_text("utf-8"), 0
    found: dict[str, list[str]] = {}
    while end < len(text):
        entry = ENTRY.match(text, end)
        assert entry is not None, f"{file}: {text[end : end + 80]!r} has no version with a hash"
        found.setdefault(canonicalize_name(entry[1]), []).append(entry[2])
        end = entry.end()
    return found


def asked(lines: list[str]) -> Iterator[Requirement]:
    """Requirements with those of the project's own extras that they name."""
    for requirement in map(Requirement, lines):
        if requirement.name == PROJECT["name"]:
            for extra in requirement.extras:
                yield from asked(PROJECT["optional-dependencies"][extra])
        else:
            yield requirement


@pytest.mark.parametrize("file", FILES)
def test_every_dependency_is_locked_with_hashes_at_a_version_that_fits(file):
    versions = locked(file)
    own_extras = [f"{PROJECT['name']}[{extra}]" for extra in FILES[file]]
    for requirement in asked([*PROJECT["dependencies"], *own_extras]):
        own = versions.get(canonicalize_name(requirement.name), [])
        assert own and all(requirement.specifier.contains(each) for each in own), f"{requirement}: run make lock"


def test_the_image_installs_nothing_that_is_not_locked():
    text = (ROOT / "packaging" / "Containerfile").read_text("utf-8")
    installs = re.findall(r"-m pip .* install (.*)", text)
    assert len(installs) == 2
    assert all("--require-hashes --requirement /wheel/requirements.txt" in i or "--no-deps" in i for i in installs)
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    assert ci.index("--require-hashes --requirement packaging/requirements-ci.txt") < ci.index("\nmake test\n")
