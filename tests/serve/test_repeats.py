"""An alert that Alertmanager repeats after four hours: the cause is still the cause."""

from __future__ import annotations

from tests.serve.repeats import told_after


def test_the_cause_is_told_after_four_hours_too(tmp_path):
    assert told_after("lora-thrash", tmp_path).cause == "lora-thrash"
