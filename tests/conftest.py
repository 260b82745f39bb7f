"""Fixtures that several folders of tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import prometheus_server

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = ROOT / "fixtures" / "recordings"

ServerOf = Callable[[str], str]
StoreOf = Callable[[str], Path]


def recording_path(name: str) -> Path:
    """A recording of the fixtures by its id."""
    return RECORDINGS / f"{name}.om.gz"


@pytest.fixture(scope="session")
def store_of(tmp_path_factory: pytest.TempPathFactory) -> StoreOf:
    """Recording id -> path of an embedded store that holds it, imported once."""
    from inferdoc.store.importer import import_file
    from inferdoc.store.store import Store

    paths: dict[str, Path] = {}

    def of(name: str) -> Path:
        if name not in paths:
            path = tmp_path_factory.mktemp("store") / f"{name}.db"
            with Store.open(path, "w") as store:
                import_file(store, recording_path(name))
            paths[name] = path
        return paths[name]

    return of


@pytest.fixture(scope="session")
def prometheus_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerOf]:
    """Recording id -> address of a real Prometheus that holds it, started once and stopped at the end."""
    if not prometheus_server.available():
        pytest.skip(prometheus_server.MISSING)
    addresses: dict[str, str] = {}
    with ExitStack() as servers:

        def of(name: str) -> str:
            if name not in addresses:
                folder = tmp_path_factory.mktemp("prometheus")
                addresses[name] = servers.enter_context(prometheus_server.running([recording_path(name)], folder))
            return addresses[name]

        yield of
