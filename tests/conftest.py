"""Fixtures that several folders of tests share."""

from __future__ import annotations

import gc
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import lanes, prometheus_server
from tests.built import built
from tests.simulated import SimulatedStores

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler.protocol import Scheduling

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = ROOT / "fixtures" / "recordings"
MOST_SERVERS = 4

ServerOf = Callable[[str], str]
StoreOf = Callable[[str], Path]


def recording_names() -> list[str]:
    """Ids of the recordings among the fixtures."""
    return sorted(path.name.removesuffix(".om.gz") for path in RECORDINGS.glob("*.om.gz"))


def recording_path(name: str) -> Path:
    """A recording of the fixtures by its id."""
    return RECORDINGS / f"{name}.om.gz"


def store_of_file(recording: Path) -> Path:
    """The path of an embedded store with the samples of a recording, imported once per session."""
    from inferdoc.store.importer import import_file
    from inferdoc.store.store import Store

    name = f"{recording.name.removesuffix('.om.gz')}.db"

    def make(folder: Path) -> None:
        with Store.open(folder / name, "w") as store:
            import_file(store, recording)

    return built(f"store of {recording}", make) / name


@pytest.fixture(scope="session")
def store_of() -> StoreOf:
    """Recording id -> path of an embedded store with its samples."""
    return lambda name: store_of_file(recording_path(name))


@pytest.fixture(scope="session")
def simulated() -> SimulatedStores:
    """Stores of simulated incidents."""
    return SimulatedStores()


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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", default="1/1", help="run one of N parts of the tests, 2/3 for example", metavar="K/N")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the part that --part names; parts are cut by the names of tests."""
    part, parts = map(int, config.getoption("--part").split("/"))
    groups: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        groups[zlib.crc32(item.nodeid.encode()) % parts == part - 1].append(item)
    if groups[False]:
        config.hook.pytest_deselected(items=groups[False])
        items[:] = groups[True]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected lives as long as the session: the search for cycles need not visit it, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(
            100_000, 50, 100
        )  # tests make many objects and few cycles: a search per 700 takes 4 % of the CPU
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the tests that take too long and give no reason."""
    reports = [each for name in ("passed", "failed") for each in terminalreporter.stats.get(name, [])]
    for each in sorted(reports, key=lambda report: -report.duration):
        if each.duration > lanes.LONG_SECONDS and "takes_long" not in each.keywords:
            line = f"over {lanes.LONG_SECONDS} s without @pytest.mark.takes_long(reason): {each.nodeid}"
            terminalreporter.write_line(f"{line} ({each.when}, {each.duration:.0f} s)")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A worker per core, and those of the tests that wait."""
    return lanes.cores() + lanes.WAITING_WORKERS


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """Files go to workers by what they need: a core, or time."""
    return lanes.Lanes(config, log, lanes.cores())
