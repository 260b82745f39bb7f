"""The lists that divide the suite are complete: of files by worker, and of what only `make test-all` runs."""

from __future__ import annotations

import re

import pytest

from tests import lanes
from tests.conftest import ROOT


@pytest.mark.parametrize("name", sorted({*lanes.WAITING, *lanes.COMPUTING, *lanes.SPREAD}))
def test_a_listed_file_or_folder_exists(name):
    assert (ROOT / name).exists()


def test_every_file_with_slow_cases_is_listed_for_contributors():
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if path.name != "test_lanes.py"]
    slow = [path for path in files if re.search(r"mark\.slow|sampled\(", path.read_text("utf-8"))]
    assert len(slow) >= 5
    assert [str(path.relative_to(ROOT)) for path in slow if str(path.relative_to(ROOT)) not in page] == []
