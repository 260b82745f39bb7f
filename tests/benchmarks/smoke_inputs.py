"""Tiny inputs for the scripts under benchmarks/: a recording, made loads, corpora, outcomes and answers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from inferdoc.store.importer import import_file
from inferdoc.store.store import Store
from tests.conftest import RECORDINGS

RECORDING = "engine-down"
"""The smallest one."""
BINS = 288
"""Of a day."""
FIRST_SECOND = 1_772_409_600


def write_inputs(folder: Path) -> None:
    """Fill the folder with everything that a smoke command names."""
    recordings(folder / "recordings")
    with Store.open(folder / "fleet.db", "w") as store:
        import_file(store, RECORDINGS / f"{RECORDING}.om.gz")
    loads(folder / "loads", {"web": 13})
    loads(folder / "tenants", {"llm_tenant_day": 12, "llm_tenant_night": 12})
    corpora(folder)
    (folder / "page.txt").write_text('# TYPE a_total counter\na_total{engine="0"} 7\n# TYPE b gauge\nb 2.5\n', "utf-8")
    (folder / "dates.txt").write_text("2026-03-11\n", "utf-8")
    (folder / "answers.json").write_text(json.dumps({"tool": "silent", "answers": {}}), "utf-8")
    (folder / "outcomes.json").write_text(json.dumps([outcome("proven", True), outcome("likely", False)]), "utf-8")
    rule = {"alert": "Down", "expr": "up == 0", "labels": {"cause": RECORDING}}
    groups = {"groups": [{"name": "down", "interval": "15s", "rules": [rule]}]}
    (folder / "rules.yaml").write_text(json.dumps(groups), "utf-8")


def recordings(folder: Path) -> None:
    """One recording of the fixtures with its label."""
    folder.mkdir()
    file = f"{RECORDING}.om.gz"
    (folder / file).symlink_to(RECORDINGS / file)
    labels = json.loads((RECORDINGS / "labels.json").read_text("utf-8"))["recordings"]
    kept = [label for label in labels if label["file"] == file]
    (folder / "labels.json").write_text(json.dumps({"recordings": kept}), "utf-8")


def loads(folder: Path, days: Mapping[str, int]) -> None:
    """Series of 5-minute bins with a daily rhythm."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    for name, count in days.items():
        hours = np.arange(count * BINS) % BINS / 12
        values = rng.poisson(50 + 45 * np.sin((hours - 9) / 24 * 2 * np.pi)).tolist()
        rows = [f"{FIRST_SECOND + 300 * number},{value}" for number, value in enumerate(values)]
        with gzip.open(folder / f"{name}.csv.gz", "wt") as file:
            file.write("\n".join(["timestamp,value", *rows]) + "\n")
    (folder / "tz.json").write_text(json.dumps(dict.fromkeys(days, "Europe/Berlin")), "utf-8")


def corpora(folder: Path) -> None:
    """The layouts of the two corpora that benchmarks/conformance.py reads, with a case or two each."""
    text = "# TYPE a gauge\na 1\n"
    for name, body, right in (("good", f"{text}# EOF\n", True), ("no_end", text, False)):
        case = folder / "openmetrics" / "tests" / "testdata" / "parsers" / name
        case.mkdir(parents=True)
        (case / "metrics").write_text(body, "utf-8")
        (case / "test.json").write_text(json.dumps({"shouldParse": right}), "utf-8")
    corpus = folder / "common" / "expfmt" / "fuzz" / "corpus"
    corpus.mkdir(parents=True)
    (corpus / "from_test_parse_0").write_text(text, "utf-8")


def outcome(certainty: str, right: bool) -> dict[str, Any]:
    """An incident as benchmarks/scoreboard.py writes it, as far as benchmarks/calibration.py reads it."""
    whole = {"causes": ["slow-gpu" if right else "engine-hung"], "sure": [certainty]}
    return {
        "source": "simulator", "group": "cause", "seed": 1, "cause": "slow-gpu", "root": None, "accepts": [],
        "harmful": True, "whole": whole,
    }  # fmt: skip
