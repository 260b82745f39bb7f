"""The scenarios that rules are replayed on: nothing of what happens in them begins before the onset that they name."""

from __future__ import annotations

from benchmarks.rule_scenarios import INCIDENTS, PAST_SECONDS, longer
from inferdoc.simulate.scenario_files import load_scenario


def test_what_joins_with_the_fault_comes_as_much_later_as_the_fault():
    moved = 0
    for name in sorted(path.stem for path in INCIDENTS.glob("*.yaml")):
        own, later = load_scenario(name), longer(load_scenario(name))
        if own.expect.onset is None:
            continue
        away = later.expect.onset - own.expect.onset
        assert later.expect.onset >= PAST_SECONDS
        for old, new in zip(own.traffic, later.traffic, strict=True):
            assert new.start - old.start == (away if old.start > 0 else 0), name
            moved += old.start > 0
        assert [new.at - old.at for old, new in zip(own.faults, later.faults, strict=True)] == [away] * len(own.faults)
    assert moved >= 4
