"""The Alertmanager configuration: valid, every alert reaches its receiver, nothing holds back the watchdog."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from inferdoc.errors import CatalogueError
from inferdoc.generate.alertmanager import configuration, effect_inhibitions, load_routing
from inferdoc.generate.alerts import ALERTMANAGER, check_alerts
from tests.generate.conftest import GENERATED, ROOT, needs_promtool

SHIPPED = yaml.load((ROOT / "alerts" / "routing.yaml").read_text("utf-8"), yaml.CSafeLoader)
CONFIG = GENERATED / ALERTMANAGER
needs_amtool = pytest.mark.skipif(
    shutil.which("amtool") is None, reason="needs amtool: apt-get install prometheus-alertmanager"
)


def overlay(tmp_path: Path, **changes: object) -> tuple[Path, ...]:
    (tmp_path / "alerts").mkdir()
    (tmp_path / "alerts" / "routing.yaml").write_text(
        yaml.dump({**SHIPPED, **changes}, Dumper=yaml.CSafeDumper), "utf-8"
    )
    return (tmp_path,)


def amtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["amtool", *arguments], capture_output=True, text=True, timeout=60, check=False)


@needs_amtool
def test_amtool_takes_the_configuration():
    done = amtool("check-config", str(CONFIG))
    assert done.returncode == 0, done.stdout + done.stderr
    inhibitions = len(yaml.load(CONFIG.read_text("utf-8"), yaml.CSafeLoader)["inhibit_rules"])
    assert inhibitions > len(SHIPPED["inhibitions"])
    assert "4 receivers" in done.stdout and f"{inhibitions} inhibit rules" in done.stdout


def test_a_cause_holds_back_its_effects_and_never_two_each_other(pack, catalogue):
    """Two that held each other back would both be silent, and so would a ring of three."""
    holds: dict[str, set[str]] = {}
    for each in effect_inhibitions(pack.rules, catalogue.recipes):
        source = each.source[0].split('"')[1]
        holds[source] = set(each.target[0].split('"')[1].split("|"))
    assert "InferdocKvCapacityBound" in holds["InferdocKvPreemptionThrash"]
    while free := [name for name in holds if not holds[name] & holds.keys()]:
        for name in free:
            del holds[name]
    assert not holds, "a ring"


def test_the_cause_of_a_slow_gpu_holds_it_back_on_its_pod(pack, catalogue):
    """A clock that is throttled explains the slow GPU, however many more effects a slow GPU has. Alerts about GPUs tell
    no model."""
    every = {each.source[0]: each for each in effect_inhibitions(pack.rules, catalogue.recipes)}
    throttled = every['alertname="InferdocGpuClockThrottle"']
    assert "InferdocSlowGpu" in throttled.target[0] and throttled.equal == ("namespace", "pod")
    assert "InferdocGpuClockThrottle" not in every['alertname="InferdocSlowGpu"'].target[0]
    assert every['alertname="InferdocSlowGpu"'].equal == ("namespace", "model_name")


@needs_amtool
@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (["alertname=InferdocEngineDown", "severity=critical", "component=inferdoc", "pod=p0"], "inferdoc-page"),
        (["alertname=InferdocSlowGpu", "severity=warning", "component=inferdoc"], "inferdoc-ticket"),
        (["alertname=InferdocSloTrafficTooLow", "severity=info", "component=inferdoc"], "inferdoc-info"),
        (["alertname=InferdocWatchdog", "severity=none", "component=inferdoc"], "inferdoc-deadman"),
        (["alertname=Foreign"], "inferdoc-ticket"),
    ],
)
def test_alerts_reach_their_receiver(labels, receiver):
    done = amtool("config", "routes", "test", f"--config.file={CONFIG}", f"--verify.receivers={receiver}", *labels)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_watchdog_flushes_as_often_as_it_repeats():
    (ours,) = configuration(load_routing())["route"]["routes"]
    watchdog = next(route for route in ours["routes"] if route["receiver"] == "inferdoc-deadman")
    assert watchdog["group_interval"] == watchdog["repeat_interval"] == "1m"


def test_labels_of_an_inhibition_are_required_on_both_sides():
    for rule in configuration(load_routing())["inhibit_rules"]:
        for side in ("source_matchers", "target_matchers"):
            named = {matcher.partition("=")[0].rstrip("!") for matcher in rule[side]}
            assert set(rule["equal"]) - {"cluster", "role"} <= named, rule
            assert 'component="inferdoc"' in rule[side], "alerts of others are never held back"


def test_alerts_carry_the_labels_that_inhibitions_compare(pack):
    by_name = {rule.name: rule for rule in pack.rules}
    for name in ("InferdocEngineDown", "InferdocEngineHung", "InferdocKvPreemptionThrash"):
        assert {"namespace", "pod"} <= set(by_name[name].by)
    for name in ("InferdocSloBurnFast", "InferdocSloBurnSlow"):
        assert {"namespace", "model_name"} <= set(by_name[name].by) and "slo" in by_name[name].by


def test_deprecated_forms_are_not_used():
    text = CONFIG.read_text("utf-8")
    assert "match:" not in text.replace("_matchers:", "") and "match_re:" not in text


def test_an_unknown_receiver_is_named_with_its_place(tmp_path):
    routes = [{**SHIPPED["routes"][0], "receiver": "nobody"}]
    with pytest.raises(CatalogueError, match=r"routing\.yaml:\d+: routes\[0\]\.receiver: no such receiver 'nobody'"):
        load_routing(overlay(tmp_path, routes=routes))


def test_a_repeat_that_its_group_never_flushes_in_time_is_refused(tmp_path):
    routes = [{"receiver": "inferdoc-page", "matchers": ['a="b"'], "repeat_interval": "1m"}]
    with pytest.raises(CatalogueError, match=r"1m is shorter than group_interval 5m"):
        load_routing(overlay(tmp_path, routes=routes))


def test_an_unknown_default_is_refused(tmp_path):
    with pytest.raises(CatalogueError, match="default_receiver: no such receiver"):
        load_routing(overlay(tmp_path, default_receiver="nobody"))


@needs_amtool
@needs_promtool
def test_check_reports_a_broken_configuration(tmp_path):
    folder = Path(shutil.copytree(GENERATED, tmp_path / "generated"))
    text = CONFIG.read_text("utf-8").replace("receiver: inferdoc-deadman", "receiver: nobody")
    (folder / ALERTMANAGER).write_text(text, "utf-8")
    problems, _ = check_alerts(folder)
    assert len(problems) >= 1 and "nobody" in problems[0]
