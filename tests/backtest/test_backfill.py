"""`inferdoc alerts backfill`: what recording rules would have recorded, in a real Prometheus."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import requests
import yaml

from inferdoc.backtest.backfill import STAGE, RecordingRule, _staged, backfill, levels
from inferdoc.backtest.replay import RuleSet
from inferdoc.errors import InferdocError
from inferdoc.generate.pod_info import ONE_OF_A_POD
from tests import prometheus_server
from tests.backtest.conftest import INTERVAL, SCRAPES, START
from tests.cli.command import alone, call, refused
from tests.conftest import ROOT
from tests.generate.conftest import needs_promtool

__all__ = ["alone"]

needs_prometheus = pytest.mark.skipif(not prometheus_server.available(), reason=prometheus_server.MISSING)
END = START + (SCRAPES - 1) * INTERVAL


def rule(record: str, expr: str) -> RecordingRule:
    return RecordingRule(record, expr, (), 30)


def test_each_level_needs_only_those_before_it():
    rules = [
        rule("c:usual", "quantile_over_time(0.5, b:now[1h]) or a:now"),
        rule("b:now", "rate(raw_total[5m]) * on (pod) a:now"),
        rule("a:now", "up"),
        rule("b:now", "raw"),
        rule("d:kept", "d:kept or raw"),
    ]
    names = [sorted({each.record for each in level}) for level in levels(rules)]
    assert names == [["a:now", "d:kept"], ["b:now"], ["c:usual"]]
    assert sum(len(level) for level in levels(rules)) == len(rules)


def test_records_that_rest_on_each_other_are_named():
    with pytest.raises(InferdocError, match="a:now, b:now"):
        levels([rule("a:now", "b:now"), rule("b:now", "a:now"), rule("c:now", "up")])


@pytest.fixture
def chain(tmp_path) -> Path:
    """A folder of rules: three levels, at two intervals, in an order that is none of theirs."""
    held = [
        (
            "slow",
            "2m",
            [
                {
                    "record": "pod:inferdoc_running:median5m",
                    "expr": "quantile_over_time(0.5, pod:inferdoc_running:last[5m])",
                }
            ],
        ),
        (
            "fast",
            "30s",
            [
                {"record": "all:inferdoc_running:sum", "expr": "sum by (namespace) (pod:inferdoc_running:last)"},
                {
                    "record": "pod:inferdoc_running:last",
                    "expr": "max by (namespace, pod) (vllm:num_requests_running)",
                    "labels": {"by": "rules"},
                },
            ],
        ),
    ]
    groups = [{"name": name, "interval": interval, "rules": rules} for name, interval, rules in held]
    folder = tmp_path / "rules"
    folder.mkdir()
    for name, of_file in (("inferdoc-recording.yaml", groups), ("inferdoc-rules.yaml", [])):
        (folder / name).write_text(yaml.safe_dump({"groups": of_file}), "utf-8")
    return folder


def asked(address: str, query: str, at: float) -> dict[str, float]:
    answer = requests.get(f"{address}/api/v1/query", params={"query": query, "time": at}, timeout=30).json()
    return {one["metric"].get("pod", ""): float(one["value"][1]) for one in answer["data"]["result"]}


@pytest.mark.live
@needs_prometheus
@pytest.mark.parametrize("road", ["file", "store", "server"])
def test_the_past_is_what_the_rules_would_have_recorded(chain, file, tmp_path, road):
    given: list[object] = [file]
    if road == "store":
        assert call("import", file, "--store", tmp_path / "fleet.db").code == 0
        given = ["--store", tmp_path / "fleet.db"]
    line = ["alerts", "backfill", "--out", chain, "--blocks", tmp_path / "blocks"]
    if road == "server":
        with prometheus_server.running([file], tmp_path / "raw") as address:
            done = call(*line, "--prometheus", address, "--since", "1h")
    else:
        done = call(*line, *given)
    assert done.code == 0 and "of 3 rules" in done.out, done
    (tmp_path / "own").mkdir()
    (tmp_path / "blocks").rename(tmp_path / "own" / "data")
    with prometheus_server.running([], tmp_path / "own") as address:
        last = END // 30 * 30
        newest = (last - START) // INTERVAL
        assert asked(address, 'pod:inferdoc_running:last{by="rules"}', last) == {"a": newest, "b": newest}
        assert asked(address, "all:inferdoc_running:sum", last) == {"": 2 * newest}
        spacing = asked(address, "count_over_time(pod:inferdoc_running:last[10m])", last + 1)
        assert spacing["a"] == 20, "each at the interval of its group"
        slow = asked(address, "count_over_time(pod:inferdoc_running:median5m[10m])", last // 120 * 120 + 1)
        assert slow["a"] == 5
        at = last // 120 * 120
        middle = asked(address, "pod:inferdoc_running:median5m", at)["a"]
        assert middle == pytest.approx((at - 150 - START) / INTERVAL, abs=1.5), "of the records of five minutes"


@pytest.mark.live
@needs_prometheus
def test_a_run_that_is_killed_adds_no_block(chain, file, tmp_path):
    """Killed when promtool has written the blocks, and run again."""
    blocks, shim = tmp_path / "blocks", tmp_path / "bin" / "promtool"
    shim.parent.mkdir()
    last = 'case "$*" in *=2h*) kill -9 $PPID;; esac'
    shim.write_text(f'#!/bin/sh\n{shutil.which("promtool")} "$@" || exit 1\n{last}\n')
    shim.chmod(0o755)
    words = ["alerts", "backfill", "--out", str(chain), "--blocks", str(blocks), str(file)]
    main = [sys.executable, "-c", "from inferdoc.cli.main import main; main()", *words]
    path = f"{shim.parent}:{os.environ['PATH']}"
    done = subprocess.run(main, env={**os.environ, "PATH": path}, capture_output=True, timeout=300, check=False)
    assert done.returncode == -9, done
    assert [each.name for each in blocks.iterdir()] == [STAGE] and list((blocks / STAGE).iterdir())
    assert call(*words).code == 0
    again = [each.name for each in blocks.iterdir()]
    assert again and STAGE not in again
    with _staged(blocks), pytest.raises(InferdocError, match="another backfill"), _staged(blocks):
        pass


@pytest.mark.live
@needs_prometheus
def test_the_pack_has_usual_values_at_once(simulated, tmp_path):
    """The generated rules on a simulated fleet with GPUs and a router: each kind of record, and a past for pods."""
    fleet = simulated.of("kv-transfer-backlog")
    at = fleet.scenario.start + fleet.scenario.duration
    line = ("alerts", "backfill", "--out", ROOT / "alerts" / "generated", "--blocks", tmp_path / "data", fleet.store)
    done = call(*line)
    assert done.code == 0 and "level 1 of" in done.err, done
    with prometheus_server.running([], tmp_path) as address:
        roles = asked(address, "count by (pod, role, tier) (pod:inferdoc_info:last)", at)
        assert {pod.rsplit("-", 1)[0] for pod in roles} == {"vllm-decode", "vllm-prefill"}
        kinds = (
            "engine:inferdoc_.+:(rate|avg)5m",
            "engine:inferdoc_.+:median6h",
            "engine:inferdoc_.+:holds",
            "gpu:.+",
            "model:inferdoc_slo_.+",
        )
        for kind in kinds:
            assert asked(address, f'count({{__name__=~"{kind}"}})', at), kind


@pytest.mark.live
@needs_prometheus
def test_what_one_metric_tells_and_then_another_is_one_series(tmp_path):
    """Of `rise > 1 or count > 1` each side keeps the name of its metric, and the answer has the later ones first."""
    lines = ["# TYPE rise gauge"]
    lines += [f'rise{{pod="a"}} {2 if step < 15 else 0} {START + step * INTERVAL}' for step in range(SCRAPES)]
    lines += ["# TYPE many gauge"]
    lines += [f'many{{pod="a"}} {3 if step > 20 else 0} {START + step * INTERVAL}' for step in range(SCRAPES)]
    raw = tmp_path / "raw.om"
    raw.write_text("\n".join([*lines, "# EOF\n"]), "utf-8")
    rules = [{"record": "pod:much:holds", "expr": "rise > 1 or many > 1"}]
    (tmp_path / "rules.yaml").write_text(
        yaml.safe_dump({"groups": [{"name": "g", "interval": "30s", "rules": rules}]}), "utf-8"
    )
    told = backfill(
        RuleSet("rules", (tmp_path / "rules.yaml",)), raw, (START, END), tmp_path / "data", lambda said: None
    )
    assert (told.rules, told.series) == (1, 1)
    with prometheus_server.running([], tmp_path) as address:
        assert asked(address, "pod:much:holds", START + 60) == {"a": 2}
        assert asked(address, "pod:much:holds", END // 30 * 30) == {"a": 3}


@pytest.mark.live
@needs_prometheus
@pytest.mark.parametrize("info", ONE_OF_A_POD)
def test_a_pod_whose_tier_is_told_later_is_one_pod_at_any_time(info, tmp_path):
    """An info series that gets other labels is no reason to have no past: what rests on it is evaluated."""
    lines = ["# TYPE running gauge"]
    lines += [f'running{{pod="a"}} 4 {START + step * INTERVAL}' for step in range(SCRAPES)]
    lines += ["# TYPE known gauge"]
    lines += [f'known{{pod="a",tier="h100-80"}} 1 {START + step * INTERVAL}' for step in range(SCRAPES // 2, SCRAPES)]
    raw = tmp_path / "raw.om"
    raw.write_text("\n".join([*lines, "# EOF\n"]), "utf-8")
    unknown = 'label_replace(running * 0 + 1, "tier", "unknown", "", "")'
    rules = [
        {"record": info, "expr": f"known or on (pod) {unknown}"},
        {"record": "engine:running:last", "expr": f"running * on (pod) group_left (tier) {info}"},
    ]
    (tmp_path / "rules.yaml").write_text(
        yaml.safe_dump({"groups": [{"name": "g", "interval": "30s", "rules": rules}]}), "utf-8"
    )
    pack = RuleSet("rules", (tmp_path / "rules.yaml",))
    told = backfill(pack, raw, (START, END), tmp_path / "data", lambda said: None)
    assert told.rules == 2
    with prometheus_server.running([], tmp_path) as address:
        for at, tier in ((START + 60, "unknown"), (END // 30 * 30, "h100-80")):
            query = {"query": "engine:running:last", "time": at}
            answer = requests.get(f"{address}/api/v1/query", params=query, timeout=30).json()
            assert [one["metric"]["tier"] for one in answer["data"]["result"]] == [tier]


@needs_promtool
def test_what_cannot_be_done_is_one_line(chain, file, tmp_path, monkeypatch):
    line = ("alerts", "backfill", "--out", chain, "--blocks", tmp_path / "blocks")
    refused(call(*line), 2, "name a store or OpenMetrics text")
    refused(call(*line, tmp_path), 2, "labels.json")
    refused(call("alerts", "backfill", "--out", tmp_path, "--blocks", tmp_path / "blocks", file), 2, "alerts build")
    refused(call(*line, file, "--until", "yesterday"), 2, "--until")
    there = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "prometheus" else there(name))
    done = call(*line, file)
    assert done.code == 2 and "prometheus is not on the PATH" in done.err
    assert not (tmp_path / "blocks").exists()
