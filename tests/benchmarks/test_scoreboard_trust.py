"""What the scoreboard makes of looks, certainties, sources and surroundings."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest
import scoreboard_draw
import scoreboard_sources
from absent import absent_witnesses, impact_shows, right_without, series_of
from looks import Look
from scoreboard_harm import growth, hit, loses
from scoreboard_tables import Outcome
from scoreboard_trust import (
    certainty_table,
    claims,
    innocent_table,
    left_out_table,
    looks_table,
    reliability_table,
    sources_table,
    traits_table,
)

from inferdoc.catalogue.load import load_catalogue
from inferdoc.simulate.output import write_file
from inferdoc.simulate.scenario import FaultSpec, Scenario
from inferdoc.simulate.scenario_files import read_scenario
from inferdoc.simulate.surroundings import Bystander, Surroundings
from inferdoc_dev.incidents import CAUSES
from inferdoc_dev.incidents.generator import randomised
from inferdoc_dev.incidents.recording import record

SMALL = """
id: slow-gpu
title: small
expect: {cause: slow-gpu, pods: [vllm-1], onset: 200s}
pools: [{name: vllm, pods: 3, model: llama-3.1-8b}]
traffic: [{rate: 3, prompt: {median: 300, sigma: 0.3}, output: {median: 60, sigma: 0.3}}]
faults: [%s, {kind: clock, at: 200s, pods: [vllm-1], clock: 0.3, bandwidth: 0.35}]
duration: 480s
scrape: 10s
"""
ROLLOUT = "{kind: rollout, at: 100s, after: 20s, seconds: 60s, surge: 0.34}"
NEIGHBOUR = "{kind: xid, at: 0, xid: 13, pods: [vllm-0]}"


def scenario(first: str, **fields: object) -> Scenario:
    drawn = Surroundings(seed=2, naming="deployment", base="chat", late=60.0, **fields)  # type: ignore[arg-type]
    return msgspec.structs.replace(read_scenario(SMALL % first, "small"), surroundings=drawn)


def outcome(causes: list[str], sure: list[str], **fields: object) -> Outcome:
    given = {"cause": "a", "accepts": (), "harmful": True, "source": "simulator", **fields}
    chance = given.pop("chance", [None] * len(causes))
    whole = Look("degraded" if causes else "healthy", causes, sure, chance, [None] * len(causes))  # type: ignore[arg-type]
    return Outcome("a", 1, found=causes, sure=sure, hours=0.5, load_changes=[None] * len(causes), whole=whole, **given)  # type: ignore[arg-type]


def row(table: list[str], name: str) -> list[str]:
    """The cells of a row by its first one."""
    return next(cells for line in table if (cells := [c.strip() for c in line.strip("|").split("|")])[0] == name)


# ---- tables -----------------------------------------------------------------------------------------------------


def test_claims_are_counted_in_every_look_that_hurts():
    late = Look("degraded", ["b"], ["likely"], [None], [None])
    one = outcome(["a", "b"], ["proven", "possible"], late=late, late_hurts=True)
    assert [(c.source, c.certainty, c.right, c.first) for c in claims([one])] == [
        ("simulator", "proven", True, True),
        ("simulator", "possible", False, False),
        ("simulator, late", "likely", False, True),
    ]
    one.late_hurts = one.harmful = False
    assert claims([one]) == [], "on a fault that hurts nobody there is nothing to be right about"


def test_every_finding_of_a_control_is_wrong():
    control = outcome(["a"], ["likely"], cause=None, group="control", harmful=False)
    assert [c.right for c in claims([control])] == [False]
    accepted = outcome(["a"], ["likely"], cause=None, accepts=("a",), group="control", harmful=False)
    assert [c.right for c in claims([accepted])] == [True]


def test_looks_count_healthy_and_unknown_apart():
    silent = outcome([], [], late=Look("unknown"), late_hurts=True)
    table = looks_table([outcome(["a"], ["proven"]), silent])
    assert row(table, "in time")[1:] == ["2", "0.50", "0.50", "0.50", "1", "0", "0"]
    assert row(table, "late")[1:] == ["1", "0.00", "0.00", "0.00", "0", "1", "0"]


def test_a_source_is_held_against_all_others():
    own = [outcome(["a"], ["proven"]), outcome(["b"], ["proven"])]
    other = [outcome(["a"], ["proven"], source="heldout")]
    every = claims([*own, *other])
    cells = row(left_out_table(every), "simulator")
    assert cells[1:3] == ["1.00", "0.50 of 2"] and cells[-1] == "0.50"
    assert row(certainty_table(every), "heldout")[1] == "1.00 of 1"
    assert row(sources_table([*own, *other]), "simulator")[1:4] == ["2", "0.50", "0"]


def test_reliability_needs_probabilities():
    assert reliability_table(claims([outcome(["a"], ["proven"])]))[0].startswith("No finding")
    rated = [outcome(["a"], ["proven"], chance=[0.93]), outcome(["b"], ["proven"], chance=[0.97])]
    assert row(reliability_table(claims(rated)), "0.9 to 1.0")[1:] == ["2", "0.95", "0.50"]


def test_tables_of_surroundings_and_innocent_events():
    one = outcome(["a"], ["proven"], traits=["labels: pod", "rollout"])
    two = outcome([], [], traits=["labels: pod"])
    table = traits_table([one, two])
    assert row(table, "labels: pod")[1:4] == ["2", "0.50", "1"] and row(table, "rollout")[1:4] == ["1", "1.00", "0"]
    wrong = outcome(["a"], ["likely"], cause=None, group="control", happened=["rollout", "nothing"])
    quiet = outcome([], [], cause=None, group="control", happened=["nothing"])
    table = innocent_table([wrong, quiet])
    assert row(table, "rollout")[3:] == ["1", "0", "`a` 1"] and row(table, "nothing")[3:] == ["0", "0", "-"]


# ---- truth ------------------------------------------------------------------------------------------------------


def test_truth_follows_a_pod_through_a_rollout():
    recording = record(scenario(ROLLOUT))
    struck = scenario(ROLLOUT)
    onset = struck.start + 200.0
    slots = hit(struck.expect, recording, onset)
    assert slots == {"vllm-1"}
    bare = {life.bare for life in recording.lives if life.slot in slots}
    assert len(bare) == 2, "the pod before and the one after"
    assert growth(recording.bare, bare, 1000 * onset) > 1.3
    others = {life.bare for life in recording.lives} - bare
    assert growth(recording.bare, others, 1000 * onset) < 1.3
    # Its tokens are slower and its first tokens still come at once: a limit on admission did not do that.
    assert growth(recording.bare, bare, 1000 * onset, "kv-capacity-bound") == 1.0


def test_a_draw_is_looked_at_in_time_and_late(tmp_path, monkeypatch):
    side = Bystander("h100-80", "llama-3.1-8b", 1, 1, 0.1, False)
    monkeypatch.setattr(scoreboard_draw, "randomised", lambda *_: scenario(NEIGHBOUR, bystanders=(side,), old=200.0))
    judged = scoreboard_draw.run(("cause", "slow-gpu", 1, False, False))
    assert judged.harmful and judged.late_hurts and judged.late is not None and judged.old is not None
    assert judged.hours == pytest.approx(480 / 3600) and "other models beside" in judged.traits
    assert judged.first_right, judged.found
    assert judged.scope == 1.0 and abs(judged.onset_error) < 60


def test_witnesses_that_were_withheld_are_told():
    catalogue = load_catalogue()
    kept = record(scenario(NEIGHBOUR))
    assert not absent_witnesses("kv-preemption-thrash", series_of(kept.targets), catalogue)
    less = record(scenario(NEIGHBOUR, withheld=("vllm:num_preemptions_total", "vllm:kv_cache_usage_perc")))
    assert absent_witnesses("kv-preemption-thrash", series_of(less.targets), catalogue)
    assert absent_witnesses("no-such-cause", series_of(less.targets), catalogue) == []
    clocks = absent_witnesses("gpu-clock-throttle", series_of(kept.targets), catalogue, joined=False)
    assert clocks and set(clocks) > set(absent_witnesses("gpu-clock-throttle", series_of(kept.targets), catalogue))
    assert right_without("gpu-clock-throttle") == ("unexplained-anomaly", "slow-gpu", "gpu")


def test_a_formula_needs_all_of_its_terms():
    catalogue = load_catalogue()
    full = series_of(record(scenario(NEIGHBOUR)).targets)
    assert not absent_witnesses("kv-preemption-thrash", full, catalogue)
    alone = full - {"vllm:num_preemptions_total"}
    assert absent_witnesses("kv-preemption-thrash", alone, catalogue) == ["preempt_fraction"]
    gaps = {name for name in full if not name.startswith("vllm:inter_token_latency")}
    assert "itl_p99" in absent_witnesses("long-prefill-interference", gaps, catalogue), "its symptom cannot be seen"
    assert absent_witnesses("slow-gpu", full, catalogue) == []


def test_what_is_lost_before_the_engines_shows_at_the_router_alone():
    catalogue = load_catalogue()
    full = series_of(record(scenario(NEIGHBOUR)).targets)
    engines = {name for name in full if name.startswith("vllm:") or name == "up"}
    assert impact_shows("no-ready-endpoints", full, catalogue)
    assert not impact_shows("no-ready-endpoints", engines, catalogue)
    assert impact_shows("engine-down", engines, catalogue) and not impact_shows("no-such-cause", engines, catalogue)


def test_a_failed_remap_without_another_error_is_a_loss_where_it_shows():
    faults = [FaultSpec("xid", 240.0, pods=("vllm-1",), xid=code) for code in (64, 94)]
    failed, contained = (msgspec.structs.replace(scenario(NEIGHBOUR), faults=(fault,)) for fault in faults)
    assert not loses("gpu-ecc-degradation", failed, remaps_show=False)
    assert loses("gpu-ecc-degradation", failed, remaps_show=True)
    assert loses("gpu-ecc-degradation", contained, remaps_show=False)


@pytest.mark.parametrize(("policy", "lost"), [("fail", True), ("recompute", False)])
def test_a_read_that_fails_loses_a_request_unless_its_prompt_is_computed_again(policy: str, lost: bool):
    one = scenario(NEIGHBOUR)
    flags = msgspec.structs.replace(one.pools[0].flags, on_failed_read=policy)
    reader = msgspec.structs.replace(one.pools[0], role="decode", flags=flags)
    apart = msgspec.structs.replace(one, pools=(one.pools[0], reader))
    assert loses("kv-load-failure", apart, remaps_show=True) is lost


def test_recordings_are_a_source_of_their_own(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    source = scenario(NEIGHBOUR)
    recording = record(source)
    write_file(recording.targets, folder / "slow.om.gz")
    sick = [name for life in recording.slots(("vllm-1",), source.start + 200) for name in life.shown[:1]]
    label = {
        "file": "slow.om.gz",
        "control": False,
        "expected": ["slow-gpu"],
        "since": "8m",
        "onset": source.start + 200.0,
        "affected_pods": sick,
    }
    (folder / "labels.json").write_text(json.dumps({"recordings": [label, {**label, "file": "missing.om.gz"}]}))
    listed = scoreboard_sources.outcomes_of(folder)
    assert [label["file"] for _, label in listed] == ["slow.om.gz"]
    judged = scoreboard_sources.judge(listed[0])
    assert judged.source == "elsewhere" and judged.harmful and judged.first_right and judged.late is not None


def test_the_same_task_draws_the_same_scenario():
    drawn = [randomised("slow-gpu", 41, CAUSES) for _ in range(2)]
    assert drawn[0] == drawn[1] and np.isfinite(drawn[0].duration)
