"""Observations of many pods at once are those of each pod by itself, to the last bit."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from inferdoc.audit import persistent
from inferdoc.audit.observe import LEAST_OF_PART, observe
from inferdoc.catalogue.standing import QUANTILES
from inferdoc.judging import api
from inferdoc.judging.document import DiagnosisWithSeries
from tests.audit.lab import watched
from tests.judging.frames import catalogue

STEPS = 961
"""Of a day at 90 s."""


def uneven_fleet():
    """Pods at every level, with gaps, work for half of the day or none, and signals that some pods lack."""
    random = np.random.default_rng(3)
    pods = {}
    for number in range(12):
        usage = random.random(STEPS) * (number + 1) / 12
        usage[random.random(STEPS) < number / 20] = np.nan
        work = np.where(np.arange(STEPS) % 96 < 8 * number, 20.0, 0.0)
        pods[f"vllm-{number}"] = {"kv_usage_mean": usage, "running": work, "generation_tokens_rate": 20 * work}
        if number % 3:
            pods[f"vllm-{number}"] |= {"queue_time_p99": usage * 20, "gpu_util": usage}
    return watched(pods)


def alone(one, fleet, unit):
    """holds, value and share of an observation of a signal over time, by numpy for one unit."""
    values = fleet.values(unit, one.signal)
    seen = np.where((fleet.busy(unit) | one.always) & np.isfinite(values), values, np.nan)
    parts = [part[np.isfinite(part)] for part in (seen[each] for each in fleet.parts())]
    least = LEAST_OF_PART * len(seen[fleet.parts()[0]])
    means = np.array([part.sum() / len(part) for part in parts if len(part) and len(part) >= least])
    if len(means) < fleet.number("standing_least_parts"):
        return None, None, None
    limit = fleet.number(str(one.limit), unit.member.tier)
    held = np.mean(means > limit if one.above else means < limit)
    if one.at is not None:
        value = np.nanquantile(seen, QUANTILES[one.at])
        return bool(value > limit if one.above else value < limit), value, held
    return bool(held >= fleet.number(one.share or "standing_share")), np.median(means), held


def test_pods_together_are_observed_as_each_alone():
    fleet, compared = uneven_fleet(), 0
    observations = catalogue().standing.observations
    for name, one in observations.items():
        if one.signal not in ("kv_usage_mean", "running", "queue_time_p99", "gpu_util"):
            continue
        for unit, found in zip(
            fleet.view.units, observe(name, one, fleet, [[u] for u in fleet.view.units]), strict=True
        ):
            if fleet.values(unit, one.signal) is None:
                assert found.holds is None and found.missing == (one.signal,)
                continue
            holds, value, held = alone(one, fleet, unit)
            assert (found.holds, found.value) == (holds, pytest.approx(value, rel=1e-12))
            assert found.held == held and bool(found.text) == (holds is not False)
            compared += holds is not None
    assert compared > 20


def test_no_search_for_cycles_interrupts_the_audit(monkeypatch):
    enabled = []
    monkeypatch.setattr(api, "diagnose", lambda *args: DiagnosisWithSeries)
    monkeypatch.setattr(persistent, "add_persistent", lambda *args: enabled.append(gc.isenabled()))
    gc.enable()
    persistent.diagnose(None)
    assert enabled == [False] and gc.isenabled()
