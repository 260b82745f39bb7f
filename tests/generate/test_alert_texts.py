"""Every alert text as Prometheus renders it: short, with its value, limit, duration and one action; its links, its
dashboard and its command exist."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from inferdoc.cli.main import cli
from inferdoc.config_sections import FLEET_BOARD
from inferdoc.generate.cause_rules import MOST_CHARACTERS, AlertRule
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.pack import build_pack
from inferdoc_dev.rule_tests.templating import expand
from tests.generate.conftest import ROOT
from tests.runbooks.test_pages import command_problem

WIKI, GRAFANA = "https://wiki.example/r", "https://grafana.example"
LABELS = {
    "cluster": "eu-west-1", "namespace": "inference-prod", "pod": "vllm-llama-70b-decode-7c9f8d-x2x4z", "gpu": "3",
    "model_name": "meta-llama/Llama-3.1-70B-Instruct", "job": "inference/vllm", "instance": "10.20.30.40:8000",
    "metric": "vllm:request_prefill_kv_computed_tokens_count", "slo": "ttft", "pool": "llama-70b-decode",
    "role": "decode", "tier": "h100-80",
}  # fmt: skip
MENTIONED = re.compile(r"inferdoc (?:prewarm \w+|forecast|doctor|audit|diagnose)\b")
LIMIT = re.compile(r"\blimit\b|\babove\b|\bbelow\b|\brises? to|\bfalls? to|\bat least\b|: from \w+ to ")


@pytest.fixture(scope="module")
def linked(catalogue) -> dict[str, AlertRule]:
    return {rule.name: rule for rule in build_pack(catalogue, GeneratedLinks(WIKI, GRAFANA)).rules}


def rendered(rule: AlertRule) -> dict[str, str]:
    return {name: expand(text, LABELS, 12345.678) for name, text in rule.annotations.items()}


def test_summaries_are_one_static_sentence(linked):
    for name, rule in linked.items():
        summary = rule.annotations["summary"]
        assert "{{" not in summary and summary.endswith(".") and summary[0].isalpha(), name


def test_descriptions_are_short_with_limit_duration_and_action(linked):
    for name, rule in linked.items():
        text = rendered(rule)["description"]
        assert len(text) <= MOST_CHARACTERS, f"{name}: {len(text)}"
        assert "{" not in text and "(worked out" not in text, f"{name}: {text}"
        if name == "InferdocWatchdog":
            continue
        assert LIMIT.search(text), f"{name} has no limit: {text}"
        assert rule.for_ == "0s" or f"for {rule.for_}" in text, f"{name} has no duration: {text}"
        assert len(re.findall(r"\. [A-Z]", text)) >= 1 and text.endswith("."), f"{name} has no action: {text}"


def test_the_alerts_of_causes_print_the_value_that_decides(linked):
    """Not that drafts run, or that something is loaded, or when a process started."""
    for name, unit in (
        ("InferdocSpecAcceptanceDecay", "drafted tokens accepted at"),
        ("InferdocKvOffloadSlow", "time to load one gigabyte of KV from the offload medium"),
        ("InferdocPrefixColdStart", "prefix cache hits"),
        ("InferdocKvPreemptionThrash", "preemptions per running request at"),
    ):
        assert unit in rendered(linked[name])["description"], name
    assert not any("unix s" in rendered(rule)["description"] for rule in linked.values())


def test_every_page_links_to_a_runbook_about_itself_and_to_a_board_that_is_built(linked):
    uids = {json.loads(path.read_text("utf-8"))["uid"] for path in (ROOT / "dashboards" / "generated").glob("*.json")}
    assert FLEET_BOARD in uids
    for name, rule in linked.items():
        said = rendered(rule)
        page = ROOT / "runbooks" / f"{said['runbook_url'].removeprefix(f'{WIKI}/')}.md"
        assert page.is_file(), f"{name}: {said['runbook_url']}"
        assert said["dashboard_url"].startswith(f"{GRAFANA}/d/{FLEET_BOARD}"), name
        if rule.severity == "critical":
            assert name in page.read_text("utf-8"), f"{name} is not on {page.name}"
            assert page.stem != "unexplained-anomaly" and "diagnose_command" in said, name


def test_commands_are_those_of_the_command_line_and_run_as_printed(linked):
    assert any("diagnose_command" in rule.annotations for rule in linked.values())
    for name, rule in linked.items():
        said = rendered(rule)
        for text in MENTIONED.findall(said["description"]):
            assert command_problem(text) is None, f"{name}: {text}"
        command = said.get("diagnose_command")
        if command is None:
            continue
        assert "{" not in command
        words = shlex.split(command)
        assert words[:3] == ["inferdoc", "diagnose", "--prometheus"], name
        diagnose = cli.get_command(None, "diagnose")  # type: ignore[arg-type]
        diagnose.make_context("diagnose", words[2:])  # raises for an option or a value that it does not take


def test_without_a_base_there_are_no_links(catalogue, pack):
    for rule in pack.rules:
        assert not {"runbook_url", "dashboard_url"} & rule.annotations.keys(), rule.name


def test_no_generated_file_names_a_host_that_does_not_resolve():
    for folder in ("alerts/generated", "dashboards/generated", "packaging/kustomize"):
        for path in (ROOT / folder).rglob("*.*"):
            assert ".example" not in path.read_text("utf-8"), path


def test_the_chart_names_a_board_that_is_built():
    uids = {json.loads(path.read_text("utf-8"))["uid"] for path in (ROOT / "dashboards" / "generated").glob("*.json")}
    for name in ("packaging/chart/inferdoc/values.yaml", "inferdoc.toml.example", "docs/gitops.md"):
        for uid in re.findall(r"grafana\.example\.org/d/([\w-]+)", (ROOT / name).read_text("utf-8")):
            assert uid in uids, f"{name}: {uid}"
