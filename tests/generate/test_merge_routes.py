"""Our routes in somebody's Alertmanager configuration: every alert of theirs goes where it went, and the text stays."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
import yaml

from inferdoc.errors import InferdocError
from inferdoc.generate.alertmanager import BEGIN, END, load_routing, merged
from tests.cli.command import alone, call, refused
from tests.generate.test_routing import needs_amtool

__all__ = ["alone"]
TEAMS = [f"team-{number}" for number in range(20)]


def theirs() -> str:
    """A configuration with 20 routes, comments, an anchor, nested routes and inhibit rules."""
    routes = "".join(
        f'    # {team}\n    - receiver: {team}\n      matchers: [team="{team}", severity=~"critical|warning"]\n'
        f"      continue: {'true' if number % 5 == 0 else 'false'}\n"
        + (
            "      routes:\n        - receiver: pager\n          matchers: ['severity=\"critical\"']\n"
            if number % 3
            else ""
        )
        for number, team in enumerate(TEAMS)
    )
    receivers = "".join(f"  - name: {team}\n" for team in (*TEAMS, "default", "pager"))
    return (
        "# ours, do not touch\nglobal: &global\n  resolve_timeout: 5m\nroute:\n  receiver: default   # catch all\n"
        f"  group_by: [alertname]\n  routes:\n{routes}\nreceivers:\n{receivers}\ninhibit_rules:\n"
        '  - source_matchers: [severity="critical"]\n    target_matchers: [severity="warning", team=~".+"]\n'
        "    equal: [namespace]\n# the end\n"
    )


def put(text: str, receivers: dict[str, str] | None = None) -> tuple[str, list[str]]:
    return merged(text, Path("am.yml"), load_routing(), (), receivers or {})


def receivers_of(path: Path, labels: dict[str, str]) -> str:
    asked = ["amtool", "config", "routes", "test", f"--config.file={path}", *(f"{k}={v}" for k, v in labels.items())]
    return subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True).stdout


@needs_amtool
def test_twenty_routes_and_ours_send_every_alert_of_theirs_where_it_went(tmp_path):
    before, after = tmp_path / "before.yml", tmp_path / "after.yml"
    before.write_text(theirs(), "utf-8")
    text, _ = put(theirs())
    after.write_text(text, "utf-8")
    assert subprocess.run(["amtool", "check-config", after], capture_output=True, check=False).returncode == 0
    draw = random.Random(7)
    alerts = [
        {"alertname": "KubePodCrashLooping", "severity": "critical"},
        {"alertname": "Watchdog", "severity": "none"},
    ]
    alerts += [
        {
            "alertname": f"A{n}",
            "team": draw.choice([*TEAMS, "other"]),
            "severity": draw.choice(["critical", "warning", "info"]),
        }
        for n in range(40)
    ]
    for labels in alerts:
        assert receivers_of(before, labels) == receivers_of(after, labels), labels
    for severity, receiver in (("critical", "page"), ("warning", "ticket"), ("info", "info")):
        labels = {"alertname": "InferdocEngineDown", "component": "inferdoc", "severity": severity, "team": "team-3"}
        assert receivers_of(after, labels).strip() == f"inferdoc-{receiver}"


def test_the_rest_of_the_text_stays_and_a_second_merge_replaces_the_first():
    once, _ = put(theirs())
    kept, ours = [], False
    for line in once.splitlines(keepends=True):
        ours = ours or line.strip() == BEGIN
        if not ours:
            kept.append(line)
        ours = ours and line.strip() != END
    assert "".join(kept) == theirs() and once.count(BEGIN) == 3
    assert put(once)[0] == once


@pytest.mark.parametrize(
    "text",
    [
        "route:\n  receiver: a\nreceivers:\n- name: a\n",
        "route:\n  receiver: a\n  routes: []\nreceivers: [{name: a}]\ninhibit_rules: []\n".replace(
            "[{name: a}]", "\n  - name: a"
        ),
        "receivers:\n- name: a\ninhibit_rules:\nroute:\n    receiver: a\n    routes:\n    - receiver: a",
    ],
    ids=["no-lists", "empty-lists", "other-order"],
)
def test_lists_that_are_missing_or_empty(text):
    found = yaml.safe_load(put(text)[0])
    assert found["route"]["routes"][0]["matchers"] == ['component="inferdoc"'] and found["route"]["receiver"] == "a"
    assert [each["name"] for each in found["receivers"]][-1] == "a" and len(found["receivers"]) == 5
    assert len(found["inhibit_rules"]) == len(load_routing().inhibitions)
    assert put(put(text)[0])[0] == put(text)[0]


def test_receivers_that_are_there_are_used():
    text, _ = put(theirs(), {"inferdoc-page": "pager", "inferdoc-ticket": "team-1"})
    found = yaml.safe_load(text)
    assert [route["receiver"] for route in found["route"]["routes"][0]["routes"]] == [
        "inferdoc-deadman", "pager", "team-1", "inferdoc-info"
    ]  # fmt: skip
    assert "inferdoc-page" not in {each["name"] for each in found["receivers"]}


@pytest.mark.parametrize(
    ("text", "receivers", "said"),
    [
        (theirs().replace("name: pager", "name: inferdoc-page"), {}, "a receiver 'inferdoc-page' is there already"),
        (theirs(), {"inferdoc-page": "nobody"}, "no receiver is called 'nobody'"),
        ("a: 1\n", {}, "`route` is missing"),
        ("route: {receiver: a}\nreceivers:\n- name: a\n", {}, "route is in flow style"),
        ("a: [", {}, "not YAML"),
    ],
)
def test_what_clashes_is_one_line(text, receivers, said):
    with pytest.raises(InferdocError, match=said):
        put(text, receivers)


def test_an_inhibition_of_theirs_that_holds_back_ours_is_named():
    assert put(theirs())[1] == [
        'am.yml: inhibit_rules[0] may inhibit alerts of inferdoc; add component!="inferdoc" to it'
    ]
    other = theirs().replace('target_matchers: [severity="warning"', 'target_matchers: [component="kube"')
    assert put(other)[1] == []


def test_from_the_command_line(tmp_path):
    path = tmp_path / "alertmanager.yml"
    path.write_text(theirs(), "utf-8")
    done = call("alerts", "routes", "--merge", path, "--receiver", "inferdoc-page=pager")
    assert done.code == 0 and done.out == f"{path}: updated\n"
    assert "receiver inferdoc-ticket has no integration" in done.err and "inferdoc-page" not in done.err
    assert call("alerts", "routes").out.startswith("route:\n")
    refused(call("alerts", "routes", "--receiver", "a=b"), 2, "--receiver requires --merge")
    path.write_text("route: [", "utf-8")
    refused(call("alerts", "routes", "--merge", path), 2, "not YAML")
    assert path.read_text("utf-8") == "route: ["


def test_a_small_rule_set_has_no_inhibit_rules_for_alerts_that_it_lacks():
    rules = yaml.safe_load(call("alerts", "routes", "--set", "pages").out)["inhibit_rules"]
    named = "\n".join(line for rule in rules for line in rule["source_matchers"] + rule["target_matchers"])
    assert "InferdocEngineHung" in named and "InferdocLoraThrash" not in named
    assert "InferdocLoraThrash" in call("alerts", "routes").out
