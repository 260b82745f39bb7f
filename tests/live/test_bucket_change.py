"""A pod that keeps its name (a StatefulSet) restarts with other buckets: no quantile is of both sets at once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from inferdoc.source.open import open_source
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store
from tests import prometheus_server
from tests.cli.command import alone, call

__all__ = ["alone"]

BEGIN, STEP, SCRAPES = 1_790_000_000, 10, 180
RESTARTS = {"vllm-0": 80, "vllm-1": 86}
PER_SCRAPE = 50.0
SLOWEST = 1.6
"""Times to the first token are spread evenly up to it, all the time: buckets of any cut tell the quantiles exactly."""
FORMER = (0.1, 0.4, 0.8, 1.6, 3.2)
CUTS = {
    "other": (0.25, 0.5, 1.0, 1.6, 5.0),
    "none in common": (0.2, 0.6, 1.2, 1.59, 2.0),
    "finer": (0.05, *FORMER, 0.2, 0.6),
    "coarser": (0.8, 1.6, 3.2),
}


def page(later: tuple[float, ...]) -> str:
    """OpenMetrics text: two pods, restarted one after the other."""
    lines: dict[str, list[str]] = {}
    for pod, restart in RESTARTS.items():
        target = f'job="vllm",instance="{pod}:8000",namespace="llm",pod="{pod}"'
        labels = f'{target},model_name="llama",engine="0"'
        total = 0.0
        for scrape in range(SCRAPES):
            total = 0.0 if scrape == restart else total + PER_SCRAPE
            bounds = FORMER if scrape < restart else later
            cells = {f'{bound:g}"': min(1.0, bound / SLOWEST) for bound in bounds} | {'+Inf"': 1.0}
            at = BEGIN + scrape * STEP
            values = {
                f'vllm:time_to_first_token_seconds_bucket{{{labels},le="{le}}}': s * total for le, s in cells.items()
            }
            values |= {f"vllm:time_to_first_token_seconds_count{{{labels}}}": total}
            values |= {f"vllm:time_to_first_token_seconds_sum{{{labels}}}": total * SLOWEST / 2}
            values |= {f"vllm:num_requests_running{{{labels}}}": 4.0, f"up{{{target}}}": 1.0}
            values |= {f'vllm:request_success_total{{{labels},finished_reason="stop"}}': total}
            values |= {f"vllm:generation_tokens_total{{{labels}}}": 100 * total}
            for name, value in values.items():
                lines.setdefault(name, []).append(f"{name} {value:.12g} {at}")
    return "\n".join([*(line for own in lines.values() for line in own), "# EOF\n"])


@pytest.fixture(scope="module", params=CUTS, ids=lambda name: name.replace(" ", "-"))
def recording(request, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("cut") / "restarted.om"
    path.write_text(page(CUTS[request.param]), "utf-8")
    with Store.open(path.with_suffix(".db"), "w") as store:
        import_file(store, path)
    return path


def held(source) -> dict[str, np.ndarray]:
    """Every quantile that is told is the true one; returns them."""
    frame = source.read(["ttft_p50", "ttft_p99"], BEGIN + 100, BEGIN + (SCRAPES - 1) * STEP, STEP)
    told = {}
    for name, true in (("ttft_p50", 0.5 * SLOWEST), ("ttft_p99", 0.99 * SLOWEST)):
        matrix = frame[name]
        assert [entity.pod for entity in matrix.entities] == sorted(RESTARTS)
        seen = np.isfinite(matrix.values)
        np.testing.assert_allclose(matrix.values[seen], true, rtol=1e-6)
        assert seen[:, :60].all() and seen[:, -60:].all(), "on either side its own buckets tell"
        told[name] = matrix.values
    source.close()
    return told


def test_a_store_tells_each_side_by_its_own_buckets(recording):
    held(open_source(store=recording.with_suffix(".db")))


def test_nothing_is_found_and_no_promise_is_broken(recording):
    """0.8 s is a bound of the former buckets: by those of both together nobody is within it after the restart."""
    own = recording.with_suffix(".toml")
    own.write_text("[[slo]]\nlimits = {ttft_p50 = 0.81, ttft_p90 = 0.8}\n", "utf-8")
    where = ("--store", recording.with_suffix(".db"), "--until", "latest")
    document = json.loads(call("diagnose", *where, "-o", "json").out)
    latency = [f["id"] for f in document["findings"] if any(e["signal"].startswith("ttft_p") for e in f["evidence"])]
    assert latency == []
    report = json.loads(call("--config", own, "slo", "show", *where, "-o", "json").out)
    attained = {one["objective"]: one["attained"] for one in report["objectives"]}
    true = {"ttft-p50": 0.81 / SLOWEST, "ttft-p90": 0.8 / SLOWEST}
    for name, share in true.items():
        assert attained[name]["low"] - 1e-9 <= share <= attained[name]["high"] + 1e-9, (name, attained[name])
    assert attained["ttft-p90"]["low"] > 0.25, "half of the time is counted to the bound itself"


@pytest.mark.live
def test_a_prometheus_tells_the_same(recording, tmp_path):
    if not prometheus_server.available():
        pytest.skip(prometheus_server.MISSING)
    with prometheus_server.running([recording], tmp_path) as address:
        theirs = held(open_source(prometheus=address))
    ours = held(open_source(store=recording.with_suffix(".db")))
    for name, values in ours.items():
        np.testing.assert_allclose(values, theirs[name], rtol=1e-9)
