"""The fleet with a waste in every pool, simulated once."""

from __future__ import annotations

import pytest

from tests.cost.planted import Fleet, planted


@pytest.fixture(scope="session")
def wasteful(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Six pools, each with a waste of its own."""
    return planted(tmp_path_factory.mktemp("cost") / "fleet.db")
