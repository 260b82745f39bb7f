"""Distribute test files over the workers of pytest-xdist.

Files that wait for real servers have workers of their own beside the workers that compute, one per core. Once no file
waits any more, one worker more than there are cores computes: while one writes to a disk, the others keep the cores
busy. Files that take long start first.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

WAITING_WORKERS = 3
LONG_SECONDS = 20
MOST_CORES = 4
WAITING = (
    "tests/live/test_page_with_diagnosis.py",
    "tests/live/test_outages.py",
    "tests/live/test_serve_chain.py",
    "tests/live/test_alert_chain.py",
    "tests/live/test_vmalert.py",
    "tests/live/test_every_alert.py",
    "tests/live/test_two_stages.py",
    "tests/packages/test_rights.py",
    "tests/serve/",
    "tests/watch/test_rounds.py",
    "tests/collect/test_collector.py",
)
"""Longest first; a folder stands for its files."""
COMPUTING = (
    "tests/generate/",
    "tests/live/test_scan_by_records.py",
    "tests/live/test_alerts_incidents.py",
    "tests/live/test_healthy_releases.py",
    "tests/docs/test_commands.py",
    "tests/live/test_label_layouts.py",
    "tests/contract/test_printed_commands.py",
    "tests/contract/test_steps_to_paste.py",
    "tests/judging/test_first_scrape.py",
    "tests/forecast/test_engine.py",
    "tests/whatif/",
    "tests/judging/test_triage.py",
    "tests/benchmarks/test_smoke.py",
    "tests/kv/test_command.py",
    "tests/cli/test_demo.py",
    "tests/forecast/test_planned.py",
)
"""Those that take longest, longest first. All others follow in the order of collection."""
SPREAD = (
    "tests/generate/test_rule_units.py",
    "tests/judging/test_triage.py",
    "tests/live/test_healthy_releases.py",
    "tests/contract/test_steps_to_paste.py",
    "tests/docs/test_commands.py",
    "tests/benchmarks/test_smoke.py",
    "tests/golden/test_golden.py",
)
"""Files whose tests share little: each test is a unit of its own."""
TOGETHER = ("tests/whatif/",)
"""Folders whose files share what takes long to make: each is one unit."""


class Lanes(LoadScopeScheduling):
    """A file is one unit of work; workers beyond `cores` take files that wait, as long as there are any. Then the first
    of them takes others, and the rest stop."""

    def __init__(self, config: pytest.Config, log: Producer, cores: int) -> None:
        super().__init__(config, log)
        self.cores = cores

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file.startswith(TOGETHER):
            return file.rpartition("/")[0] + "/"
        return nodeid if file in SPREAD else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        unit = min(self.workqueue, key=lambda unit: self._rank(node, unit))
        self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        if _number(node) > self.cores and not any(unit.startswith(WAITING) for unit in self.workqueue):
            node.shutdown()
        else:
            super()._reschedule(node)

    def _waits(self, node: WorkerController) -> bool:
        return _number(node) >= self.cores

    def _rank(self, node: WorkerController, unit: str) -> tuple[bool, int]:
        order = (*WAITING, *COMPUTING)
        place = next((place for place, name in enumerate(order) if unit.startswith(name)), len(order))
        return unit.startswith(WAITING) != self._waits(node), place


def _number(node: WorkerController) -> int:
    return int(node.gateway.id.removeprefix("gw"))


def cores() -> int:
    """How many workers compute at the same time."""
    return min(os.cpu_count() or 1, MOST_CORES)
