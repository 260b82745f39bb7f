"""Traffic that stops from one minute to the next is no health; an evening, a pause as before and a lull are."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.judging.completeness import stopped
from tests.judging.frames import N, scene

STEADY = 5.0 + np.sin(np.arange(N))
STOP = N - 25


def until(stop: int, left: float = 0.0) -> np.ndarray:
    return np.where(np.arange(N) < stop, STEADY, left)


EVENING = np.where(np.arange(N) < STOP, np.linspace(10, 0.6, N), 0.0)
PAUSED = np.where((np.arange(N) > 30) & (np.arange(N) < 38), 0.0, until(STOP))


@pytest.mark.parametrize(
    ("pods", "found"),
    [
        ({"a": until(STOP)}, True),
        ({"a": until(STOP, left=0.1)}, True),  # a health check goes on
        ({"a": until(STOP), "b": until(STOP)}, True),
        ({"a": until(STOP), "b": STEADY}, False),  # its peer took over
        ({"a": STEADY}, False),
        ({"a": until(N - 1)}, False),  # too new
        ({"a": until(STOP) / 1000}, False),  # so few requests that none may come by chance
        ({"a": EVENING}, False),
        ({"a": PAUSED}, False),  # it paused before
        ({"a": np.where(np.arange(N) > N - 5, STEADY, until(STOP))}, False),  # it came back
        ({"a": np.zeros(N)}, False),
    ],
)
def test_traffic_that_stopped(pods, found):
    context = scene({"request_rate": pods, "running": {"c": np.ones(N)}})
    one = stopped(context, context.view.units)
    assert (one is not None) is found
    if one is not None:
        assert one.before == pytest.approx(5.0 * sum(name != "c" for name in pods), rel=0.3)
