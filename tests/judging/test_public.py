"""Incidents that operators reported in public, rebuilt from their figures: does the answer help a stranger?

A case is a folder of fixtures/public: `in.om.xz` (OpenMetrics), and `case.json` with the report, the truth by the
thread, what was filled in, what may and must not be found, and, where another answer comes first, why (`missed`)."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from inferdoc import diagnose, open_source
from inferdoc.audit.api import audit
from inferdoc.report import render
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store
from tests.built import built

FOLDER = Path(__file__).parents[2] / "fixtures" / "public"
CASES = {path.parent.name: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*/case.json"))}


def stored(name: str) -> Path:
    """The store of a case."""

    def make(folder: Path) -> None:
        text = folder / "in.om"
        text.write_bytes(lzma.decompress((FOLDER / name / "in.om.xz").read_bytes()))
        with Store.open(folder / "case.db", "w") as store:
            import_file(store, text)
        text.unlink()

    return built(f"public-{name}", make) / "case.db"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.get("audit")])
def test_what_always_was_so_is_found(name):
    case = CASES[name]
    answer = audit(open_source(store=stored(name)), since=case["since"])
    assert set(case["audit"]) <= {state.id for state in answer.states}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.get("audit")])
def test_what_operators_reported_is_found(name):
    case = CASES[name]
    answer = diagnose(open_source(store=stored(name)), since=case["since"])
    found = [(finding.id, finding.certainty) for finding in answer.findings]
    if case["control"]:
        assert "missed" in case or (answer.verdict, found) == ("healthy", [])
        return
    assert answer.verdict != "healthy" or "mild" in case
    for finding in answer.findings:
        rivals = {rival.id: rival.probability for rival in finding.differential}
        assert finding.probability + sum(rivals.values()) <= 1.005
        assert not rivals.keys() & {out.id for out in finding.ruled_out}
    assert "missed" in case or (found[0][0] if found else "none") in case["accept"]
    assert not [one for one, certainty in found if certainty == "proven" and one in case["must_not"]]
    if case.get("text"):
        assert case["text"] in render(answer, "text")


def test_steps_slow_with_kv_from_the_host_are_named_without_a_count_of_evictions(tmp_path):
    text = lzma.decompress((FOLDER / "s07-seventy-to-ten-after-the-load-test" / "in.om.xz").read_bytes()).decode()
    page = tmp_path / "in.om"
    page.write_text("".join(line for line in text.splitlines(keepends=True) if "evicted_tokens" not in line))
    with Store.open(tmp_path / "case.db", "w") as store:
        import_file(store, page)
    answer = diagnose(open_source(store=tmp_path / "case.db"), since="50m")
    assert answer.findings[0].id == "kv-offload-slow"
