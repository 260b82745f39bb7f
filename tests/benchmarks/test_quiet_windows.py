"""A healthy fleet stays quiet whatever happens to its telemetry: one fleet of each of two kinds, one window a row."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import benchmarks.rescraped

BENCHMARKS = Path(benchmarks.rescraped.__file__).parent


@pytest.fixture(scope="module")
def bench():
    """The benchmark as it is when it runs: its neighbours are on the path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield import_module("quiet_windows")


@pytest.mark.parametrize(("kind", "seed"), [("control-unique", 2), ("control-harmless-setting", 5)])
def test_nothing_above_info(bench, kind, seed):
    outcomes = bench.run((kind, seed, tuple(bench.BY_NAME), 1))
    assert [each.row for each in outcomes] == list(bench.BY_NAME)
    assert {each.row: each.details for each in outcomes if each.above} == {}
    assert {each.verdict for each in outcomes} <= {"healthy", "degraded"}


def test_windows_hold_the_moment(bench):
    fleet = bench.fleet_of("control-unique", 2)
    for begin, end in bench.windows_of(fleet, 20):
        assert begin < fleet.moment_ms / 1000 < end
    assert len(fleet.often) == pytest.approx(2 * len(fleet.samples), rel=0.02)


def test_a_row_with_a_finding_is_counted(bench):
    def outcome(row, *above, verdict="healthy"):
        return bench.Outcome(row, "control-steady", 1, 0.0, 1.0, verdict, above, (), 0.1)

    rows = [outcome("pair"), outcome("pair", "slow-gpu", "slow-gpu"), outcome("lost", verdict="unknown")]
    lines = bench.table(rows)
    assert any("side by side | 2 | 1 | `slow-gpu` 1 | 0 |" in line for line in lines)
    assert any("target by target | 1 | 0 |  | 1 |" in line for line in lines)
