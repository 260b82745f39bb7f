"""packaging/build.py as a module, and the programs that the packages are rendered with."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
BIN = ROOT / "build" / "bin"


def _module(name: str) -> ModuleType:
    """By its path: a distribution that many tools bring is called `packaging`."""
    spec = importlib.util.spec_from_file_location(f"inferdoc_packaging_{name}", PACKAGING / f"{name}.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


build = _module("build")
release = _module("release")


def program(name: str) -> str:
    """Where helm or kubectl is; the test is skipped where it is not."""
    place = shutil.which(name, path=f"{BIN}{os.pathsep}{os.environ['PATH']}")
    if place is None:
        pytest.skip(f"{name} is not on the PATH nor in build/bin: make packages")
    return place


def kustomized(folder: Path) -> list[dict[str, Any]]:
    """The objects of a kustomization."""
    words = [program("kubectl"), "kustomize", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.load_all(done.stdout, yaml.CSafeLoader))


def rendered(values: dict[str, Any] | None = None, name: str = "inferdoc", namespace: str = "inferdoc") -> list[Any]:
    """The objects of the chart."""
    program("helm")
    return list(build.rendered(values, name, namespace))


def refused(values: dict[str, Any]) -> str:
    """What Helm says of values that it does not take."""
    program("helm")
    with pytest.raises(subprocess.CalledProcessError) as fault:
        build.rendered(values)
    return str(fault.value.stderr)


def one(objects: list[Any], kind: str, name: str | None = None) -> dict[str, Any]:
    """The object of a kind, and of a name where there are several."""
    (found,) = (o for o in objects if o["kind"] == kind and name in (None, o["metadata"]["name"]))
    return found
