"""Other distributions with our module or command, as pip leaves them in a folder."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from inferdoc.installed import rivals
from tests.cli.command import call

COMMAND = "[console_scripts]\ninferdoc = inferdoc.main:app\n"


def pip_left(folder: Path, name: str, version: str, **files: str) -> None:
    place = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")
    for file, text in files.items():
        (place / {"entries": "entry_points.txt", "top": "top_level.txt"}.get(file, file)).write_text(text, "utf-8")


@pytest.mark.parametrize(
    ("name", "files", "told"),
    [
        ("inferdoc", {"RECORD": "inferdoc/__init__.py,sha256=x,1\n", "entries": COMMAND}, ["inferdoc 0.3"]),
        ("inferdoc", {"RECORD": "inferdoc-0.3.dist-info/METADATA,,\ninferdoc/__init__.py,,\n"}, ["inferdoc 0.3"]),
        ("old-style", {"top": "inferdoc\n"}, ["old-style 0.3"]),
        ("wrapper", {"entries": COMMAND}, ["wrapper 0.3"]),
        ("inferdoc-toolkit", {"RECORD": "inferdoc/__init__.py,,\n", "entries": COMMAND}, []),
        ("Inferdoc_Toolkit", {"RECORD": "inferdoc/__init__.py,,\n"}, []),
        ("numpy", {"RECORD": "numpy/__init__.py,,\nnumpy/inferdoc/__init__.py,,\n", "top": "numpy\n"}, []),
        ("inferdocs", {"RECORD": "inferdocs/__init__.py,,\n"}, []),
    ],
)
def test_who_else_brings_the_module_or_the_command(tmp_path, name, files, told):
    pip_left(tmp_path, name, "0.3", **files)
    assert rivals(metadata.distributions(path=[str(tmp_path)])) == told


def test_the_doctor_says_it_with_the_cure(monkeypatch, store_of, tmp_path):
    def told() -> str:
        return " ".join(call("doctor", "--store", store_of("control-steady")).out.split())

    assert told().startswith("source store")
    pip_left(tmp_path, "inferdoc", "0.3", entries=COMMAND)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert told().startswith("installed inferdoc 0.3 brings the same module or command as inferdoc-toolkit")
    assert "pip uninstall inferdoc, and install inferdoc-toolkit again source store" in told()
