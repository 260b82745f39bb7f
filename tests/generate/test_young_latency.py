"""Latency just after an install: what the rules take for usual while their own records are minutes old."""

from __future__ import annotations

import pytest
import yaml

from inferdoc.generate import promtool
from inferdoc.generate.pack import RECORDING, RULES
from tests.generate.conftest import needs_promtool

pytestmark = [pytest.mark.live, needs_promtool]

LABELS = 'cluster="c1", namespace="n", job="vllm", instance="a:8000", pod="p0", engine="0", model_name="m"'
NAME = "vllm:time_to_first_token_seconds"
STEP_SECONDS, USUAL_SECONDS, PER_SECOND = 30, 0.3, 6.0
BEFORE_SECONDS, AFTER_SECONDS = 120, 240
SERVED = 100_000


def counter(start: float, before: float, after: float) -> str:
    """Samples of a counter that grows by so much a second, before and after the install's second minute."""
    steps = (BEFORE_SECONDS // STEP_SECONDS, AFTER_SECONDS // STEP_SECONDS)
    reached = start + before * BEFORE_SECONDS + after * STEP_SECONDS
    return f"{start}+{before * STEP_SECONDS}x{steps[0]} {reached}+{after * STEP_SECONDS}x{steps[1]}"


@pytest.mark.parametrize(("slower", "busier", "pages"), [(2.0, 1.3, True), (1.42, 1.0, True), (1.42, 1.6, False)])
def test_a_record_of_two_minutes_tells_a_fault_from_a_busier_hour(pack, tmp_path, slower, busier, pages):
    """Its first windows are not full and read too low, which is no growth; and soon most of it is after the fault."""
    for file in (RECORDING, RULES):
        (tmp_path / file).write_text(pack.files[file], "utf-8")
    rate, took = (PER_SECOND, busier * PER_SECOND), USUAL_SECONDS * PER_SECOND
    series = {
        f"{NAME}_count": counter(SERVED, *rate),
        f"{NAME}_sum": counter(SERVED * USUAL_SECONDS, took, busier * slower * took),
        "vllm:num_requests_running": f"4x{(BEFORE_SECONDS + AFTER_SECONDS) // STEP_SECONDS}",
    }
    firing = 'count by (namespace) (ALERTS{alertname="InferdocSloSlower", alertstate="firing"})'
    asked = {
        "expr": firing,
        "eval_time": f"{BEFORE_SECONDS + 210}s",
        "exp_samples": [{"labels": '{namespace="n"}', "value": 1}] if pages else [],
    }
    test = {
        "rule_files": [str(RECORDING), str(RULES)],
        "evaluation_interval": f"{STEP_SECONDS}s",
        "group_eval_order": [group["name"] for file in (RECORDING, RULES) for group in loaded(pack, file)],
        "tests": [
            {
                "interval": f"{STEP_SECONDS}s",
                "input_series": [{"series": f"{name}{{{LABELS}}}", "values": text} for name, text in series.items()],
                "promql_expr_test": [asked],
            }
        ],
    }
    path = tmp_path / "young_test.yaml"
    path.write_text(yaml.dump(test, Dumper=yaml.CSafeDumper), "utf-8")
    assert promtool.test([path]).problems == []


def loaded(pack, file):
    return yaml.load(pack.files[file], yaml.CSafeLoader)["groups"]
