"""The boards: as committed, of today's model, and without what a linter, or a reader, would stumble over."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from inferdoc.catalogue.load import load_catalogue
from inferdoc.errors import CatalogueError
from inferdoc.generate.board import load_boards, panels, steps
from inferdoc.generate.board_lint import panels as panels_of
from inferdoc.generate.board_lint import problems, queries
from inferdoc.generate.boards import build_boards, check_boards, expanded
from inferdoc.generate.links import GeneratedLinks
from tests.generate.conftest import ROOT, needs_promtool

FOLDER = ROOT / "dashboards" / "generated"
Board = dict[str, Any]


@pytest.fixture(scope="module")
def board() -> Board:
    return json.loads((FOLDER / "fleet-overview.json").read_text("utf-8"))


def test_the_committed_board_is_what_the_declarations_give(catalogue):
    assert build_boards(catalogue, GeneratedLinks(), FOLDER, check=True) == [], "run make generate"


def test_the_linter_finds_nothing(board):
    assert problems(board) == []


@needs_promtool
def test_check_parses_every_query():
    found, summary = check_boards(FOLDER)
    assert found == [] and summary == "1 dashboard checked, 0 problems"


def test_no_query_stands_in_the_board_file():
    text = (ROOT / "dashboards" / "fleet-overview.yaml").read_text("utf-8")
    assert not any(word in text for word in ("rate(", "sum by", "vllm:", "DCGM_", "histogram_quantile"))


def test_every_panel_has_its_signal_in_words(board, catalogue):
    shown = [panel for panel in panels_of(board) if panel["type"] in ("stat", "timeseries")]
    assert len(shown) > 40
    for panel in shown:
        assert len(panel["description"]) > 10 and panel["fieldConfig"]["defaults"]["unit"]


def test_thresholds_are_the_bands_of_the_tiers(board, catalogue):
    panel = next(p for p in panels_of(board) if p["title"] == "KV cache in use by live requests")
    assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"] == [
        {"color": "green", "value": None},
        {"color": "yellow", "value": catalogue.tiers.bands["kv_usage"].high},
        {"color": "red", "value": catalogue.tiers.bands["kv_usage"].bad},
    ]
    assert panel["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"] == {"mode": "line"}


@pytest.mark.parametrize(
    ("signal", "expected"),
    [
        ("spec_acceptance_rate", [("red", None), ("yellow", 0.5), ("green", 0.6)]),
        ("prefix_hit_ratio", [("yellow", None), ("green", 0.3)]),
        ("waiting", [("green", None), ("yellow", 5.0)]),
        ("fb_used_ratio", [("green", None), ("yellow", 0.97), ("red", 0.99)]),
        ("running", [("green", None)]),
    ],
)
def test_bands_of_every_shape_become_steps(catalogue, signal, expected):
    assert [(s.colour, s.value) for s in steps(signal, catalogue.signals[signal], catalogue)] == expected


def test_links_lead_to_pages_that_exist(board):
    links = [link["url"] for panel in panels_of(board) for link in panel.get("links", [])]
    assert links
    for url in links:
        assert (ROOT / "runbooks" / f"{url.rsplit('/', 1)[1]}.md").is_file(), url


def test_nothing_of_the_old_model_is_left(board):
    text = json.dumps(board)
    for word in (
        "__inputs",
        "intervalFactor",
        "maxDataPoints",
        "hideControls",
        '"gnetId"',
        '"span"',
        "sharedCrosshair",
    ):
        assert word not in text
    nulls = [path for path in _nulls(board) if not path.endswith("steps.0.value")]
    assert nulls == ["id"]


def test_collapsed_rows_hold_their_panels_and_open_ones_do_not(board):
    rows = [panel for panel in board["panels"] if panel["type"] == "row"]
    assert any(row["collapsed"] for row in rows) and any(not row["collapsed"] for row in rows)
    for row in rows:
        assert bool(row["panels"]) == row["collapsed"]


def test_dashboards_expand_to_plain_queries(board):
    for _, expr in queries(board):
        assert "$" not in expanded(expr).replace('"$1"', ""), expr


def test_the_overlay_adds_a_board(tmp_path):
    mine = {
        "uid": "mine",
        "title": "Mine",
        "description": "One.",
        "rows": [{"title": "a", "panels": [{"signal": "running"}]}],
    }
    (tmp_path / "dashboards").mkdir()
    (tmp_path / "dashboards" / "mine.yaml").write_text(yaml.safe_dump(mine), "utf-8")
    changed = build_boards(load_catalogue([tmp_path]), GeneratedLinks(), tmp_path / "out")
    assert [line.rsplit("/", 1)[1] for line in changed] == ["fleet-overview.json: missing", "mine.json: missing"]
    assert problems(json.loads((tmp_path / "out" / "mine.json").read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("signal", "said"), [("kv_usaeg", r'no signal "kv_usaeg".*kv_usage'), ("kv_capacity_tokens", "no query can show")]
)
def test_a_signal_that_cannot_be_shown_is_named_with_its_place(tmp_path, signal, said):
    mine = {
        "uid": "mine",
        "title": "Mine",
        "description": "One.",
        "rows": [{"title": "a", "panels": [{"signal": signal}]}],
    }
    (tmp_path / "dashboards").mkdir()
    (tmp_path / "dashboards" / "mine.yaml").write_text(yaml.safe_dump(mine), "utf-8")
    catalogue = load_catalogue([tmp_path])
    spec, path = load_boards(catalogue.overlays)["mine"]
    with pytest.raises(CatalogueError, match=rf"mine\.yaml:\d+: rows\[0\]\.panels\[0\]\.signal: {said}"):
        list(panels(spec, path, catalogue, GeneratedLinks()))


# ---- the linter sees what it is there for -------------------------------------------------------------------------


def _first(board: Board, kind: str = "timeseries") -> dict[str, Any]:
    return next(panel for panel in panels_of(board) if panel["type"] == kind)


def _set(path: str, value: object) -> Callable[[Board], None]:
    """A change of one value: a dotted path into the first time series, or from the top behind `/`."""

    def change(board: Board) -> None:
        node: Any = board if path.startswith("/") else _first(board)
        *steps_, last = path.lstrip("/").split(".")
        for step in steps_:
            node = node[int(step)] if step.isdigit() else node[step]
        if value is KeyError:
            del node[last]
        else:
            node[int(last) if last.isdigit() else last] = value

    return change


def _replace(old: str, new: str) -> Callable[[Board], None]:
    def change(board: Board) -> None:
        target = _first(board)["targets"][0]
        assert old in target["expr"]
        target["expr"] = target["expr"].replace(old, new)

    return change


def _overlap(board: Board) -> None:
    shown = [panel for panel in board["panels"] if panel["type"] != "row"]
    shown[1]["gridPos"] = dict(shown[0]["gridPos"])


BROKEN: list[tuple[Callable[[Board], None], str]] = [
    (_set("/editable", True), "editable must be false"),
    (_set("/schemaVersion", 12), "schemaVersion 12"),
    (_set("/uid", "with space"), "uid must be"),
    (_set("/__inputs", []), "__inputs is no longer"),
    (_set("/templating.list.0.label", "Datasource"), "labelled Data source"),
    (_set("/templating.list.0.name", "ds"), "named datasource"),
    (_set("/templating.list.8.allValue", ".*"), "variable job: allValue"),
    (_set("/templating.list.9.multi", False), "variable instance: multi"),
    (_set("/templating.list.9.name", "node"), "variable instance is missing"),
    (_set("/templating.list.2.refresh", 1), "refresh must be 2"),
    (_set("/templating.list.2.query.query", "namespaces()"), "the query must be one of"),
    (_set("datasource", "prometheus"), "datasource must be an object"),
    (_set("targets.0.datasource", {"type": "prometheus", "uid": "fixed"}), "datasource must be an object"),
    (_set("type", "graph"), "panel type graph is gone"),
    (_set("title", ""), "title and description"),
    (_set("description", KeyError), "title and description"),
    (_set("targets", []), "no queries"),
    (_set("fieldConfig.defaults.unit", "tokens/s"), "unit 'tokens/s'"),
    (_set("fieldConfig.defaults.mappings", []), "empty mappings"),
    (_set("fieldConfig.defaults.thresholds.steps.0.value", 0), "begin with a value of null"),
    (_set("targets.0.refId", "Z"), "refIds must be"),
    (_set("targets.0.instant", True), "either range or instant"),
    (_replace("$__rate_interval", "5m"), "use $__rate_interval"),
    (_replace('job=~"$job",', ""), 'lacks job=~"$job"'),
    (_replace('instance=~"$instance"', 'instance="$instance"'), 'lacks instance=~"$instance"'),
    (
        _set("targets.0.expr", 'sum(vllm:x_total{job=~"$job",instance=~"$instance"})'),
        "counter vllm:x_total without rate",
    ),
    (_set("targets.0.expr", "sum by (pod) (vllm:num_requests_running)"), "without matchers"),
    (_set("targets.0.expr", "sum("), "not an expression"),
    (_set("id", 1), "ids must be there and differ"),
    (_set("gridPos.w", 30), "wider than the grid"),
    (_overlap, "lies over"),
    (_set("links", [{"title": "x", "url": "runbooks/x"}]), "is no address"),
]


@pytest.mark.parametrize(("change", "said"), BROKEN, ids=[said for _, said in BROKEN])
def test_the_linter_sees(board, change, said):
    broken = copy.deepcopy(board)
    change(broken)
    assert any(said in line for line in problems(broken)), problems(broken)


def _nulls(value: object, path: str = "") -> list[str]:
    """Paths of every null."""
    if value is None:
        return [path.lstrip(".")]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, inner in items for found in _nulls(inner, f"{path}.{key}")]
