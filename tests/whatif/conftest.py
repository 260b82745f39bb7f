from __future__ import annotations

import pytest

from tests.whatif.lab import calibration, stored, watched


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("whatif") / "fleet.db")


@pytest.fixture(scope="session")
def pool(store):
    return watched(store)


@pytest.fixture(scope="session")
def calibrated_pool(store):
    return calibration(store)
