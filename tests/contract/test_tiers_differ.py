"""One limit, one start and one network for each tier: rules, boards, the judge and prewarm read those of its own."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from inferdoc.catalogue.load import load_catalogue
from inferdoc.fleet.members import Pool
from inferdoc.judging.advice import fill
from inferdoc.judging.conditions import evaluate
from inferdoc.judging.verdict import Match
from inferdoc.prewarm.pools import _Starts
from inferdoc.report.health import graded
from tests.judging.frames import N, recipe, scene
from tests.judging.test_advice import ONSET

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = load_catalogue()
TIERS = CATALOGUE.tiers
GPUS = sorted(name for name, tier in TIERS.tiers.items() if tier.names)
FAST, SLOW = "h100-80", "l4"


def test_rules_have_the_limits_of_the_tiers():
    groups = yaml.safe_load((ROOT / "alerts/generated/inferdoc-rules.yaml").read_text("utf-8"))["groups"]
    rules = [rule["expr"] for group in groups for rule in group["rules"] if 'tier="t4"' in rule["expr"]]
    assert rules
    for rule in rules:
        assert '{tier="t4"} < 307\n' in rule and '{tier=~"l4|a10|a10g"} < 461\n' in rule
        assert rule.endswith("} < 1024") and 'tier!~"' in rule


def test_boards_show_the_limits_of_the_tiers():
    board = (ROOT / "dashboards/generated/pd-and-transfer.json").read_text("utf-8")
    texts = [
        target["expr"] for panel in json.loads(board)["panels"] for target in panel.get("targets", [])
        if target.get("legendFormat") == "limit {{tier}}"
    ]  # fmt: skip
    assert len(texts) == 1
    for tier, limit in ((FAST, 8 / 400 / 0.1), (SLOW, 8 / 12.5 / 0.1)):
        assert f'vector({limit:g}), "tier", "{tier}"' in texts[0]


def test_the_judge_compares_a_transfer_with_the_network_of_the_tier():
    rows = {"nixl_bytes_rate": 1.34e9, "nixl_xfer_rate": 2.0, "nixl_xfer_mean": 0.5}

    def told(tier):
        context = scene({name: {"p0": np.full(N, value)} for name, value in rows.items()}, {"p0": {"tier": tier}})
        match = Match(recipe(), context.view.units[0], ONSET, N - 1, False, [], "likely")
        return fill("{expected_transfer}", context, match)

    assert "14.9 ms to 19.1 ms on a 400 Gb/s link" in told(FAST)
    assert "476 ms to 613 ms on a 12.5 Gb/s link" in told(SLOW)


def test_prewarm_starts_as_early_as_the_tier_takes():
    starts = _Starts(SimpleNamespace(opened=SimpleNamespace(tiers=TIERS)), SimpleNamespace())
    vars(starts)["_seen"] = {}
    found = {tier: starts.of(Pool("", "llm", "llama", "decode", tier), None).seconds for tier in GPUS}
    assert found[FAST] == 120 + round(79.6 * 2**30 / 0.5e9) and found[SLOW] == 120 + round(22.5 * 2**30 / 0.5e9)
    assert len(set(found.values())) > len(GPUS) / 2


def test_a_start_follows_weights_and_the_path_they_are_read_over():
    """141 GB: 11 s, 128 s and 282 s, beside the start of the engine (field guide, section 2.1)."""
    seconds = {path: TIERS.start_seconds(FAST, 141e9, path, 4) - TIERS.engine_start_s.value for path in TIERS.storage}
    assert seconds["nvme"] == pytest.approx(11.3, abs=0.1)
    assert seconds["network-volume"] == pytest.approx(128, abs=1)
    assert seconds["object-store"] == pytest.approx(282, abs=1)


@pytest.mark.parametrize("tier", GPUS)
def test_every_tier_has_its_own_network_start_and_band(tier):
    own = TIERS.tiers[tier]
    assert own.nic_gbits is not None and own.nic_gbits.source
    assert TIERS.cold_start(tier).source and TIERS.cold_start(tier).value > TIERS.engine_start_s.value
    assert TIERS.bands_of(tier)[0].high == pytest.approx(16 / own.nic_gbits.value)


def test_the_memory_that_counts_as_gone_is_less_than_a_small_gpu_has_free_by_default():
    """vLLM's default leaves 4 % beside graphs; the judge takes 700 MiB for nearly nothing on an H100, not on a T4."""
    gone = CATALOGUE.dictionary.condition("gpu_memory_nearly_gone")
    found = {}
    for tier in (FAST, "t4"):
        context = scene({"fb_free_lowest": {"p0#0": np.full(N, 700.0)}}, {"p0": {"tier": tier}})
        unit = next(unit for unit in context.view.units if unit.name.startswith("p0"))
        found[tier] = evaluate(gone, context, unit).holds
    assert found == {FAST: True, "t4": False}
    for tier, limit in TIERS.own_limits("fb_free_min").items():
        assert limit < 0.04 * TIERS.tiers[tier].memory_gib.value * 1024


@pytest.mark.parametrize(("share", "state"), [(0.04, "good"), (0.07, "note"), (0.15, "warn"), (0.25, "bad")])
def test_evictions_weigh_more_at_5_10_and_20_percent(share, state):
    assert graded(share, TIERS.bands["preempt_fraction"], "up") == state
