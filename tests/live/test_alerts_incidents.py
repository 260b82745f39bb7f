"""The rules on hours of simulated scrapes, evaluated by promtool itself: they fire on the fault they are about and on
nothing before it, and stay silent on a fleet that is busy but well."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import requests
import yaml

from inferdoc.catalogue.load import load_catalogue
from inferdoc.generate.cause_rules import alert_name
from inferdoc.generate.pack import RECORDING, RULES
from tests import prometheus_server
from tests.conftest import ROOT

pytestmark = [
    pytest.mark.live,
    pytest.mark.takes_long("all rules are evaluated over more than an hour, stage by stage"),
]

GENERATED = ROOT / "alerts" / "generated"
LATER_SECONDS = 48 * 60
"""By how much the events of a scenario move back: usual values need an hour of lag and half an hour of history."""
FAULT_MINUTE = 60
STEP_SECONDS = 60


def scenario(name: str, folder: Path) -> Path:
    """A scenario whose events come later, in a longer course."""
    document = yaml.load((ROOT / "fixtures" / "incidents" / f"{name}.yaml").read_text("utf-8"), yaml.CSafeLoader)
    for fault in document.get("faults", ()):
        fault["at"] = f"{minutes(fault['at']) * 60 + LATER_SECONDS:.0f}s"
    document["expect"]["onset"] = f"{FAULT_MINUTE}m"
    document["duration"] = f"{FAULT_MINUTE + 15}m"
    path = folder / "scenario.yaml"
    path.write_text(yaml.dump(document, Dumper=yaml.CSafeDumper), "utf-8")
    return path


def minutes(text: str) -> float:
    sizes = {"s": 1 / 60, "m": 1, "h": 60}
    return sum(float(number) * sizes[unit] for number, unit in re.findall(r"([\d.]+)([smh])", text))


@pytest.fixture(scope="module")
def firing(tmp_path_factory) -> dict[tuple[str, str], float]:
    """Alert and pod -> minute at which it begins to fire, for one incident."""
    if not prometheus_server.available():
        pytest.skip(prometheus_server.MISSING)
    return evaluated("kv-preemption-thrash", tmp_path_factory.mktemp("incident"))


@pytest.mark.slow
def test_the_cause_fires_on_its_pods_soon_after_the_onset(firing):
    for pod in ("vllm-0", "vllm-1"):
        began = firing.get(("InferdocKvPreemptionThrash", pod))
        assert began is not None and FAULT_MINUTE < began <= FAULT_MINUTE + 8


@pytest.mark.slow
def test_nothing_else_fires_but_what_drove_it(firing):
    """Longer answers are what fills the cache here: their rule may say so beside it, and no other. Symptoms page."""
    cause = "kv-preemption-thrash"
    recipes = load_catalogue().recipes.values()
    load_changes = {alert_name(r.id) for r in recipes if r.kind == "load" and cause in r.effects}
    rules = (rule for group in groups(RULES) for rule in group["rules"] if "alert" in rule)
    causes = {rule["alert"] for rule in rules if rule["labels"]["kind"] == "cause"}
    assert {alert for alert, _ in firing} & causes - load_changes == {alert_name(cause)}


@pytest.mark.slow
def test_a_fleet_that_is_busy_but_well_stays_silent(tmp_path):
    """A KV cache that is nearly full and hurts nobody."""
    if not prometheus_server.available():
        pytest.skip(prometheus_server.MISSING)
    assert evaluated("control-kv-high", tmp_path) == {}


def evaluated(name: str, folder: Path) -> dict[tuple[str, str], float]:
    """The rules over a simulated course: recorded signals, then usual values, then alerts, each on what was before."""
    from tests.cli.command import call

    raw = folder / "incident.om"
    done = call("simulate", "--scenario", scenario(name, folder), "--out", raw)
    assert done.code == 0, done.err
    begin = first_scrape(raw)
    rules = staged([r for f in (RECORDING, RULES) for g in groups(f) if g["name"] in STAGES for r in g["rules"]])
    for stage in sorted({at for at, _ in rules}):
        wanted = [rule for at, rule in rules if at == stage]
        with prometheus_server.running([raw] if stage == 0 else [], folder / "server") as address:
            record(wanted, address, begin, folder)
    found: dict[tuple[str, str], float] = {}
    alerts = [rule for group in groups(RULES) for rule in group["rules"] if "alert" in rule]
    waits = {f"alert:{rule['alert']}": minutes(rule.get("for", "0s")) for rule in alerts}
    with prometheus_server.running([], folder / "server") as address:
        query = {"query": '{__name__=~"alert:.+"}', "start": begin, "end": begin + END_SECONDS, "step": STEP_SECONDS}
        answer = requests.post(f"{address}/api/v1/query_range", data=query, timeout=60).json()
    for series in answer["data"]["result"]:
        labels = series["metric"]
        name_ = labels["__name__"]
        began = fires([(float(at) - begin) / 60 for at, _ in series["values"]], waits[name_])
        if began is not None:
            found[name_.removeprefix("alert:"), labels.get("pod", "")] = began
    return found


END_SECONDS = (FAULT_MINUTE + 14) * 60
STAGES = ("inferdoc-pods", "inferdoc-signals", "inferdoc-usual", "inferdoc-symptoms", "inferdoc-causes")
RECORD = re.compile(r"[a-z]+:inferdoc_\w+:\w+")


def groups(name: Path) -> list[dict]:
    return yaml.load((GENERATED / name).read_text("utf-8"), yaml.CSafeLoader)["groups"]


def staged(rules: list[dict]) -> list[tuple[int, dict[str, str]]]:
    """The rules with the stage at which what they read is there; alerts as series of their expression."""
    exprs = {rule.get("record") or f"alert:{rule['alert']}": rule["expr"] for rule in rules}
    stages: dict[str, int] = {}

    def stage(name: str) -> int:
        if name not in stages:
            read = set(RECORD.findall(exprs[name])) & exprs.keys() - {name}
            stages[name] = max((stage(other) + 1 for other in read), default=0)
        return stages[name]

    return [(stage(name), {"record": name, "expr": expr}) for name, expr in exprs.items()]


def record(rules: list[dict[str, str]], address: str, begin: int, folder: Path) -> None:
    """Evaluate recording rules over the whole course, into blocks that the next server reads."""
    path = folder / "stage.yaml"
    path.write_text(yaml.dump({"groups": [{"name": "stage", "rules": rules}]}, Dumper=yaml.CSafeDumper), "utf-8")
    command = [
        "promtool",
        "tsdb",
        "create-blocks-from",
        "rules",
        f"--url={address}",
        f"--start={begin}",
        f"--end={begin + END_SECONDS}",
        f"--eval-interval={STEP_SECONDS}s",
        f"--output-dir={folder / 'server' / 'data'}",
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def first_scrape(path: Path) -> int:
    with path.open(encoding="utf-8") as lines:
        return int(float(next(line for line in lines if line.startswith("up{")).rsplit(" ", 1)[1])) + 10


def fires(times: list[float], wait: float) -> float | None:
    """The minute at which a condition that is true at these times has been true for long enough."""
    began = None
    for number, at in enumerate(times):
        if number == 0 or at - times[number - 1] > 1.5 * STEP_SECONDS / 60:
            began = at
        if began is not None and at - began >= wait:
            return at
    return None
