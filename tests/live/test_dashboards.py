"""Every query of every board against a real Prometheus over simulated fleets that have every feature."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from inferdoc.catalogue.load import load_catalogue
from inferdoc.generate.board import panel
from inferdoc.generate.board_lint import panels as panels_of
from inferdoc.generate.board_spec import PanelSpec
from inferdoc.generate.boards import expanded
from inferdoc.generate.links import GeneratedLinks
from tests import prometheus_server
from tests.board_fleets.server import BOARDS, Fleets, fleets

pytestmark = pytest.mark.live

WINDOW = "1m"
SHOWN = 240
"""s before the end that are asked for."""
CHANGES = ("New engine pods", "Settings changed")
"""Marks of what does not happen in these fleets: nothing is rolled out, no setting changes."""


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Fleets]:
    if not prometheus_server.available():
        pytest.skip(prometheus_server.MISSING)
    with fleets(tmp_path_factory.mktemp("boards")) as found:
        yield found


def ask(served: Fleets, expr: str, instant: bool = False) -> list[dict[str, Any]]:
    """The series of an answer. Fails where the server refuses the query."""
    text = expanded(expr.replace("$__range", f"{SHOWN}s"), WINDOW)
    if instant:
        form: dict[str, str | float] = {"query": text, "time": served.end}
    else:
        form = {"query": text, "start": served.end - SHOWN, "end": served.end, "step": 15}
    path = "query" if instant else "query_range"
    answer = requests.post(f"{served.address}/api/v1/{path}", data=form, timeout=60).json()
    assert answer["status"] == "success", f"{answer.get('error')}: {text}"
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def boards() -> list[dict[str, Any]]:
    return [json.loads(path.read_text("utf-8")) for path in sorted(BOARDS.glob("*.json"))]


def test_every_panel_shows_something(served):
    """A panel of alternatives (the verdict in one of four words) shows one of them; all others every query."""
    asked = 0
    for board in boards():
        for shown in panels_of(board):
            targets = shown.get("targets", [])
            answers = [ask(served, target["expr"], target["instant"]) for target in targets]
            asked += len(answers)
            alternatives = shown["title"] == "Verdict"
            found = [bool(answer) for answer in answers]
            assert (any(found) if alternatives else all(found)) or not targets, f"{board['title']}: {shown['title']}"
    assert asked > 120


def test_values_are_numbers(served):
    for board in boards():
        for shown in panels_of(board):
            for target in shown.get("targets", []):
                for series in ask(served, target["expr"], target["instant"]):
                    values = series["values"] if "values" in series else [series["value"]]
                    assert any(float(value) == float(value) for _, value in values), (shown["title"], series["metric"])


def test_variables_and_marks_find_what_they_ask_for(served):
    for board in boards():
        for variable in board["templating"]["list"][1:]:
            series, _, label = variable["definition"].removeprefix("label_values(").removesuffix(")").rpartition(", ")
            form = {"match[]": expanded(series), "start": served.end - SHOWN, "end": served.end}
            url = f"{served.address}/api/v1/label/{label}/values"
            assert requests.get(url, params=form, timeout=30).json()["data"] or label == "cluster", variable["name"]
        for mark in (each for each in board["annotations"]["list"] if "expr" in each):
            found = ask(served, mark["expr"])
            assert bool(found) != (mark["name"] in (*CHANGES, "Engine restarts")), mark["name"]


def total(served: Fleets, spec: PanelSpec) -> float:
    """Of the prefill/decode fleet, the one number of a stat over ten minutes."""
    (query,) = panel(spec, load_catalogue(), GeneratedLinks()).queries
    text = query.expr.replace('namespace=~"$namespace"', 'namespace="llm"')
    form: dict[str, str | float] = {"query": expanded(text, "10m"), "time": served.end}
    (series,) = requests.post(f"{served.address}/api/v1/query", data=form, timeout=30).json()["data"]["result"]
    return float(series["value"][1])


def test_totals_are_those_of_the_router(served):
    router = total(served, PanelSpec(signal="router_request_rate", viz="stat", by=(), over="sum"))
    serving = PanelSpec(signal="request_rate", viz="stat", by=(), over="sum", roles=("decode", "both"))
    assert total(served, serving) == pytest.approx(router, rel=0.02)
    twice = PanelSpec(signal="request_rate", viz="stat", by=(), over="sum")
    assert total(served, twice) == pytest.approx(2 * router, rel=0.02), "both legs count where no role is named"


def test_no_gpu_of_another_team_shows(served):
    assert ask(served, 'DCGM_FI_DEV_GPU_UTIL{pod="other-team-0"}')
    for board in boards():
        for shown in panels_of(board):
            for target in shown.get("targets", []):
                for series in ask(served, target["expr"], target["instant"]):
                    assert (
                        series["metric"].get("pod") != "other-team-0"
                        and series["metric"].get("namespace") != "training"
                    )


@pytest.mark.parametrize(("variable", "value"), [("role", "decode"), ("tier", "a100-80"), ("pod", "llama-decode-1")])
def test_a_variable_narrows_every_level_of_pods(served, variable, value):
    """Engines, GPUs and containers alike."""
    for signal in ("itl_p99", "gpu_temp", "cpu_throttled_share"):
        (query,) = panel(PanelSpec(signal=signal), load_catalogue(), GeneratedLinks()).queries
        pods = {series["metric"]["pod"] for series in ask(served, query.expr.replace(f"${variable}", value))}
        assert pods and all(pod.startswith("llama-decode") for pod in pods), (signal, pods)
        assert variable != "pod" or pods == {value}
