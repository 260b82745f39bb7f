"""`signals --health` and `diagnose` look at one fleet: at the end of a window they do not contradict each other."""

from __future__ import annotations

import pytest

from tools.golden.cases import case_names
from tools.golden.files import GoldenFolder


def contradiction(case):
    """What one of them says and the other denies, at the end of the whole window."""
    answer, table = case["windows"]["whole"]["diagnose"]["json"], case["signals"]
    lasting = [one["id"] for one in answer["findings"] if one["ongoing"] and one["severity"] != "info"]
    if lasting and table["exit"] == 0:
        return f"the table is well, diagnose finds {', '.join(lasting)}"
    if table["exit"] != 0 and answer["verdict"] == "healthy":
        return "the table is not well, diagnose says healthy"
    return None


@pytest.mark.parametrize("name", case_names())
def test_the_table_and_the_diagnosis_agree(name):
    assert contradiction(GoldenFolder().read(name)) is None
