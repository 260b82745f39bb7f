"""docs/coverage.md: in step with collectors/, a reason for what is not read, few unknown names on real pages."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from inferdoc.catalogue.load import load_catalogue
from inferdoc.errors import InferdocError
from inferdoc.judging.visibility import ADDED
from inferdoc_dev.generate.coverage_page import coverage_changes, families_of_page, tables, uses

ROOT = Path(__file__).resolve().parents[2]
PAGE, PAGES = ROOT / "docs" / "coverage.md", ROOT / "fixtures" / "pages"
FEW = 0.05
"""Share of the families of a real page that may be unknown."""


def test_the_page_is_up_to_date():
    assert coverage_changes(PAGE, PAGES, load_catalogue()) == []


@pytest.mark.parametrize("path", sorted(PAGES.rglob("*.txt")), ids=lambda path: path.stem)
def test_few_families_of_a_real_page_are_unknown(path):
    found = families_of_page(path.read_text("utf-8"), load_catalogue())
    assert Counter(found.values())["unknown"] <= FEW * len(found)
    assert Counter(found.values())["read"] >= 3


def test_an_unknown_family_is_counted():
    found = families_of_page('vllm:num_requests_running{engine="0"} 1\nvllm:brand_new_total 2\n', load_catalogue())
    assert found == {"vllm:num_requests_running": "read", "vllm:brand_new_total": "unknown"}


@pytest.mark.parametrize("name", sorted(load_catalogue().exporters.keys() - set(ADDED)))
def test_every_declared_family_is_read_or_has_a_reason(name):
    catalogue = load_catalogue()
    assert [family for family, use, _ in uses(catalogue.exporters[name], catalogue) if not use] == []


def test_a_family_that_nothing_reads_has_no_reason_of_its_own():
    catalogue = load_catalogue()
    bare = replace(catalogue.exporters["vllm"], unneeded=())
    told = {family: use for family, use, _ in uses(bare, catalogue)}
    assert told["vllm:websocket_connections_active"] == ""
    assert "running" in told["vllm:num_requests_running"].split(", ")


def test_tables_name_signals_and_reasons():
    lines = list(tables(load_catalogue()))
    assert any(line.startswith("| `dynamo_frontend_time_to_first_token_seconds` | router_ttft_p50") for line in lines)
    assert any("websocket" in line and "not needed:" in line for line in lines)


def test_a_page_without_markers_is_refused(tmp_path):
    page = tmp_path / "coverage.md"
    page.write_text("# Coverage\n", "utf-8")
    with pytest.raises(InferdocError, match="markers"):
        coverage_changes(page, PAGES, load_catalogue())
