"""The wheel and the source archive: what is in them, and that they come out the same wherever they are built."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from inferdoc.catalogue.content import FOLDERS
from inferdoc.version import __version__

ROOT = Path(__file__).resolve().parents[2]
NAME = f"inferdoc_toolkit-{__version__}"
BUILD = "import sys; from hatchling import build; getattr(build, sys.argv[1])(sys.argv[2])"
"""What `pip wheel` and `python -m build` ask of the build backend, without an environment of its own: no network."""


def built(source: Path, hook: str, folder: Path) -> bytes:
    """The one file that a hook of the backend makes of a source tree."""
    folder.mkdir(parents=True)
    asked = [sys.executable, "-c", BUILD, hook, str(folder)]
    done = subprocess.run(asked, cwd=source, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = folder.iterdir()
    return made.read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """sdist/, wheel/ as built from this checkout, and tree/: the source archive unpacked, as another machine has it."""
    made = tmp_path_factory.mktemp("built")
    built(ROOT, "build_sdist", made / "sdist")
    built(ROOT, "build_wheel", made / "wheel")
    with tarfile.open(made / "sdist" / f"{NAME}.tar.gz") as archive:
        # Python 3.11.2, which Debian has, knows no filters yet (docs.python.org: "Supporting older Python versions").
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(made)
    (made / NAME).rename(made / "tree")
    for place in (made / "tree").rglob("*"):  # unpacked at another time, by somebody with another umask
        os.utime(place, (1_900_000_000, 1_900_000_000))
        place.chmod(0o775 if place.is_dir() else 0o664)
    return made


@pytest.fixture(scope="module")
def wheel(folder) -> zipfile.ZipFile:
    return zipfile.ZipFile(next((folder / "wheel").iterdir()))


def test_the_wheel_of_the_source_archive_is_that_of_the_checkout_to_the_byte(folder, tmp_path):
    first = (folder / "wheel" / f"{NAME}-py3-none-any.whl").read_bytes()
    assert built(folder / "tree", "build_wheel", tmp_path / "one") == first
    assert built(folder / "tree", "build_wheel", tmp_path / "two") == first


def test_the_source_archive_makes_itself_again_to_the_byte(folder, tmp_path):
    first = (folder / "sdist" / f"{NAME}.tar.gz").read_bytes()
    assert built(folder / "tree", "build_sdist", tmp_path / "again") == first


def test_another_content_makes_another_wheel(folder, tmp_path):
    shutil.copytree(folder / "tree", tmp_path / "tree")
    page = tmp_path / "tree" / "runbooks" / "slow-gpu.md"
    page.write_text(page.read_text("utf-8") + "\n", "utf-8")
    first = (folder / "wheel" / f"{NAME}-py3-none-any.whl").read_bytes()
    assert built(tmp_path / "tree", "build_wheel", tmp_path / "wheel") != first


def test_the_wheel_holds_the_whole_content(wheel):
    places = [*FOLDERS, "fixtures/incidents"]
    asked = ["git", "ls-files", "--", *places, "inferdoc"]
    known = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    there = [name for name in known if (ROOT / name).is_file() and "/generated/" not in name]
    assert len(there) > 500
    inside = {
        name if name.startswith("inferdoc/") else f"inferdoc/content/{name.removeprefix('fixtures/')}" for name in there
    }
    assert inside - set(wheel.namelist()) == set()


def test_the_wheel_has_no_fixtures_no_generated_files_and_no_development_machinery(wheel):
    names = [name for name in wheel.namelist() if ".dist-info/" not in name]
    assert {name.split("/")[0] for name in names} == {"inferdoc"}
    assert [name for name in names if "recordings" in name or "/generated/" in name] == [
        "inferdoc/content/alerts/generated/inferdoc-rules.yaml"
    ]
    assert sum(wheel.getinfo(name).file_size for name in names) < 9_000_000


def test_the_commands_of_the_wheel_are_inferdoc_and_the_one_that_kubectl_finds(wheel):
    entries = configparser.ConfigParser()
    entries.read_string(wheel.read(f"{NAME}.dist-info/entry_points.txt").decode())
    assert dict(entries["console_scripts"]) == dict.fromkeys(("inferdoc", "kubectl-inferdoc"), "inferdoc.cli.main:main")


def test_kubectl_runs_it_and_usage_says_so(tmp_path):
    plugin = tmp_path / "kubectl-inferdoc"
    plugin.write_text(f"#!{sys.executable}\nfrom inferdoc.cli.main import main\nmain()\n")
    plugin.chmod(0o755)
    found = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    words = ["kubectl", "inferdoc"] if shutil.which("kubectl") else [str(plugin)]
    done = subprocess.run([*words, "diagnose", "--help"], env=found, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: kubectl inferdoc diagnose")


def test_the_readme_lists_every_extra_that_a_user_installs():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    table = [line for line in (ROOT / "README.md").read_text("utf-8").splitlines() if line.startswith("| `")]
    missing = {name for name in extras if not any(f"`{name}`" in line.split(" | ")[0] for line in table)}
    assert missing == {"all", "dev", "docs", "release", "test"}
