"""`inferdoc slo suggest`: what a pool kept in its calm hours, or why that cannot be told."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.cli.command import alone, call
from tests.slo.made import Engine, Hour, store

__all__ = ["alone"]
HOURS = 40
SLOW = Hour(ttft=(0.1, 0.2, 0.3, 0.5, 1.0))


def hours(hour: int) -> Hour:
    """One slow hour, one with failures, one in which the engine was away."""
    return {5: SLOW, 9: Hour(failed=60), 20: Hour(up=False)}.get(hour, Hour())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("suggest") / "made.db"
    engines = [
        Engine("chat-0", hours),
        Engine("cut-0", model="cut"),
        Engine("cut-1", model="cut", ttft=(0.2, 0.6, 1.5, 3.0, 6.0)),
        Engine("slow-0", model="slow", hours=lambda _: Hour(ttft=(0.0, 0.0, 0.0, 0.1, 0.5))),
        Engine("idle-0", model="idle", hours=lambda _: Hour(requests=10)),
    ]
    return store(path, engines, HOURS)


def suggested(made: Path, *more: object):
    done = call("slo", "suggest", "--store", made, "--until", "latest", "-o", "json", *more)
    return done.code, {(one["model"], one["signal"]): one for one in json.loads(done.out)}


def test_the_tightest_bound_that_nearly_all_healthy_hours_met(made):
    code, found = suggested(made)
    one = found["llama", "ttft"]
    assert (code, one["target"], one["hours"], one["met"]) == (0, 2.5, HOURS - 2, HOURS - 3)
    assert one["attained"] == pytest.approx(((HOURS - 3) * 0.995 + 0.5) / (HOURS - 2), abs=1e-3)
    assert one["tighter"][:2] == [1.0, 0] and one["tighter"][2] == pytest.approx(0.952, abs=2e-3)
    assert one["left_out"] == {"an engine that did not answer": 1, "failed requests": 1}
    assert found["llama", "tpot_request"]["target"] == 0.2


def test_another_percentile_has_another_bound(made):
    assert suggested(made, "--percentile", "95")[1]["llama", "ttft"]["target"] == 1.0
    assert suggested(made, "--hours", "1.0")[1]["llama", "ttft"]["target"] == 5.0, "the slow hour counts as well"


def test_what_data_cannot_report_is_refused_with_the_reason(made):
    found = suggested(made)[1]
    assert "no bound in common" in found["cut", "ttft"]["because"]
    assert found["cut", "tpot_request"]["target"] == 0.2
    assert "within the widest bound, 5 s, in 0 of" in found["slow", "ttft"]["because"]
    assert f"0 healthy hours with traffic, 24 are needed ({HOURS} with fewer" in found["idle", "ttft"]["because"]
    code, short = suggested(made, "--since", "10h")
    assert code == 3 and all("24 are needed" in one["because"] for one in short.values() if one["model"] != "cut")


def test_what_is_printed_can_be_pasted(made, tmp_path):
    """Into the configuration or into an overlay: both are read, and both say the same."""
    line = ("slo", "suggest", "--store", made, "--until", "latest", "--model", "llama")
    toml, text = call(*line).out, call(*line, "-o", "yaml").out
    assert [entry["target"] for entry in tomllib.loads(toml)["slo"]] == [2.5, 0.2]
    assert yaml.safe_load(text)["slos"] == tomllib.loads(toml)["slo"]
    (tmp_path / "mine" / "alerts").mkdir(parents=True)
    (tmp_path / "mine" / "alerts" / "slo.yaml").write_text(text, "utf-8")
    (tmp_path / "own.toml").write_text(toml, "utf-8")
    show = ("slo", "show", "--store", made, "--until", "latest", "--model", "llama", "-o", "json")
    reports = [json.loads(call(*flag, *show).out) for flag in (("--catalogue", "mine"), ("--config", "own.toml"))]
    own = [one for one in reports[1]["objectives"] if one["promised"]]
    assert reports[0]["objectives"] == own and len(own) == 2
    assert {one["status"] for one in reports[0]["objectives"]} <= {"met", "missed"}


def test_a_recording_of_minutes_is_too_short(store_of):
    done = call("slo", "suggest", "--store", store_of("control-steady"), "--until", "latest")
    assert done.code == 3 and done.out.count("nothing to suggest") == 2
    assert all(line.startswith("#") or not line for line in done.out.splitlines())
