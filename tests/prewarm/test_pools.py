"""Plans of several pools: the ratio of prefill to decode, and names."""

from __future__ import annotations

import numpy as np
import pytest
from plans import WORKDAYS, plan, pool

from inferdoc.errors import InferdocError
from inferdoc.prewarm.plan import parse, pool_plan, to_json
from inferdoc.prewarm.pools import clean, tied
from inferdoc.prewarm.week import WeekWindow

DECODE = pool(WeekWindow(WORKDAYS, 480, 600, 9), name="decode", role="decode")
PREFILL = pool(WeekWindow(WORKDAYS, 540, 60, 6), name="prefill", role="prefill", base=1)


def test_prefill_keeps_the_ratio_to_decode_at_every_minute() -> None:
    rows = {row.name: row for row in tied([DECODE, PREFILL], 1 / 3)}
    prefill, decode = pool_plan(rows["prefill"]).floor, pool_plan(rows["decode"]).floor
    assert (prefill >= np.ceil(decode / 3)).all()
    assert prefill[550] == 6 and prefill[500] == 3
    assert "keeps the ratio to decode" in [w.reason for w in rows["prefill"].windows]


def test_a_ratio_holds_for_all_tiers_together() -> None:
    """Prefill pools of two tiers share what the decode pools of two tiers ask for, each by its own floor."""
    slow = pool(WeekWindow(WORKDAYS, 480, 600, 6), name="decode-slow", role="decode")
    other = pool(WeekWindow(WORKDAYS, 540, 60, 3), name="prefill-slow", role="prefill", base=1)
    rows = {row.name: pool_plan(row).floor for row in tied([DECODE, slow, PREFILL, other], 0.6)}
    prefill = rows["prefill"] + rows["prefill-slow"]
    assert (prefill >= np.ceil(0.6 * (rows["decode"] + rows["decode-slow"]))).all()
    assert (rows["prefill"][500], rows["prefill-slow"][500], prefill[550]) == (5, 5, 9)


def test_a_ratio_needs_both_sides_and_a_sensible_number() -> None:
    with pytest.raises(InferdocError, match="there are 0 decode and 1 prefill pools with a schedule"):
        tied([PREFILL], 0.5)
    with pytest.raises(InferdocError, match="above 0"):
        tied([DECODE, PREFILL], 0)


def test_two_floors_on_one_object_are_refused() -> None:
    with pytest.raises(InferdocError, match="a pool occurs twice"):
        parse(to_json(plan(DECODE, DECODE)).encode(), "plan.json")


def test_names_are_what_kubernetes_carries() -> None:
    assert clean("My Pool_7/é") == "my-pool-7"
    assert clean("///") == "pool"
