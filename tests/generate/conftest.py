"""What the tests of generated files share."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.pack import RECORDING, RULES, Pack, build_pack
from inferdoc_dev.rule_tests.pack_tests import PackTests, build_tests
from tests.built import built

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "alerts" / "generated"


def few_causes() -> str:
    """A configuration by which a pack is built in a second: test_rules.py builds the whole one."""
    kept = {"engine-down", "kv-preemption-thrash", "telemetry-artifact"}
    return f"[recipes]\ndisabled = {json.dumps([name for name in load_catalogue().recipes if name not in kept])}\n"


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return load_catalogue()


@pytest.fixture(scope="session")
def pack(catalogue: Catalogue) -> Pack:
    """Built once, for all workers."""

    def make(folder: Path) -> None:
        (folder / "pack").write_bytes(pickle.dumps(build_pack(catalogue, GeneratedLinks())))

    found = pickle.loads((built("alert pack", make) / "pack").read_bytes())
    assert isinstance(found, Pack)
    return found


@pytest.fixture(scope="session")
def unit_tests(pack: Pack, catalogue: Catalogue) -> PackTests:
    """The unit tests of that pack: built once, for all workers that need them."""

    def make(folder: Path) -> None:
        (folder / "tests").write_bytes(pickle.dumps(build_tests(pack, catalogue, GeneratedLinks())))

    found = pickle.loads((built("tests of the alert pack", make) / "tests").read_bytes())
    assert isinstance(found, PackTests)
    return found


@pytest.fixture(scope="session")
def rules(pack: Pack) -> list[dict[str, Any]]:
    """Every alert rule as it stands in the file."""
    return [rule for rule in _rules(pack, RULES) if "alert" in rule]


@pytest.fixture(scope="session")
def records(pack: Pack) -> dict[str, str]:
    """Recording rules of both files: name -> expression."""
    every = (*_rules(pack, RECORDING), *_rules(pack, RULES))
    return {rule["record"]: rule["expr"] for rule in every if "record" in rule}


def _rules(pack: Pack, file: Path) -> list[dict[str, Any]]:
    return [rule for group in yaml.load(pack.files[file], yaml.CSafeLoader)["groups"] for rule in group["rules"]]


needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool: apt-get install prometheus"
)
