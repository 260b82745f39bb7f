"""Simulated fleets: a state that always stood is named, a well-run fleet is met with silence. All of them stand in
docs/measurements/audit.md (benchmarks/audit.py); these are the quick ones."""

from __future__ import annotations

import pytest

from benchmarks.audit import simulated, without_fleet
from inferdoc.catalogue.load import load_catalogue
from tests.conftest import ROOT

STANDING = (
    "speculation-below-break-even",
    "fp8-cache-without-fp8",
    "batch-cap-below-hardware",
    "kv-cache-always-full",
    "prefix-caching-off",
    "mixed-tiers-equal-shares",
    "tensor-parallel-without-nvlink",
    "router-expects-more-hits",
)
WELL_RUN = ("well-night", "well-shared-head", "control-kv-high")


@pytest.mark.parametrize("name", STANDING)
def test_a_state_that_always_stood_is_named_and_nothing_else(name):
    row = simulated(name)
    assert [state for state, _ in row.states] == [name]


@pytest.mark.parametrize("name", WELL_RUN)
def test_a_well_run_fleet_is_met_with_silence(name):
    assert simulated(name).states == ()


def test_the_page_lists_every_persistent_issue():
    page = (ROOT / "docs/measurements/audit.md").read_text("utf-8")
    section = next(part for part in page.split("\n\n## ") if part.startswith("Issues without a fleet"))
    named = {name for name in load_catalogue().standing.states if f"`{name}`" in page.replace(section, "")}
    assert named and section in "\n".join(without_fleet(named))
