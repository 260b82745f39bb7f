"""The documented road: three weeks of a fleet in a real Prometheus, its capacity, a plan, and manifests for KEDA.

Prefill and decode apart on two tiers, replicas that come and go (tests/pd_weeks.py); the floors that the manifests give
are held against the replicas that the fleet's own arithmetic asks for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result

from inferdoc.cli.main import cli
from inferdoc.prewarm.reference_check import MinuteSpan, keda_floor
from inferdoc.times import rfc3339
from tests import prometheus_server
from tests.pd_weeks import DAY, OBJECTIVES, Weeks

pytestmark = pytest.mark.live

MONDAY = 1_771_804_800
"""2026-02-23 in UTC."""
UTILISATION = 0.85
PROMISED = "".join(
    f'[[slo]]\nid = "{signal}"\nsignal = "{signal}"\npercentile = 99\ntarget = {target}\nrole = "{role}"\n'
    for role, (signal, target) in OBJECTIVES.items()
)


def ask(*words: str) -> Result:
    answer = CliRunner().invoke(cli, list(words), catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer


def test_from_three_weeks_in_a_prometheus_to_manifests_within_one_replica_of_the_truth(tmp_path: Path) -> None:
    if not prometheus_server.available():
        pytest.skip(prometheus_server.MISSING)
    weeks = Weeks(MONDAY)
    config, plan = tmp_path / "inferdoc.toml", tmp_path / "plan.json"
    config.write_text(PROMISED, "utf-8")
    with prometheus_server.running([weeks.write(tmp_path / "weeks.om")], tmp_path / "prometheus") as url:
        where = ("--prometheus", url, "--from", rfc3339(weeks.end))
        measured = json.loads(ask("--config", str(config), "forecast", *where, "--capacity", "-o", "json").stdout)
        made = ("prewarm", "plan", *where, "--tz", "Europe/Berlin", "--max", "40", "-o", "json", "--out", str(plan))
        ask("--config", str(config), *made)

    served = {each["pool"]: each["serves"] for each in measured["pools"]}
    rows = {row["name"]: row for row in json.loads(plan.read_text("utf-8"))["pools"]}
    assert len(rows) == len(served) == len(weeks.pools)
    bins = weeks.end + 300 * np.arange(7 * DAY // 300)
    within, under = [], []
    for pool in weeks.pools:
        name = f"prod-m-{pool.name}"
        (serves,) = served[name]
        assert serves["unit"] == ("prompt tokens/s" if pool.role == "prefill" else "generated tokens/s")
        assert serves["verdict"] == "slo" and serves["per_replica"] == pytest.approx(pool.usable, rel=0.15)
        # A request needs both sides: every pool starts as early as the slowest of them.
        assert rows[name]["policy"]["cold_start_seconds"] == pytest.approx(450, abs=60)
        words = ("prewarm", "emit", "--plan", str(plan), "--target", "keda-cron", "--pool", name)
        manifest = next(yaml.safe_load_all(ask(*words, "--now", str(weeks.end)).stdout))
        span = MinuteSpan(weeks.end // 60 - 8 * 1440, 24 * 1440)
        floor = keda_floor(span, manifest["spec"])[(bins // 60) - span.begin]
        needed = weeks.needed(pool, bins, UTILISATION)
        assert needed.max() >= 5
        within.append(np.abs(floor - needed) <= 1)
        under.append(floor < needed)
    assert np.mean(within) >= 0.95
    assert np.mean(under) <= 0.01
