from __future__ import annotations

import pytest

from tests.engines.fleets import EngineFleets


@pytest.fixture(scope="session")
def fleets(tmp_path_factory):
    return EngineFleets(tmp_path_factory.mktemp("engines"))
