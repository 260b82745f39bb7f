"""Responses that missed a latency SLO on the bill: so much of the working time as histograms prove, and nothing without
a promise."""

from __future__ import annotations

import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import Config
from inferdoc.config_sections import SloSection
from inferdoc.cost.bill import billed
from inferdoc.cost.model import BillRow
from inferdoc.slo.attainment import shown
from inferdoc.source.open import open_source

FIRST = SloSection(signal="ttft", percentile=99.0, target=0.1, id="first")
WHOLE = SloSection(signal="e2e", percentile=99.0, target=2.5, id="whole")


def row(wasteful, pool: str, *promised: SloSection) -> BillRow:
    catalogue = load_catalogue(promises=[(one.id or "", one) for one in promised])
    bill = billed(open_source(store=wasteful.store), Config(), catalogue, {"until": "latest", "namespace": pool})
    (found,) = bill.rows
    return found


def hours(row: BillRow, cause: str) -> float:
    return next(part.amount.gpu_hours for part in row.parts if part.cause == cause)


def working(row: BillRow) -> float:
    return row.whole.gpu_hours - hours(row, "idle") - hours(row, "away")


def missed(wasteful, pool: str, promised: SloSection) -> float:
    """Share of requests beyond an objective, as `inferdoc slo show` proves it."""
    catalogue = load_catalogue(promises=[(promised.id or "", promised)])
    asked = {"until": "latest", "namespace": pool, "since": "1h"}
    (kept,) = [
        one
        for one in shown(open_source(store=wasteful.store), Config(), catalogue, asked).objectives
        if one.is_slo and one.place.namespace == pool
    ]
    return 1.0 - kept.attained.high


def test_it_is_the_share_of_late_requests_of_the_working_time_by_the_worst_objective(wasteful):
    late = {one.id: hours(row(wasteful, "lost", one), "late") for one in (FIRST, WHOLE)}
    both = row(wasteful, "lost", FIRST, WHOLE)
    for one in (FIRST, WHOLE):
        assert late[one.id] == pytest.approx(missed(wasteful, "lost", one) * working(both), rel=0.02)
    assert 0 < min(late.values()) < max(late.values()) < working(both)
    assert hours(both, "late") == pytest.approx(max(late.values())), "the same requests may have missed both"


def test_the_parts_still_add_up_and_other_causes_keep_what_is_theirs(wasteful):
    strict = SloSection(signal="ttft", percentile=99.0, target=0.04, id="strict")
    with_promise, without = row(wasteful, "recomputed", strict), row(wasteful, "recomputed")
    assert sum(part.amount.gpu_hours for part in with_promise.parts) == pytest.approx(without.whole.gpu_hours, rel=1e-6)
    assert hours(with_promise, "recomputed") == pytest.approx(hours(without, "recomputed"))
    assert hours(with_promise, "late") == pytest.approx(hours(without, "useful")), "all were late, so none is left"


def test_without_a_promise_nothing_is_late(wasteful):
    assert hours(row(wasteful, "rejected"), "late") == 0.0
