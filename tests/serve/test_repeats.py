"""An alert that Alertmanager repeats after four hours: the cause is still the cause."""

from __future__ import annotations

import pytest

from tests.serve.repeats import delivered_after


@pytest.mark.slow
@pytest.mark.takes_long("four hours of a fleet are simulated")
def test_the_cause_is_reported_after_four_hours_too(tmp_path):
    assert delivered_after("lora-thrash", tmp_path).cause == "lora-thrash"
