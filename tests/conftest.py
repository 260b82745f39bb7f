"""Fixtures that several folders of tests share."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import prometheus_server
from tests.simulated import SimulatedStores

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = ROOT / "fixtures" / "recordings"
MOST_SERVERS = 4

if "INFERDOC_TESTS_CACHE" not in os.environ:
    # Not the cache of whoever runs the tests; the workers of pytest-xdist share that of the process that starts them.
    os.environ["INFERDOC_TESTS_CACHE"] = os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="inferdoc-cache-")
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)

ServerOf = Callable[[str], str]
StoreOf = Callable[[str], Path]


def recording_names() -> list[str]:
    """Ids of the recordings among the fixtures."""
    return sorted(path.name.removesuffix(".om.gz") for path in RECORDINGS.glob("*.om.gz"))


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
def simulated(tmp_path_factory: pytest.TempPathFactory) -> SimulatedStores:
    """Stores of simulated incidents."""
    return SimulatedStores(tmp_path_factory.mktemp("simulated"))


@pytest.fixture(scope="session")
def prometheus_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerOf]:
    """Recording id -> address of a real Prometheus that holds it.

    The last few servers asked for stay up, so use an address before asking for many others; all are stopped at the end.
    """
    if not prometheus_server.available():
        pytest.skip(prometheus_server.MISSING)
    running: dict[str, tuple[str, ExitStack]] = {}

    def of(name: str) -> str:
        if name not in running:
            while len(running) >= MOST_SERVERS:
                running.pop(next(iter(running)))[1].close()
            folder = tmp_path_factory.mktemp("prometheus")
            stack = ExitStack()
            address = stack.enter_context(prometheus_server.running([recording_path(name)], folder))
            running[name] = (address, stack)
        return running[name][0]

    try:
        yield of
    finally:
        for _, stack in running.values():
            stack.close()


REQUIRED = ("promtool", "prometheus", "amtool", "victoria-metrics", "helm", "kubectl")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """With INFERDOC_TEST_REQUIRE_LIVE (as in CI) a test that skips for want of one of these programs fails."""
    outcome = yield
    report = outcome.get_result()
    wanting = report.skipped and any(word in str(report.longrepr).lower() for word in REQUIRED)
    if wanting and os.environ.get("INFERDOC_TEST_REQUIRE_LIVE"):
        report.outcome = "failed"
