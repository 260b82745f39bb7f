"""A queue has a wait by Little's law, also where no histogram of finished requests shows one."""

from __future__ import annotations

import pytest

from inferdoc import diagnose, open_source
from tests.judging.made import Engine, recorded, stored


@pytest.mark.parametrize(("requests", "is_late"), [(0.8, True), (8.0, False)])
def test_a_queue_that_takes_longer_than_users_wait_is_demand_without_any_time_to_first_token(
    tmp_path, requests, is_late
):
    """20 requests wait all the time, 25 s or 2.5 s by what leaves the queue."""
    made = recorded(Engine("a", waiting=20, requests=requests))
    text = made.only(lambda line: "time_to_first_token" not in line and "queue_time" not in line)
    answer = diagnose(open_source(store=stored(text, tmp_path)), since="6m")
    assert [finding.id for finding in answer.findings] == (["demand-beyond-capacity"] if is_late else [])
