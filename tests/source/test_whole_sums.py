"""A sum of which one term is not there is no value."""

from __future__ import annotations

import pytest

from inferdoc import open_source
from tests.judging.made import Recording, stored

STAGES = {"preprocess": 0.002, "route": 0.003}


@pytest.mark.parametrize(
    ("shown", "mean"), [(("preprocess", "route"), 0.005), (("preprocess",), None), (("route",), None)]
)
def test_the_time_in_a_frontend_needs_every_stage(shown, mean, tmp_path):
    made = Recording()
    target = {"job": "dynamo", "instance": "f:8000", "pod": "frontend-0"}
    count = 10.0 * (made.times - made.times[0]) + 100
    made.put("up", "gauge", target, 1)
    for stage in shown:
        labels = {**target, "stage": stage}
        for part, values in (("_count", count), ("_sum", STAGES[stage] * count)):
            made.put("dynamo_frontend_stage_duration_seconds", "histogram", labels, values, part)
        made.put("dynamo_frontend_stage_duration_seconds", "histogram", {**labels, "le": "+Inf"}, count, "_bucket")
    source = open_source(store=stored(made.text(), tmp_path))
    frame = source.read(["router_overhead_mean"], float(made.times[20]), float(made.times[-1]))
    if mean is None:
        assert "router_overhead_mean" not in frame
    else:
        assert frame["router_overhead_mean"].values == pytest.approx(mean)
