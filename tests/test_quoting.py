"""Any name comes back as it was from everything that is generated, read by the program that it is for."""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from inferdoc import escaping
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Assignment
from inferdoc.generate.alertmanager import Route, Routing, configuration
from inferdoc.generate.boards import build_boards, check_boards
from inferdoc.generate.document import yaml_text
from inferdoc.generate.links import GeneratedLinks, diagnose_command
from inferdoc.generate.pod_info import pod_records
from inferdoc.generate.slo import slo_records, slo_rules, slow_records
from inferdoc.prewarm.emit.base import EmitOptions
from inferdoc.prewarm.emit.registry import emit
from inferdoc.serve.note import Note
from inferdoc.serve.outputs import pagerduty, slack, teams
from inferdoc.source.reads import literal
from inferdoc_dev.rule_tests.slo_tests import waiting_tests
from inferdoc_dev.rule_tests.templating import expand
from tests.generate.conftest import needs_promtool
from tests.generate.test_routing import needs_amtool
from tests.generate.test_slo import PLAIN, catalogue_of
from tests.prewarm.plans import NOW, office_plan
from tests.test_escaping import ACTIVE

HOSTILE = (
    'a"b', "{x}", "a\nb", "no", "1e3", "=x", "a\\", "\\n", "$x", "$1", "{{", "{{ .x }}", "{{end}}", "}}", "it's",
    "'; reboot; '", "`id`", "$(id)", "#x", "x #y", "x: y", "- x", "<<", "*a", "&a", "!x", "%", "null", "0x10",
    "2026-01-01", " x ", "\t", "\r", "\x85", "\u2028", "\x1b[31m", "ü😀", "a,b", "a|b", ".*", "[", "~", "", "@x",
)  # fmt: skip
MARKS = [*"\"'{}[]()<>\\$`|&;:#=,.*+?!%@~^-_ \n\t", "{{", "}}", "a", "1", "no", "ü"]
name = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    st.lists(st.sampled_from(MARKS), max_size=15).map("".join),
)
names = st.lists(name, min_size=20, max_size=20, unique=True)
FEW = settings(max_examples=4, deadline=None, derandomize=True)
"""Each example is a process with a batch of names."""


def run(*words: str | Path) -> None:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


@needs_promtool
@FEW
@given(names)
@example(list(HOSTILE))
def test_prometheus_reads_rules_with_any_name(batch: Sequence[str]) -> None:
    """A rule for each name fires on the series with that label, and its annotations name it, as text and in a shell."""
    rules, tests = [], []
    for number, text in enumerate(batch):
        labels = {"model_name": text, "n": str(number)}
        about = {"summary": escaping.go_template(text), "description": diagnose_command(("model_name",))}
        series = f"m{{{escaping.label_pairs(labels)}}}"
        rules.append({"alert": f"A{number}", "expr": f"{series} > 0", "annotations": about})
        said = {"summary": text, "description": expand(about["description"], labels, 1, 60)}
        assert shlex.split(said["description"])[4:] == ["--around", "60", *(["--model", text] if text else [])]
        kept = {key: value for key, value in labels.items() if value}
        tests.append((series, {"exp_labels": kept, "exp_annotations": said}))
    asked = [
        {"eval_time": "1m", "alertname": f"A{number}", "exp_alerts": [alert]} for number, (_, alert) in enumerate(tests)
    ]
    input_series = [{"series": series, "values": "1x3"} for series, _ in tests]
    test = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m"}
    test["tests"] = [{"interval": "1m", "input_series": input_series, "alert_rule_test": asked}]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "rules.yaml").write_text(yaml_text({"groups": [{"name": "g", "rules": rules}]}, ""), "utf-8")
        (Path(folder) / "test.yaml").write_text(yaml_text(test, ""), "utf-8")
        run("promtool", "test", "rules", Path(folder) / "test.yaml")


@needs_promtool
@needs_amtool
@settings(FEW, max_examples=2)
@given(names)
@example(list(HOSTILE))
def test_objectives_and_pods_with_any_name_make_sound_rules_and_boards(batch: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        entries: list[dict[str, Any]] = [PLAIN]
        for number, text in enumerate(filter(None, batch)):
            more = {"cluster": text, "namespace": text, "tenant": {"customer": text}, "title": text}
            entries.append({**PLAIN, "id": f"n{number}", "model": text, **more})
        catalogue = catalogue_of(folder, *entries)
        links, groups, series = GeneratedLinks(), [], []
        for slo in catalogue.slos:
            records = slo_records(slo, catalogue) | slow_records(slo, catalogue)
            alerts = slo_rules(slo, catalogue, links)
            rules = [{"record": record, "expr": expr} for record, expr in records.items()]
            rules += [{"alert": each.name, "expr": each.expr, "annotations": each.annotations} for each in alerts]
            groups.append({"name": slo.id, "rules": rules})
            series += [line for each in waiting_tests(slo, catalogue, alerts) for line in each["input_series"]]
        pods = [Assignment(literal(text), tier="h100-80") for text in filter(None, batch)]
        told = pod_records(catalogue.tiers, "up", pods)
        groups.append({"name": "pods", "rules": [{"record": each, "expr": expr} for each, expr in told.items()]})
        (folder / "rules.yaml").write_text(yaml_text({"groups": groups}, ""), "utf-8")
        run("promtool", "check", "rules", folder / "rules.yaml")
        test = [{"interval": "1m", "input_series": [{**line, "values": "1"} for line in series]}]
        (folder / "test.yaml").write_text(yaml_text({"rule_files": [], "tests": test}, ""), "utf-8")
        run("promtool", "test", "rules", folder / "test.yaml")
        build_boards(catalogue, links, folder / "boards")
        assert check_boards(folder / "boards")[0] == []
        receivers = tuple({"name": f"x{text}"} for text in batch)
        routes = tuple(Route(f"x{text}", (f"model_name={escaping.promql(text)}",)) for text in batch)
        document = configuration(Routing(receivers, f"x{batch[0]}", ("alertname",), routes))
        (folder / "alertmanager.yml").write_text(yaml_text(document, ""), "utf-8")
        run("amtool", "check-config", folder / "alertmanager.yml")
        assert yaml.safe_load((folder / "alertmanager.yml").read_text("utf-8")) == document


@settings(FEW, max_examples=10)
@given(name)
@example("a\nb: {c}")
def test_kubernetes_reads_manifests_with_any_name(text: str) -> None:
    given_name = text or "x"
    options = EmitOptions(
        now=NOW, namespace=given_name, name=given_name, image=given_name, server=given_name, plan_path=given_name,
        cluster=given_name,
    )  # fmt: skip
    for target in ("cronjob", "daily", "keda-cron", "keda-prometheus", "kserve"):
        for document in yaml.safe_load_all(emit(office_plan(cluster=given_name), target, options)):
            assert document["metadata"]["namespace"] == given_name
            if target == "daily":
                kubernetes_validate.validate(document, "1.33", strict=True)
            elif target == "keda-prometheus":
                assert document["spec"]["triggers"][0]["metadata"]["serverAddress"] == given_name


@settings(FEW, max_examples=100)
@given(name)
@example("a\nb")
@example('"a"')
def test_timers_of_a_host_keep_any_name_or_refuse_it(text: str) -> None:
    given_name = text or "x"
    options = EmitOptions(now=NOW, name=given_name, namespace=given_name, plan_path=given_name)
    unit = emit(office_plan(), "systemd", options)
    (command,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    assert unit.count("\n") == emit(office_plan(), "systemd", replace(options, name="x")).count("\n")
    assert '"' not in given_name or r"\"" in command
    try:
        lines = emit(office_plan(), "crontab", options).splitlines()
    except InferdocError as error:
        assert "line break" in str(error) and not given_name.isprintable()
        return
    for line in lines:
        if not line.startswith("#"):
            words = shlex.split(line.split(" ", 5)[5].replace(r"\%", "%"))
            assert words[words.index("--name") + 1] == words[words.index("--plan") + 1] == given_name


def a_note(text: str) -> Note:
    return Note(
        "20260101-0000-a", text, "critical", "firing", 1.8e9, "slow-gpu", (("where", text),), (text,), (text,), (text,),
    )  # fmt: skip


@settings(FEW, max_examples=100)
@given(name)
@pytest.mark.parametrize("kind", ["teams", "slack", "pagerduty"])
def test_messages_keep_any_name_as_text(kind: str, text: str) -> None:
    line = escaping.one_line(text)
    if kind == "pagerduty":
        event = json.loads(json.dumps(pagerduty.payload(a_note(line))))
        assert event["payload"]["summary"] == line and event["payload"]["custom_details"].get("where", "") == line
        return
    if kind == "slack":
        blocks = slack.payload(a_note(line))["blocks"]
        assert blocks[0]["text"]["type"] == "plain_text" and line in blocks[0]["text"]["text"]
        for block in blocks[1:-1]:
            inside = block["text"]["text"].removeprefix("```").removesuffix("```")
            assert block["text"]["verbatim"] and "<" not in inside and ">" not in inside and "```" not in inside
        return
    (attachment,) = teams.payload(a_note(line))["attachments"]
    for block in attachment["content"]["body"]:
        for shown in (block.get("text", ""), *(fact["value"] for fact in block.get("facts", ()))):
            tokens = [inner for t in MarkdownIt("commonmark").parse(shown) for inner in (t, *(t.children or ()))]
            assert not {token.type for token in tokens} & ACTIVE
