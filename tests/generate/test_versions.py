"""The table of releases in docs/versions.md: in step with collectors/, one row per exporter, releases in order."""

from __future__ import annotations

import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.errors import InferdocError
from inferdoc.generate.document import apply_changes
from inferdoc.judging.visibility import ADDED
from inferdoc_dev.generate.versions_page import BEGIN, END, table, version_changes
from tests.generate.conftest import ROOT

PAGE = ROOT / "docs" / "versions.md"


def test_the_page_is_in_step():
    assert version_changes(PAGE, load_catalogue()) == []


def test_what_was_changed_by_hand_is_written_again(tmp_path):
    page = tmp_path / "versions.md"
    page.write_text(f"# Head\n\n{BEGIN}| old |\n{END}\n\ntail\n", "utf-8")
    assert [str(each) for each in version_changes(page, load_catalogue())] == [f"{page}: out of date"]
    assert "| old |" in page.read_text("utf-8")
    apply_changes(version_changes(page, load_catalogue()))
    text = page.read_text("utf-8")
    assert "| old |" not in text and text.startswith("# Head\n") and text.endswith(f"{END}\n\ntail\n")
    assert version_changes(page, load_catalogue()) == []


def test_every_exporter_has_a_row_and_its_releases_are_in_order():
    exporters = load_catalogue().exporters
    rows = {row.split(" | ")[0].strip("| "): row for row in list(table(load_catalogue()))[2:]}
    assert set(rows) == {one.title for name, one in exporters.items() if name not in ADDED}
    vllm = rows["vLLM"].split(" | ")[-1]
    assert vllm.index("0.9.2") < vllm.index("0.10.2") < vllm.index("0.28") < vllm.index("0.33")
    assert vllm.count("0.11,") + vllm.count("0.11.0,") == 1


def test_a_page_without_its_markers_is_refused(tmp_path):
    page = tmp_path / "versions.md"
    page.write_text("# Head\n", "utf-8")
    with pytest.raises(InferdocError, match="markers"):
        version_changes(page, load_catalogue())
    assert version_changes(tmp_path / "none.md", load_catalogue()) == []
