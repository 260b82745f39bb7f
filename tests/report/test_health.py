"""The states of the monitoring table."""

from __future__ import annotations

import pytest

from inferdoc.catalogue.signal import Band
from inferdoc.report.health import graded
from inferdoc.report.signals import natural

KV = Band("kv_usage", "a test", low=0.75, high=0.90, warn=0.92, bad=0.95)
DRAFTS = Band("spec_acceptance_rate", "a test", low=0.60, bad=0.50)


@pytest.mark.parametrize(
    ("value", "band", "harm", "state"),
    [
        (0.80, KV, "up", "good"),
        (0.10, KV, "up", "note"),
        (0.91, KV, "up", "note"),
        (0.93, KV, "up", "warn"),
        (0.99, KV, "up", "bad"),
        (0.70, DRAFTS, "down", "good"),
        (0.55, DRAFTS, "down", "note"),
        (0.40, DRAFTS, "down", "bad"),
        (0.30, Band("fleet_utilisation", "a test", low=0.6, high=0.8, warn=0.4, bad=0.9), "info", "note"),
        (0.95, Band("fleet_utilisation", "a test", low=0.6, high=0.8, warn=0.4, bad=0.9), "info", "bad"),
        (6.0, Band("waiting", "a test", high=5, warn=5), "up", "warn"),
        (0.1, Band("prefix_hit_ratio", "a test", warn=0.3), "down", "warn"),
        (0.5, Band("prefix_hit_ratio", "a test", warn=0.3), "down", "good"),
    ],
)
def test_only_what_affects_is_more_than_a_note(value, band, harm, state):
    assert graded(value, band, harm) == state


def test_names_with_numbers_in_order():
    names = ["pod-10", "pod-2", "pod-2-b", "pod-x", "pod-²", "pod-02", "pod"]
    assert sorted(names, key=natural)[:3] == ["pod", "pod-2", "pod-02"]
    assert sorted(names, key=natural).index("pod-2") < sorted(names, key=natural).index("pod-10")
