"""Whether an incident hurt users at all, by what was lost and how long they waited; no recipe is asked.

A fault of the measurement, or a warning of the hardware that nothing came of, hurts nobody: a diagnosis that has never
heard of it may stay silent.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from inferdoc import open_source
from inferdoc.catalogue.load import load_catalogue
from inferdoc.judging.reading import read_window
from inferdoc.simulate.scenario import Scenario
from inferdoc.source.frame import SignalFrame

LOST = (
    "error_rate",
    "abort_rate",
    "abandoned_rate",
    "admission_rejections_rate",
    "corrupted_rate",
    "nixl_expired_rate",
    "nixl_failures_rate",
    "router_errors",
    "router_no_endpoint_rate",
    "router_flow_rejects",
)
"""Events per second, each a request that failed, was refused, given up, spoilt or computed for nothing."""
MISSED = "tool_calls_missed_share"
ASKED = ("router_request_rate", "http_request_rate", "request_rate")
ALIVE = ("target_up", "generation_tokens_rate")
LEAST_EVENTS, LEAST_SHARE = 3.0, 0.01
"""Lost requests that count as harm: at least three, and one in a hundred."""
WAIT = "router_ttft_mean"
LEAST_GROWTH = 1.3
"""Growth of the wait at the router that counts as harm, as for the latencies of the engines."""


def lost_work(path: Path, scenario: Scenario) -> bool:
    """Whether requests were lost after the onset or waited longer at the router, or a pod that the fault hit stood
    still at the end."""
    catalogue = load_catalogue()
    until = scenario.start + scenario.duration
    wanted = (*LOST, MISSED, WAIT, *ASKED, *ALIVE)
    frame, _ = read_window(open_source(store=path), wanted, catalogue, None, scenario.start, until)
    after = frame.times >= scenario.start + (scenario.expect.onset or 0.0)
    asked = max((_events(frame, name, after) for name in ASKED), default=0.0)
    lost = max(_events(frame, name, after) for name in LOST)
    if lost >= max(LEAST_EVENTS, LEAST_SHARE * asked):
        return True
    floor = catalogue.signals[WAIT].floor
    return (
        _missed(frame, after)
        or _waited(frame, after, floor)
        or any(_still(frame, pod, after) for pod in scenario.expect.pods)
    )


def _events(frame: SignalFrame, name: str, after: np.ndarray) -> float:
    """How many events beyond those of the calm, over all pods."""
    if name not in frame:
        return 0.0
    values = np.nan_to_num(frame[name].values)
    usual = values[:, ~after].mean(axis=1, keepdims=True) if name in LOST and (~after).any() else 0.0
    return float(np.maximum(values[:, after] - usual, 0.0).sum() * frame.grid.step_ms / 1000)


def _waited(frame: SignalFrame, after: np.ndarray, floor: float) -> bool:
    """Whether the first token took longer at the router. floor: s, the least that matters."""
    if WAIT not in frame:
        return False
    before, now = (np.nanmean(part) if np.isfinite(part).any() else 0.0 for part in _parts(frame, WAIT, after))
    return bool(now >= LEAST_GROWTH * before and now - before >= floor and before > 0)


def _parts(frame: SignalFrame, name: str, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values before and after the onset."""
    return frame[name].values[:, ~after], frame[name].values[:, after]


def _missed(frame: SignalFrame, after: np.ndarray) -> bool:
    """Whether calls of tools came out as plain text that did not before."""
    if MISSED not in frame:
        return False
    before, now = (np.nanmean(part) if np.isfinite(part).any() else 0.0 for part in _parts(frame, MISSED, after))
    return bool(now - before >= LEAST_SHARE)


def _still(frame: SignalFrame, pod: str, after: np.ndarray) -> bool:
    """Whether a pod that worked before does nothing at the end."""
    for name in ALIVE:
        for entity, row in zip(frame[name].entities, frame[name].values, strict=True) if name in frame else ():
            if entity.pod == pod and (row[~after] > 0).any():
                late = row[after][-len(row[after]) // 4 :]
                if not (late > 0).any() and (name == "target_up" or np.isfinite(late).any()):
                    return True
    return False
