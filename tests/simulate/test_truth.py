"""The simulator against real engines: the same flags, load and fault must move the same signals, the same way, by a
like factor."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferdoc import open_source
from inferdoc.catalogue.load import load_catalogue
from inferdoc.judging.reading import read_window
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scrape import simulate
from inferdoc.source.frame import SignalFrame
from inferdoc.store import Store
from tests.conftest import store_of_file
from tests.simulate.lab import ONSETS, SCENARIOS

RECORDINGS = Path(__file__).parent.parent.parent / "fixtures" / "recordings"
SIGNALS = (
    "running",
    "waiting_capacity",
    "waiting_deferred",
    "kv_usage_mean",
    "preempt_fraction",
    "prefix_hit_ratio",
    "ttft_mean",
    "itl_mean",
    "tpot_request_mean",
    "e2e_mean",
    "queue_time_mean",
    "prefill_time_mean",
    "request_rate",
    "prefill_tokens_rate",
    "generation_tokens_rate",
    "spec_acceptance_rate",
    "kv_fetch_pending",
    "nixl_xfer_mean",
    "nixl_expired_rate",
    "nixl_failures_rate",
    "error_share",
    "http_request_rate",
    "target_up",
)
MOVED = 2.0
"""A signal of the recording has moved when its mean after the onset is so many times its mean before, or the
inverse."""
LIKE = 4.0
"""The simulated factor may be so many times the real one, or the inverse."""
KNOWN = {
    ("prefix-eviction-cascade", "queue_time_mean"): "one core: the front end of the lab competes with its own prefill",
    ("long-prefill-overload", "tpot_request_mean"): "the lab's core was overloaded, which slows the front end too",
    ("long-prefill-overload", "queue_time_mean"): "the lab's core was overloaded, which slows the front end too",
    ("long-prefill-overload", "waiting_capacity"): "the lab's core was overloaded, which slows the front end too",
    (
        "client-retry-storm",
        "generation_tokens_rate",
    ): "the lab's API server shares its core with the engine and starves it",
    ("kv-handshake-failure", "running"): "three pods shared one core; half of the work left the healthy one",
    ("kv-handshake-failure", "itl_mean"): "three pods shared one core",
    ("kv-handshake-failure", "tpot_request_mean"): "three pods shared one core",
    ("kv-handshake-failure", "e2e_mean"): "three pods shared one core",
    (
        "routing-imbalance-two-cores",
        "ttft_mean",
    ): "client and scraper shared the cores of the pods and queued before the onset",
    ("routing-imbalance-two-cores", "queue_time_mean"): "client and scraper shared the cores of the pods",
}
"""Where the simulator is allowed to differ, and why; docs/simulator.md says so too."""
STAGES = {
    "kv-preemption-thrash": ("kv_usage_mean", "preempt_fraction"),
    "demand-beyond-capacity": ("waiting_capacity", "queue_time_mean"),
    "kv-transfer-backlog": ("kv_fetch_pending", "nixl_xfer_mean"),
}
"""Signals that leave their calm band in this order on the real engine."""


@lru_cache(maxsize=1)
def onsets() -> dict[str, Any]:
    listed = json.loads((RECORDINGS / "labels.json").read_text("utf-8"))["recordings"]
    return {entry["file"].removesuffix(".om.gz"): entry for entry in listed}


def read(path: Path) -> SignalFrame:
    return read_window(open_source(store=path), SIGNALS, load_catalogue(), "1h", None, "latest")[0]


def real_frame(name: str) -> tuple[SignalFrame, float]:
    """Signals of the recording, and the Unix time of its second 0."""
    frame = read(store_of_file(RECORDINGS / f"{name}.om.gz"))
    onset = onsets()[name]["onset"]
    return frame, onset - ONSETS[name] if onset else frame.grid.times_ms[0] / 1000


def simulated_frame(name: str, folder: Path) -> tuple[SignalFrame, float]:
    scenario = SCENARIOS[name]()
    path = folder / "simulated.db"
    with Store.open(path, "w") as store:
        write_store(simulate(scenario), store)
    return read(path), scenario.start


def means(frame: SignalFrame, zero: float, onset: float | None) -> dict[tuple[str, str], tuple[float, float]]:
    """Mean of each signal and pod before the onset and from 25 s after it; the whole recording twice without an
    onset."""
    seconds = frame.grid.times_ms / 1000 - zero
    healthy = (seconds > 8) & (seconds <= onset) if onset else seconds > 10
    later = seconds > onset + 25 if onset else healthy
    found = {}
    for name in SIGNALS:
        if name not in frame:
            continue
        for entity, row in zip(frame[name].entities, frame[name].values, strict=True):
            parts = [row[part][np.isfinite(row[part])] for part in (healthy, later)]
            if all(len(part) for part in parts):
                found[name, entity.get("pod")] = (float(parts[0].mean()), float(parts[1].mean()))
    return found


def factor(signal: str, values: tuple[float, float]) -> float:
    """After over before; changes below the signal's floor are none."""
    floor = load_catalogue().signals[signal].floor
    before, after = (max(abs(v), floor) for v in values)
    return after / before


@pytest.mark.parametrize("name", [n for n in SCENARIOS if n in ONSETS])
def test_the_same_signals_move_by_like_factors(name: str, tmp_path: Path) -> None:
    onset = ONSETS[name]
    real, zero = real_frame(name)
    made, start = simulated_frame(name, tmp_path)
    truth, simulated = means(real, zero, onset), means(made, start, onset)
    moved = 0
    for (signal, pod), values in truth.items():
        expected = factor(signal, values)
        if (signal, pod) not in simulated or (name, signal) in KNOWN or 1 / MOVED < expected < MOVED:
            continue
        got = factor(signal, simulated[signal, pod])
        moved += 1
        assert (got > 1) == (expected > 1), f"{signal} of {pod}: real x {expected:.2f}, simulated x {got:.2f}"
        assert 1 / LIKE < got / expected < LIKE, f"{signal} of {pod}: real x {expected:.2f}, simulated x {got:.2f}"
    assert moved >= 2 or name == "engine-down"
    if name in STAGES:
        first, second = STAGES[name]
        for frame, begin in ((real, zero), (made, start)):
            assert left_healthy(frame, begin, onset, first) <= left_healthy(frame, begin, onset, second) + 4


def left_healthy(frame: SignalFrame, zero: float, onset: float, signal: str) -> float:
    """Seconds at which a signal is first outside 1.5 times its calm range for good."""
    seconds = frame.grid.times_ms / 1000 - zero
    row = (
        frame[signal].values[0]
        if len(frame[signal].values) == 1
        else np.nanmax(np.nan_to_num(frame[signal].values), axis=0)
    )
    healthy = row[(seconds > 8) & (seconds <= onset) & np.isfinite(row)]
    floor = load_catalogue().signals[signal].floor
    high, low = max(healthy.max() * 1.5, floor), healthy.min() / 1.5
    outside = (seconds > onset) & ((row > high) | (row < low - floor / 2))
    return float(seconds[outside][0])


@pytest.mark.parametrize("name", [n for n in SCENARIOS if n.startswith("control-")])
def test_controls_stand_at_like_levels(name: str, tmp_path: Path) -> None:
    truth = means(*real_frame(name), None)
    simulated = means(*simulated_frame(name, tmp_path), None)
    for (signal, pod), (level, _) in truth.items():
        if signal not in ("request_rate", "kv_usage_mean", "prefix_hit_ratio", "generation_tokens_rate", "ttft_mean"):
            continue
        floor = load_catalogue().signals[signal].floor
        ratio = max(simulated[signal, pod][0], floor) / max(level, floor)
        assert 1 / 2.5 < ratio < 2.5, f"{signal} of {pod}: real {level:.3g}, simulated {simulated[signal, pod][0]:.3g}"
