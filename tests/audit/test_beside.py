"""What `audit` finds stands beside a diagnosis, and keeps it from being healthy where users notice it."""

from __future__ import annotations

import json

import pytest

from tests.cli.command import alone, call
from tests.judging.made import Engine, recorded, stored, then

__all__ = ["alone"]
FULL = {"kv": 0.99, "waiting": 6.0, "queue": 1.5, "ttft": 1.7}


def diagnosed(folder, *engines):
    path = stored(recorded(*engines).text(), folder)
    done = call("diagnose", "--store", path, "--since", "6m", "--until", "latest", "-o", "json")
    text = call("diagnose", "--store", path, "--since", "6m", "--until", "latest").out
    return done.code, json.loads(done.out), text


def test_a_cache_that_was_always_full_is_not_healthy(tmp_path):
    code, answer, text = diagnosed(tmp_path, Engine("a", **FULL), Engine("b", **FULL))
    assert (code, answer["verdict"], answer["findings"]) == (1, "degraded", [])
    (state,) = answer["persistent"]
    assert state["id"] == "kv-cache-always-full" and state["affects_users"] and state["pods"] == ["a", "b"]
    assert "kv-cache-always-full" in text and "90 %" in answer["summary"]


@pytest.mark.parametrize("wait", [{}, {"ttft": 20.0, "queue": 18.0}])
def test_what_a_finding_names_is_no_persistent_state_nor_is_what_that_covers(tmp_path, wait):
    levels = {**FULL, **wait, "preemptions": 1.0, "itl": then(0.02, 0.06)}
    _, answer, _ = diagnosed(tmp_path, Engine("a", **levels))
    named = {finding["family"] for finding in answer["findings"]}
    assert "kv-space" in named and answer["persistent"] == []


@pytest.mark.parametrize("levels", [{}, {"kv": 0.99}])
def test_a_fleet_without_such_a_state_is_healthy(tmp_path, levels):
    code, answer, _ = diagnosed(tmp_path, Engine("a", **levels), Engine("b", **levels))
    assert (code, answer["verdict"], answer["persistent"]) == (0, "healthy", [])
