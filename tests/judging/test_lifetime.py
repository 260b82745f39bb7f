"""What the first page of an engine tells of the time before it."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.collect.exposition import parse
from inferdoc.collect.samples import Page
from inferdoc.judging.references.lifetime import Lifetime
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid
from inferdoc.source.store_source import StoreSource
from inferdoc.store.store import Store
from tests.judging.frames import catalogue

NOW_MS = 1_795_000_000_000
LIFE_SECONDS = 1000.0
WANTED = (
    "request_rate",
    "prefill_time_mean",
    "decode_time_mean",
    "queue_time_mean",
    "itl_mean",
    "e2e_mean",
    "running",
    "waiting",
)
COUNTED = {
    "request_prefill_time_seconds": (100.0, 500),
    "request_decode_time_seconds": (2900.0, 500),
    "request_queue_time_seconds": (250.0, 500),
    "inter_token_latency_seconds": (2000.0, 100_000),
    "e2e_request_latency_seconds": (3000.0, 500),
}
"""Sum and count over the life."""

EVER = Lifetime()


def page(start: float | None) -> Page:
    lines = ["# TYPE process_start_time_seconds gauge", f"process_start_time_seconds {start}"] if start else []
    lines += ["# TYPE vllm:request_success_total counter"]
    lines += ['vllm:request_success_total{engine="0",model_name="m",finished_reason="stop"} 500.0']
    for name, (total, count) in COUNTED.items():
        labels = '{engine="0",model_name="m"'
        lines += [f"# TYPE vllm:{name} histogram", f'vllm:{name}_bucket{labels},le="+Inf"}} {count}']
        lines += [f"vllm:{name}_sum{labels}}} {total}", f"vllm:{name}_count{labels}}} {count}"]
    return parse("\n".join([*lines, ""]).encode())


@pytest.fixture
def past(tmp_path):
    """What the first page of processes that began then, one a pod, tells of the time before `frame`."""

    def of(*starts: float | None, frame: SignalFrame | None = None, lifetime: Lifetime = EVER):
        with Store.open(tmp_path / "first.db", "w") as store:
            for number, start in enumerate(starts):
                pod = f"vllm-{number}"
                store.writer.append({"job": "vllm", "instance": f"{pod}:8000", "pod": pod}, NOW_MS, page(start))
        grid = Grid(NOW_MS, 5000, 6, 5000, 25_000, 60_000)
        source = StoreSource(tmp_path / "first.db")
        told = lifetime.lead(source, frame or SignalFrame(grid), WANTED, catalogue())
        source.close()
        return told

    return of


def level(of, name: str) -> float:
    (row,) = of.frame[name].values
    assert np.allclose(row, row[0])
    return row[0]


def test_quotients_are_those_of_the_life(past):
    of = past(NOW_MS / 1000 - LIFE_SECONDS)
    assert level(of, "itl_mean") == pytest.approx(0.02)
    assert level(of, "queue_time_mean") == pytest.approx(0.5)
    assert "itl_mean" not in of.means


def test_rates_are_means_over_the_life_and_gauges_follow_from_them(past):
    of = past(NOW_MS / 1000 - LIFE_SECONDS)
    assert level(of, "request_rate") == pytest.approx(0.5)
    assert level(of, "running") == pytest.approx(0.5 * (0.2 + 5.8)), "Little's law"
    assert level(of, "waiting") == pytest.approx(0.5 * 0.5)
    assert {"request_rate", "running", "waiting"} <= of.means


@pytest.mark.parametrize("start", [None, NOW_MS / 1000 - 30, NOW_MS / 1000 + 600], ids=["untold", "new", "ahead"])
def test_without_a_life_there_are_no_rates(past, start):
    of = past(start)
    assert level(of, "itl_mean") == pytest.approx(0.02)
    assert not of.means and not np.isfinite(of.frame["request_rate"].values).any()


def test_the_first_rates_of_a_look_are_put_right(past):
    grid = Grid(NOW_MS, 5000, 8, 5000, 25_000, 60_000)
    seen = np.array([np.nan, *(0.2 * (n + 0.5) for n in range(1, 5)), 1.0, 1.0, 1.0])
    entity = Entity.of_labels({"pod": "vllm-0"})
    frame = SignalFrame(grid, {"request_rate": SignalMatrix([entity], seen[np.newaxis].copy())})
    past(NOW_MS / 1000 - LIFE_SECONDS, frame=frame)
    assert np.allclose(frame["request_rate"].values[0, 1:], 1.0)


def test_lives_that_were_too_short_do_not_count(past):
    of = past(NOW_MS / 1000 - LIFE_SECONDS, NOW_MS / 1000 - 300, None, lifetime=Lifetime(least_seconds=600.0))
    assert {entity.pod for entity in of.frame["itl_mean"].entities} == {"vllm-0"}


def test_only_counters_that_were_there_when_the_source_began_count(past):
    later = Lifetime(begin_ms=NOW_MS - 60_000, within_ms=20_000)
    assert not past(NOW_MS / 1000 - LIFE_SECONDS, lifetime=later).frame.signals


@pytest.mark.parametrize(("rate", "told"), [(4.0, True), (5.0, False)], ids=["worked", "idle"])
def test_a_life_without_work_does_not_count(past, rate, told):
    """500 requests of six seconds each: at four a second they take twenty lengths of a request, at five less."""
    grid = Grid(NOW_MS, 5000, 8, 5000, 25_000, 60_000)
    rates = SignalMatrix([Entity.of_labels({"pod": "vllm-0", "engine": "0"})], np.full((1, 8), rate))
    start = NOW_MS / 1000 - LIFE_SECONDS
    of = past(start, frame=SignalFrame(grid, {"request_rate": rates}), lifetime=Lifetime(least_seconds=600.0))
    for name in ("itl_mean", "request_rate"):
        assert np.isfinite(of.frame[name].values).all() == told
    assert bool(of.means) == told
