"""`inferdoc alerts` and `inferdoc dashboards` from the command line."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from inferdoc.generate.document import MARK
from tests.cli.command import alone, call, refused
from tests.generate.conftest import GENERATED, ROOT, few_causes, needs_promtool

__all__ = ["alone"]


def test_alerts_are_built_once(tmp_path):
    (tmp_path / "inferdoc.toml").write_text(few_causes())
    done = call("alerts", "build", "--out", tmp_path / "rules")
    assert done.code == 0 and "inferdoc-rules.yaml: written" in done.out
    assert "missing" not in done.out, "what was written is not missing"
    assert not (tmp_path / "rules" / "tests").exists()
    assert "no rule for telemetry-artifact: derived from the scrapes" in done.err
    again = call("alerts", "build", "--out", tmp_path / "rules", "--check")
    assert again.code == 0 and again.out == ""
    (tmp_path / "rules" / "inferdoc-rules.yaml").write_text("groups: []\n")
    refused(call("alerts", "test", "--out", tmp_path / "rules"), 2, "python -m inferdoc_dev.rule_tests")
    stale = call("alerts", "build", "--out", tmp_path / "rules", "--check")
    assert stale.code == 1 and stale.out == f"{tmp_path / 'rules' / 'inferdoc-rules.yaml'}: out of date\n"


def test_unit_tests_of_older_rules_go_with_a_new_build(tmp_path):
    (tmp_path / "inferdoc.toml").write_text(few_causes())
    test = tmp_path / "rules" / "tests" / "kv-preemption-thrash_test.yaml"
    test.parent.mkdir(parents=True)
    test.write_text(f"{MARK}tests: []\n")
    plain = call("alerts", "build", "--out", tmp_path / "rules")
    assert f"{test}: removed" in plain.out and not test.exists()


def test_the_configuration_names_where_runbooks_lie(tmp_path):
    (tmp_path / "inferdoc.toml").write_text(f'[links]\nrunbook_base = "https://wiki.example/r"\n{few_causes()}')
    assert call("alerts", "build", "--out", "rules").code == 0
    assert "https://wiki.example/r/engine-down" in (tmp_path / "rules" / "inferdoc-rules.yaml").read_text()
    assert call("dashboards", "build", "--out", "boards").code == 0
    assert "https://wiki.example/r/engine-down" in (tmp_path / "boards" / "data-health.json").read_text()


@needs_promtool
def test_the_generated_rules_are_sound():
    done = call("alerts", "check", "--out", GENERATED)
    assert done.code == 0 and done.out == "" and "0 problems" in done.err


@needs_promtool
def test_one_cause_is_tested_by_name():
    done = call("alerts", "test", "--out", GENERATED, "kv-lease-expiry")
    assert done.code == 0 and done.err == "1 test files, 0 failed\n"


def test_a_test_that_is_not_there_is_one_line():
    refused(call("alerts", "test", "--out", GENERATED, "no-such-cause"), 2, "no such test")


@pytest.mark.parametrize("command", ["check", "test"])
def test_without_rules_the_way_to_them_is_said(command, tmp_path):
    refused(call("alerts", command, "--out", tmp_path), 2, "run inferdoc alerts build")


def test_without_promtool_there_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for command in ("check", "test"):
        refused(call("alerts", command, "--out", GENERATED), 2, "promtool is not on the PATH", "apt-get install")


def test_boards_are_built_and_checked(tmp_path):
    done = call("dashboards", "build", "--out", tmp_path)
    assert done.code == 0 and f"{tmp_path / 'fleet-overview.json'}: written\n" in done.out
    assert call("dashboards", "build", "--out", tmp_path, "--check").code == 0
    checked = call("dashboards", "check", "--out", tmp_path)
    assert checked.code == 0 and checked.err.startswith("11 dashboards checked, 0 problems")
    board = json.loads((tmp_path / "fleet-overview.json").read_text())
    board["editable"] = True
    (tmp_path / "fleet-overview.json").write_text(json.dumps(board))
    assert call("dashboards", "check", "--out", tmp_path).code == 1
    assert call("dashboards", "build", "--out", tmp_path, "--check").code == 1


def test_boards_come_with_what_brings_them_into_grafana(tmp_path):
    assert call("dashboards", "build", "--out", tmp_path, "--provisioning").code == 0
    boards = {path.stem: json.loads(path.read_text("utf-8")) for path in tmp_path.glob("*.json")}
    maps = {path.stem: path.read_text("utf-8") for path in (tmp_path / "configmaps").glob("*.yaml")}
    assert boards.keys() == maps.keys() and len(maps) == 11
    for name, text in maps.items():
        found = yaml.load(text, yaml.CSafeLoader)
        assert found["kind"] == "ConfigMap" and found["metadata"]["labels"] == {"grafana_dashboard": "1"}
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", found["metadata"]["name"])
        ((key, body),) = found["data"].items()
        assert key.endswith(".json") and json.loads(body) == boards[name]
        assert len(text.encode()) < 256 * 1024, "kubectl apply keeps a copy of it in an annotation"
    (provider,) = yaml.load((tmp_path / "provisioning" / "inferdoc.yaml").read_text("utf-8"), yaml.CSafeLoader)[
        "providers"
    ]
    assert provider["type"] == "file" and provider["options"]["path"].startswith("/")
    assert call("dashboards", "build", "--out", tmp_path, "--provisioning", "--check").code == 0
    assert call("dashboards", "build", "--out", tmp_path).code == 0
    assert not list((tmp_path / "configmaps").glob("*"))


def test_a_board_that_is_no_json_is_one_line(tmp_path):
    refused(call("dashboards", "check", "--out", tmp_path), 2, "no dashboards there")
    (tmp_path / "x.json").write_text('{"title": ')
    refused(call("dashboards", "check", "--out", tmp_path), 2, "not JSON")
    (tmp_path / "x.json").write_text("[]")
    refused(call("dashboards", "check", "--out", tmp_path), 2, "a dashboard is an object")


def test_the_default_folders_are_those_of_a_checkout(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert call("dashboards", "build", "--check").code == 0
