import sys
from pathlib import Path

import pytest
from cluster import FakeCluster

sys.path.insert(0, str(Path(__file__).parent.parent / "forecast"))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A cluster that kubectl talks to."""
    made = FakeCluster()
    monkeypatch.setattr("inferdoc.prewarm.kubectl.subprocess.run", made.run)
    return made
