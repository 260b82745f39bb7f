"""The core runs without the packages of the extras; what needs one says so in one line; and the core is small."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import inferdoc
from inferdoc.errors import InferdocError
from inferdoc.extras import DISTRIBUTION, extra_of, install, needed

HEAVY = ("grafanalib", "matplotlib", "pandas", "scipy", "sklearn", "statsmodels")
LARGEST_MB = 120
CORE = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {heavy}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name.partition(".")[0] in {heavy} else real(name, package)
from inferdoc.cli.main import main
sys.argv = ["inferdoc", *sys.argv[1:]]
main()
"""


def core(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process in which the packages of the extras cannot be imported."""
    script = folder / "core.py"
    script.write_text(CORE.format(heavy=set(HEAVY)))
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, str(script), *words], capture_output=True, text=True, cwd=folder, env=environment, check=False
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    """A store with a fault, in a folder whose configuration knows no cause for it: then signals are ranked."""
    folder = tmp_path_factory.mktemp("core")
    path = folder / "fleet.db"
    (folder / "inferdoc.toml").write_text('[recipes]\ndisabled = ["slow-gpu", "gpu-clock-throttle"]\n')
    done = core(folder, "simulate", "--scenario", "slow-gpu", "--store", str(path))
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.parametrize(
    "words",
    [("diagnose", "--since", "30m"), ("diagnose", "-o", "html"), ("doctor",), ("signals", "--health"), ("audit",)],
)
def test_the_core_runs_without_the_extras(store, words):
    done = core(store.parent, *words, "--until", "latest", "--store", str(store))
    assert done.returncode in (0, 1) and done.stdout, done.stderr
    assert "Traceback" not in done.stderr


def test_rules_are_built_without_the_extras(tmp_path):
    done = core(tmp_path, "alerts", "build", "--out", "alerts")
    assert done.returncode == 0 and list(tmp_path.glob("alerts/*.yaml")), done.stderr


def test_without_the_forest_signals_are_ranked_all_the_same_and_the_answer_says_so(store):
    done = core(store.parent, "diagnose", "--until", "latest", "-o", "json", "--store", str(store))
    answer = json.loads(done.stdout)
    finding = next(f for f in answer["findings"] if f["id"] in ("unexplained-anomaly", f["family"]))
    assert any(piece["role"] == "support" for piece in finding["evidence"])
    assert any("pip install 'inferdoc-toolkit[anomaly]'" in text for text in answer["source"]["warnings"])


@pytest.mark.parametrize(
    ("words", "package", "extra"),
    [(("dashboards", "build", "--out", "boards"), "grafanalib", "boards")],
)
def test_what_needs_an_extra_says_so_in_one_line(tmp_path, words, package, extra):
    done = core(tmp_path, *words)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and package in done.stderr and f"{DISTRIBUTION}[{extra}]" in done.stderr


def test_the_extra_of_a_package_is_read_from_the_distribution():
    assert extra_of("statsmodels") == "forecast" and extra_of("scikit-learn") == "anomaly"
    assert extra_of("numpy") is None and install("leftpad") == "pip install leftpad"


def test_a_missing_package_is_one_line():
    line = r"a plot needs matplotlib; install it with: .*\[report\]"
    with pytest.raises(InferdocError, match=line), needed("matplotlib", "a plot"):
        raise ModuleNotFoundError("No module named 'matplotlib'")


def test_the_core_is_small():
    """What `pip install` of the core brings, on the disk of this machine."""
    names, seen = [DISTRIBUTION], set()
    while names:
        name = names.pop()
        if name in seen:
            continue
        seen.add(name)
        for wanted in metadata.requires(name) or []:
            if "extra ==" not in wanted and "sys_platform ==" not in wanted and "python_version <" not in wanted:
                names.append(re.match(r"[A-Za-z0-9._-]+", wanted)[0])
    assert "numpy" in seen and not seen & {"pandas", "scikit-learn", "statsmodels", "matplotlib", "grafanalib"}
    places = {Path(str(entry.locate())) for name in seen - {DISTRIBUTION} for entry in metadata.files(name) or []}
    own = [path for path in Path(inferdoc.__file__).parent.rglob("*") if path.is_file()]
    total = sum(path.stat().st_size for path in (*places, *own) if path.is_file())
    assert total < LARGEST_MB * 1e6, f"{total / 1e6:.0f} MB"
    print(f"{total / 1e6:.0f} MB")
