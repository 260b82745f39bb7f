"""One Prometheus over the fleets, with the series that recording rules and alerts would have added."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests
import yaml

from inferdoc.simulate.output import write_file, write_store
from inferdoc.simulate.scenario_files import read_scenario
from inferdoc.store import Store
from inferdoc_dev.incidents.recording import record as simulate
from tests.board_fleets.own_page import neighbours, own_page
from tests.prometheus_server import running
from tests.recorded_history import levels, record, rules_of

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RULES = ROOT / "alerts" / "generated" / "inferdoc-recording.yaml"
ALERTS = ROOT / "alerts" / "generated" / "inferdoc-rules.yaml"
BOARDS = ROOT / "dashboards" / "generated"
RECORDED = re.compile(r"[a-z]+:inferdoc_\w+:\w+")
HISTORY = re.compile(r":(median|rise|fall|peers)")
"""What rests on hours of history, which a short simulation has not."""


@dataclass(frozen=True)
class Fleets:
    """address: of the server; start, end: Unix seconds of what it holds."""

    address: str
    start: float
    end: float


@contextmanager
def fleets(folder: Path) -> Iterator[Fleets]:
    """Simulate, back-fill, record, serve."""
    files, start, end = [], 0.0, 0.0
    for path in sorted(HERE.glob("*.yaml")):
        scenario = read_scenario(path.read_text("utf-8"), path.stem)
        start, end = scenario.start, scenario.start + scenario.duration
        found = simulate(scenario)
        files.append(folder / f"{path.stem}.om")
        write_file(found.targets, files[-1])
        with Store.open(folder / "fleets.db", "w") as store:
            write_store(found.targets, store)
    (folder / "own.om").write_text(own_page(folder / "fleets.db", start, end), "utf-8")
    (folder / "neighbours.om").write_text("\n".join([*neighbours(start, end), ""]), "utf-8")
    server = folder / "server"
    files += [folder / "own.om", folder / "neighbours.om"]
    rules = rules_of(RULES, ALERTS)
    fires = _alerts(rules)
    wanted = {name for path in BOARDS.glob("*.json") for name in RECORDED.findall(path.read_text("utf-8"))}
    wanted |= {name for rule in fires for name in RECORDED.findall(rule["expr"])}
    record(files, server, rules, wanted, start, end)
    with running([], server) as address:
        (folder / "alerts.om").write_text(_firing(address, fires, start, end), "utf-8")
    with running([folder / "alerts.om"], server) as address:
        yield Fleets(address, start, end)


def _alerts(rules: dict[str, list[str]]) -> list[dict[str, object]]:
    """Alert rules that can fire without hours of history."""
    every = [rule for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"] for rule in group["rules"]]
    return [rule for rule in every if "alert" in rule and not _old(rule["expr"], rules)]


def _old(expr: str, rules: dict[str, list[str]]) -> bool:
    names = {name for level in levels(RECORDED.findall(expr), rules) for name in level}
    return any(HISTORY.search(name) for name in names)


def _firing(address: str, alerts: list[dict[str, object]], start: float, end: float) -> str:
    """ALERTS and ALERTS_FOR_STATE as Prometheus writes them, as soon as a rule's expression holds."""
    lines, states = ["# TYPE ALERTS gauge"], ["# TYPE ALERTS_FOR_STATE gauge"]
    for rule in alerts:
        form = {"query": str(rule["expr"]), "start": start, "end": end, "step": 30}
        answer = requests.post(f"{address}/api/v1/query_range", data=form, timeout=60).json()
        for series in answer["data"]["result"] if answer["status"] == "success" else []:
            labels = {**series["metric"], **dict(rule["labels"]), "alertname": rule["alert"], "alertstate": "firing"}  # type: ignore[call-overload]
            labels.pop("__name__", None)
            told = ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items() if "{{" not in value)
            lines += [f"ALERTS{{{told}}} 1 {at}" for at, _ in series["values"]]
            active = told.replace(',alertstate="firing"', "")
            begin = series["values"][0][0]
            states += [f"ALERTS_FOR_STATE{{{active}}} {begin} {at}" for at, _ in series["values"]]
    return "\n".join([*lines, *states, "# EOF", ""])
