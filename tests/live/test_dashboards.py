"""Every query of every board, run against a real Prometheus over real recordings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from inferdoc.catalogue.aliases import Aliases
from inferdoc.catalogue.load import load_catalogue
from inferdoc.generate.board import load_boards, panels
from inferdoc.generate.board_lint import panels as panels_of
from inferdoc.generate.boards import expanded
from inferdoc.generate.links import GeneratedLinks
from inferdoc.source.open import open_source
from inferdoc.source.plan import buckets, operands
from tests.conftest import ROOT

pytestmark = pytest.mark.live

RECORDINGS = ("control-pd", "spec-acceptance-decay", "lora-thrash")
WINDOW = "30s"


def shown() -> Iterator[tuple[str, str, str]]:
    """Board, signal and query of every panel, in declared order."""
    catalogue = load_catalogue()
    for name, (board, path) in load_boards().items():
        for _, made in panels(board, path, catalogue, GeneratedLinks()):
            for panel in made:
                for query in panel.queries:
                    yield name, query.signal, query.expr


QUERIES = list(dict.fromkeys(shown()))


@pytest.fixture(scope="module", params=RECORDINGS)
def server(request, prometheus_of) -> tuple[str, float, set[str]]:
    """Address, newest sample, and the names of the series that the recording holds."""
    address = prometheus_of(request.param)
    source = open_source(prometheus=address)
    latest = source.latest_ms()
    names = source.names(latest - 120_000, latest)
    source.close()
    return address, latest / 1000, set(names)


def ask(address: str, expr: str, at: float) -> dict[str, Any]:
    form = {"query": expanded(expr, WINDOW), "start": at - 120, "end": at, "step": 5}
    return requests.post(f"{address}/api/v1/query_range", data=form, timeout=30).json()


def test_every_query_runs_and_shows_what_the_recording_holds(server):
    address, at, names = server
    catalogue = load_catalogue()
    aliases = Aliases(catalogue.exporters.values())
    seen = 0
    for board, signal, expr in QUERIES:
        answer = ask(address, expr, at)
        assert answer["status"] == "success", f"{board}: {signal}: {answer.get('error')}"
        values = [float(v) for series in answer["data"]["result"] for _, v in series["values"]]
        if held(catalogue.signals[signal], aliases, names):
            assert values, f"{board}: {signal} shows nothing: {expr}"
            assert any(v == v for v in values), f"{board}: {signal} is never a number"
            seen += 1
        else:
            assert not values, f"{board}: {signal} shows something where the recording holds none of it"
    assert seen > 30


def held(signal, aliases: Aliases, names: set[str]) -> bool:
    """Whether the recording holds every series of the reading that boards take: the first, under its current names."""
    reading = signal.readings[0]
    wanted = [part.name for part in operands(type(signal)("", "", "info", signal.level, (reading,)))]
    if reading.quantile:
        wanted.append(buckets(reading, signal.level).name)
    for term in reading.terms.values():
        if term.signal and not held(load_catalogue().signals[term.signal], aliases, names):
            return False
    return bool(wanted or reading.terms) and all(name in names for name in wanted)


def test_variables_find_their_values(server):
    """The queries behind the variables are label_values(series, label): the series exist, and have the label. What
    rules record is not there: none are loaded."""
    address, at, _ = server
    board = json.loads((ROOT / "dashboards" / "generated" / "fleet-overview.json").read_text("utf-8"))
    for variable in board["templating"]["list"]:
        if variable["type"] != "query":
            continue
        series, _, label = variable["definition"].removeprefix("label_values(").removesuffix(")").rpartition(", ")
        form = {"match[]": expanded(series), "start": at - 120, "end": at}
        found = requests.get(f"{address}/api/v1/label/{label}/values", params=form, timeout=30).json()["data"]
        if label not in ("cluster", "namespace") and ":inferdoc_" not in series:
            assert found, f"{variable['name']} finds nothing"


def test_the_committed_board_asks_what_was_tested():
    committed = set()
    for path in sorted((ROOT / "dashboards" / "generated").glob("*.json")):
        board = json.loads(path.read_text("utf-8"))
        committed |= {target["expr"] for panel in panels_of(board) for target in panel.get("targets", ())}
    assert committed == {expr for _, _, expr in QUERIES}
