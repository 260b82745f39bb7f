"""Which worker takes which file; the lists that divide the suite are complete: of files by worker, and of what only
`make test-all` runs."""

from __future__ import annotations

import re

import pytest
from xdist.remote import Producer

from tests import lanes
from tests.conftest import ROOT


@pytest.mark.parametrize("name", sorted({*lanes.WAITING, *lanes.COMPUTING, *lanes.SPREAD}))
def test_a_listed_file_or_folder_exists(name):
    assert (ROOT / name).exists()


class Worker:
    """A worker of pytest-xdist that has a number, and counts the tests that it is given."""

    shutting_down = False

    def __init__(self, number: int) -> None:
        self.gateway = type("Gateway", (), {"id": f"gw{number}"})
        self.given = 0

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += len(indices)

    def shutdown(self) -> None:
        self.shutting_down = True


def test_files_that_wait_have_workers_and_one_of_these_computes_when_none_is_left(pytestconfig, monkeypatch):
    tests = [f"tests/slo/test_{number}.py::test_{case}" for number in range(9) for case in range(3)]
    tests += [f"{file}::test_{case}" for file in lanes.WAITING[:3] for case in range(3)]
    workers = [Worker(number) for number in range(5)]
    monkeypatch.setattr(pytestconfig.option, "tx", ["5*popen"])
    scheduler = lanes.Lanes(pytestconfig, Producer("test", enabled=False), cores=2)
    for worker in workers:
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, tests)
    scheduler.schedule()
    taken = {number: [*scheduler.assigned_work[worker]] for number, worker in enumerate(workers)}
    assert {number: units[0] for number, units in taken.items() if number >= 2} == dict(enumerate(lanes.WAITING[:3], 2))
    assert all(unit not in lanes.WAITING for number in (0, 1) for unit in taken[number])
    for worker in workers[2:]:
        for case in range(3):
            scheduler.mark_test_complete(
                worker, tests.index(f"{next(iter(scheduler.assigned_work[worker]))}::test_{case}")
            )
    assert workers[2].given > 3 and not workers[2].shutting_down
    assert [worker.given for worker in workers[3:]] == [3, 3] and all(worker.shutting_down for worker in workers[3:])


def test_every_file_with_slow_cases_is_listed_for_contributors():
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if path.name != "test_lanes.py"]
    slow = [path for path in files if re.search(r"mark\.slow|sampled\(", path.read_text("utf-8"))]
    assert len(slow) >= 5
    assert [str(path.relative_to(ROOT)) for path in slow if str(path.relative_to(ROOT)) not in page] == []
