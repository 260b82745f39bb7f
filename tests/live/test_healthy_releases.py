"""The rules on a healthy fleet of every release of vLLM that they are for, under the labels of usual scrape
configurations: nothing fires, neither at once nor when the record is old enough for usual values."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from inferdoc.backtest.recording import read_file
from inferdoc.backtest.replay import replay
from inferdoc.backtest.run import own_rules
from inferdoc.simulate.output import write_file
from inferdoc.simulate.scenario_files import adapted, load_scenario
from inferdoc.simulate.scrape import Scraped
from inferdoc_dev.incidents.recording import record
from tests.conftest import ROOT
from tests.generate.conftest import needs_promtool
from tests.identity.layouts import Rule, exported, relabelled, without_pod
from tests.sampling import sampled

pytestmark = [
    pytest.mark.live,
    pytest.mark.takes_long("all rules are evaluated over 40 minutes"),
    needs_promtool,
]

RELEASES = ("0.9", "0.11", "0.15", "0.20", "0.32")
LAYOUTS: dict[str, Rule] = {"exported_pod": exported, "instance-only": without_pod}
CASES = sampled([(layout, release) for layout in LAYOUTS for release in RELEASES], 10)
"""The oldest release runs in `make test`."""
LENGTH = "40m"
"""Usual values of a young record count after 25 minutes, and the slowest alert waits a quarter of an hour."""
ALWAYS = {"InferdocWatchdog"}


@functools.cache
def fleet(release: str) -> tuple[Scraped, ...]:
    """Two pods with GPUs and containers behind a router."""
    return tuple(record(adapted(load_scenario("control-steady"), pods=2, duration=LENGTH, version=release)).targets)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_nothing_fires_on_a_healthy_fleet(case: tuple[str, str], tmp_path: Path):
    layout, release = case
    file = tmp_path / "healthy.om"
    write_file(relabelled(list(fleet(release)), LAYOUTS[layout]), file)
    recording = read_file(file)
    if layout == "instance-only":
        engines = [points for points in recording.series if points.name == "vllm:num_requests_running"]
        assert engines and not any("pod" in dict(points.labels) for points in engines), "the labels are what they say"
    fired = {firing.alert for firing in replay(own_rules(ROOT / "alerts" / "generated"), recording.with_pods())}
    assert fired == ALWAYS
