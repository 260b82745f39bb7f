"""Which series a signal is read from."""

from __future__ import annotations

import pytest

from inferdoc.source.plan import series_names
from tests.judging.frames import catalogue


@pytest.mark.parametrize(
    ("signal", "parts"), [("ttft_p99", {"_bucket", "_count"}), ("ttft_mean", {"_sum", "_count"}), ("running", set())]
)
def test_a_signal_is_made_of_these_series_in_all_their_spellings(signal: str, parts: set[str]) -> None:
    found = series_names([signal], catalogue().signals, catalogue().aliases)
    engines = ("vllm:", "sglang:", "trtllm_")
    if not parts:
        assert {"vllm:num_requests_running", "sglang:num_running_reqs", "trtllm_num_requests_running"} <= found
        assert not [name for name in found if name.endswith(("_bucket", "_sum", "_count", "None"))]
        return
    assert {name for name in found if name.startswith(engines) and "omni" not in name} == {
        f"{engine}time_to_first_token_seconds{part}" for engine in engines for part in parts
    }
