"""`inferdoc slo show` on history whose every event is known, and on real recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import alone, call, refused
from tests.slo.made import Engine, Hour, store

__all__ = ["alone"]
HOURS = 30
BAD = Hour(ttft=(0.1, 0.2, 0.3, 0.5, 1.0))
OWN = """
slos:
  - {id: ttft, title: First tokens within 2.5 s, signal: ttft, percentile: 99, target: 2.5}
  - {id: ttft-two, title: First tokens within 2 s, signal: ttft, percentile: 95, target: 2, model: between}
  - {id: tpot, title: Tokens, signal: tpot_request, percentile: 99, target: 0.2}
  - {id: errors, title: No errors, signal: error_share, target: 0.01}
  - {id: gold, title: Gold, signal: ttft, percentile: 99, target: 1, tenant: {customer: gold}}
  - {id: silver, title: Silver, signal: ttft, percentile: 95, target: 1, tenant: {class: silver}}
  - {id: queue, title: Queue, signal: running, target: 100}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One pool that breaks its objective in the last hour, a prefill pool, one whose limit lies between two bounds, an
    idle one, and one with a class of tenants."""
    folder = tmp_path_factory.mktemp("slo")
    engines = [
        Engine("chat-0", lambda hour: BAD if hour == HOURS - 1 else Hour(failed=6)),
        Engine("chat-1", lambda hour: Hour(failed=6)),
        Engine("pre-0", model="pd", labels={"role": "prefill"}),
        Engine("mid-0", model="between", hours=lambda _: Hour(ttft=(0.5, 0.9, 0.94, 0.995, 1.0))),
        Engine("idle-0", model="idle", hours=lambda _: Hour(requests=1)),
        Engine("class-0", model="classes", labels={"class": "silver"}),
    ]
    (folder / "mine" / "alerts").mkdir(parents=True)
    (folder / "mine" / "alerts" / "slo.yaml").write_text(OWN, "utf-8")
    store(folder / "made.db", engines, HOURS)
    return folder


def shown(made: Path, *more: str) -> tuple[int, dict[str, Any]]:
    line = ("--catalogue", made / "mine", "slo", "show", "--store", made / "made.db", "--until", "latest", "-o", "json")
    done = call(*line, *more)
    return done.code, json.loads(done.out)


def lines(report: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["objective"], one["place"]["model"]): one for one in report["objectives"]}


def test_attainment_budget_and_burn_are_those_of_the_events(made):
    code, report = shown(made, "--since", "7d")
    found = lines(report)
    chat = found["ttft", "llama"]
    share = ((2 * HOURS - 1) * 0.995 + 0.5) / (2 * HOURS)
    assert chat["attained"]["low"] == chat["attained"]["high"] == pytest.approx(share, abs=2e-4)
    assert chat["budget_left"]["low"] == pytest.approx(1 - (1 - share) / 0.01, abs=0.02)
    assert chat["status"] == "missed" and code == 1 and report["verdict"] == "missed"
    burn = {one["window"]: one["rate"] for one in chat["burn"]}
    assert burn["1h"]["low"] == pytest.approx((0.5 * 0.5 + 0.5 * 0.005) / 0.01, rel=0.02)
    assert burn["1d"]["low"] == pytest.approx((0.5 + 47 * 0.005) / 48 / 0.01, rel=0.05)
    assert burn["3d"] is None, "the data do not reach over three days"
    assert chat["alerting"] == "fast"
    errors = found["errors", "llama"]
    assert errors["attained"]["low"] == pytest.approx(1 - 6 * (2 * HOURS - 1) / (606 * 2 * HOURS), abs=2e-4)
    assert report["seen_seconds"] == pytest.approx(HOURS * 3600, abs=300) and report["asked_seconds"] == 7 * 86_400


def test_the_exit_code_is_that_of_the_part_requested(made):
    assert shown(made, "--model", "classes")[0] == 0
    assert shown(made, "--model", "idle", "--since", "2h")[0] == 3
    code, report = shown(made, "--model", "between")
    assert code == 3 and report["verdict"] == "unknown"


def test_between_two_bounds_both_ends_are_reported(made):
    one = lines(shown(made)[1])["ttft-two", "between"]
    assert one["attained"]["low"] == pytest.approx(0.94, abs=1e-3)
    assert one["attained"]["high"] == pytest.approx(0.995, abs=1e-3)
    assert one["status"] == "between" and one["bounds"] == [1.0, 2.5]


def test_the_narrower_objective_takes_its_model_from_the_common_one(made):
    """Of two percentiles both hold: they promise different things."""
    found = lines(shown(made)[1])
    assert ("ttft-two", "llama") not in found and ("ttft", "llama") in found


def test_goodput_is_between_what_two_shares_allow(made):
    report = shown(made, "--model", "llama")[1]
    (one,) = report["goodput"]
    ttft, tpot = ((2 * HOURS - 1) * 0.995 + 0.5) / (2 * HOURS), 0.998
    served = 2 * 600 / 3600
    assert one["good"]["low"] == pytest.approx(served * (ttft + tpot - 1), rel=2e-3)
    assert one["good"]["high"] == pytest.approx(served * min(ttft, tpot), rel=2e-3)
    assert one["asked"] == pytest.approx(served + 6 * (2 * HOURS - 1) / (HOURS * 3600), rel=2e-3)
    assert one["share"]["low"] == pytest.approx(one["good"]["low"] / one["asked"], rel=1e-6)


def test_a_prefill_pool_has_no_time_per_token(made):
    report = shown(made, "--model", "pd")[1]
    assert ("tpot", "pd") not in lines(report) and ("ttft", "pd") in lines(report) and report["goodput"] == []


def test_tenants_are_evaluated_where_the_data_distinguish_them(made):
    report = shown(made)[1]
    because = {one["objective"]: one["because"] for one in report["not_judged"]}
    assert "its series have no label customer" in because["gold"]
    assert "no events to count" in because["queue"]
    silver = lines(report)["silver", "classes"]
    assert silver["tenant"] == {"class": "silver"} and silver["status"] == "met"
    assert ("silver", "llama") not in lines(report)


@pytest.mark.parametrize("columns", [80, 120])
def test_the_text_fits_the_terminal(made, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    done = call("--catalogue", made / "mine", "slo", "show", "--store", made / "made.db", "--until", "latest")
    assert max(map(len, done.out.splitlines()[1:])) <= columns, "the first line is the path of the store"
    assert "! llm llama" in done.out and "? llm between" in done.out and "94..99.5 %" in done.out
    assert "buckets end at 1 s and 2.5 s, and 2 s lies between" in " ".join(done.out.split())
    assert "Not met: ttft." in done.out


def test_what_is_not_there_is_one_line(made, tmp_path):
    refused(call("slo", "show", "--store", tmp_path / "none.db"), 4, "none.db")
    line = ("slo", "show", "--store", made / "made.db", "--until", "latest")
    refused(call(*line, "--model", "nope"), 2, "no pool matches", "llama")
    refused(call(*line, "--since", "soon"), 2, "--since", "soon")


@pytest.mark.parametrize("name", ["control-steady", "control-pd", "control-bursts", "control-kv-high", "control-ramp"])
def test_healthy_recordings_keep_the_starting_points(store_of, name):
    """Chunked prefill is on in all of them; of control-kv-high one gap in fifty is beyond 0.1 s."""
    done = call("slo", "show", "--store", store_of(name), "--until", "latest", "-o", "json")
    report = json.loads(done.out)
    assert done.code == 0 and {one["status"] for one in report["objectives"]} <= {"met", "too few"}


def test_a_recording_of_an_incident_breaks_them(store_of):
    done = call("slo", "show", "--store", store_of("demand-beyond-capacity"), "--until", "latest", "-o", "json")
    report = json.loads(done.out)
    missed = {one["objective"] for one in report["objectives"] if one["status"] == "missed"}
    assert done.code == 1 and "ttft" in missed
