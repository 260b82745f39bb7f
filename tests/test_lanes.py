"""The lists of files that share out the workers name files that exist."""

from __future__ import annotations

import pytest

from tests import lanes
from tests.conftest import ROOT


@pytest.mark.parametrize("name", sorted({*lanes.WAITING, *lanes.COMPUTING, *lanes.SPREAD}))
def test_a_listed_file_or_folder_exists(name):
    assert (ROOT / name).exists()
