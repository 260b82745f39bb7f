"""What looks like a missed objective and is none: a target that never fitted, engines whose buckets nothing counts."""

from __future__ import annotations

import pytest

from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.pack import build_pack
from tests.generate.conftest import needs_promtool
from tests.generate.test_pages import Firing, firing

pytestmark = [pytest.mark.live, needs_promtool]
TTFT = "vllm:time_to_first_token_seconds"
MINUTES = 75
SINCE = 40
"""Minute from which most requests of a model miss the target."""


def counter(*parts: tuple[float, int]) -> str:
    """Samples a minute of a counter: growth a minute, for so many minutes, after a long life."""
    value, texts = 20_000.0, []
    for growth, minutes in parts:
        texts.append(f"{value:g}+{growth:g}x{minutes - 1}")
        value += growth * minutes
    return " ".join(texts)


def engine(namespace: str, pod: str, every: str, good: str) -> dict[str, str]:
    labels = f'namespace="{namespace}", job="vllm", instance="{pod}", pod="{pod}", model_name="m"'
    return {
        f"vllm:num_requests_running{{{labels}}}": f"4x{MINUTES}",
        f"{TTFT}_count{{{labels}}}": every,
        f'{TTFT}_bucket{{{labels}, le="2.5"}}': good,
    }


def test_only_an_objective_that_was_met_before_can_be_missed(catalogue, tmp_path):
    pack = build_pack(catalogue, GeneratedLinks(), (), "pages")
    busy = counter((6, MINUTES))
    series = engine("worse", "a", busy, counter((6, SINCE), (2, MINUTES - SINCE)))
    # 20,000 requests of which 8,000 met the target
    series |= engine("never-met", "b", busy, counter((2, MINUTES)).replace("20000", "8000"))
    series |= engine("mixed", "c", counter((60, MINUTES)), counter((60, MINUTES)))
    other = 'namespace="mixed", job="sglang", instance="d", pod="d", model_name="m"'
    series[f"sglang:num_running_reqs{{{other}}}"] = f"4x{MINUTES}"
    series[f"sglang:time_to_first_token_seconds_count{{{other}}}"] = counter((90, MINUTES))
    series[f"sglang:time_to_first_token_seconds_sum{{{other}}}"] = counter((9, MINUTES))
    burn, outage = "InferdocSloBurnFast", "InferdocSloOutage"
    at: list[Firing] = [(burn, SINCE, []), (burn, 70, ["worse"]), (outage, 70, [])]
    assert firing(pack, tmp_path, series, at, interval="1m") == []
