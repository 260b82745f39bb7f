"""Pages on raw series: engines other than vLLM, and an engine that is down beside others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from inferdoc.generate import promtool
from inferdoc.generate.pack import RECORDING, RULES, Pack
from tests.generate.conftest import needs_promtool

pytestmark = [pytest.mark.live, needs_promtool]
ENGINES = {
    "sglang": ("sglang:time_to_first_token_seconds", "sglang:num_running_reqs"),
    "trtllm": ("trtllm_time_to_first_token_seconds", "trtllm_num_requests_running"),
    "ray": ("ray_vllm_time_to_first_token_seconds", "ray_vllm_num_requests_running"),
}


Firing = tuple[str, int, list[str]]
"""An alert, a minute, and the namespaces in which it fires then."""


def firing(pack: Pack, folder: Path, series: dict[str, str], at: list[Firing], interval: str = "30s") -> list[str]:
    """Where promtool disagrees. series: values at every interval."""
    for file in (RECORDING, RULES):
        (folder / file).write_text(pack.files[file], "utf-8")
    checks: list[dict[str, Any]] = [
        {
            "expr": f'count by (namespace) (ALERTS{{alertname="{alert}", alertstate="firing"}})',
            "eval_time": f"{minute}m",
            "exp_samples": [{"labels": f'{{namespace="{name}"}}', "value": 1} for name in names],
        }
        for alert, minute, names in at
    ]
    test = {
        "rule_files": [str(RECORDING), str(RULES)],
        "evaluation_interval": "30s",
        "group_eval_order": [group["name"] for group in pack.groups],
        "tests": [
            {
                "interval": interval,
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": checks,
            }
        ],
    }
    path = folder / "pages_test.yaml"
    path.write_text(yaml.dump(test, Dumper=yaml.CSafeDumper), "utf-8")
    return promtool.test([path]).problems


def test_latency_of_every_engine_pages(pack, tmp_path):
    """First tokens of half a second, then of twelve."""
    series = {}
    for name, (histogram, running) in ENGINES.items():
        labels = f'{{cluster="c1", namespace="{name}", job="e", instance="a:1", pod="p0", model_name="m"}}'
        series[running + labels] = "4x40"
        series[f"{histogram}_count{labels}"] = "0+60x40"
        series[f"{histogram}_sum{labels}"] = "0+30x20 600+720x20"
    alert = "InferdocSloSlower"
    assert firing(pack, tmp_path, series, [(alert, 9, []), (alert, 16, sorted(ENGINES))]) == []


def test_an_engine_that_is_down_beside_others_pages_within_five_minutes_and_a_rollout_does_not(pack, tmp_path):
    """Down from minute 10: alone, one of two, and one of two that is back after two minutes."""
    series = {}
    for name, second, up in (("alone", False, "0x40"), ("beside", True, "0x40"), ("rollout", True, "0x4 1x36")):
        for pod, values in {"p0": f"1x20 {up}", **({"p1": "1x60"} if second else {})}.items():
            labels = f'{{cluster="c1", namespace="{name}", job="e", instance="{pod}:1", pod="{pod}"'
            series[f"up{labels}}}"] = values
            series[f'vllm:num_requests_running{labels}, model_name="m", engine="0"}}'] = "1x60"
    alert = "InferdocEngineDown"
    at: list[Firing] = [(alert, 9, []), (alert, 12, ["alone"]), (alert, 15, ["alone", "beside"])]
    assert firing(pack, tmp_path, series, at) == []
