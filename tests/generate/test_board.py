"""The boards: as committed, of today's model, and without what a linter, or a reader, would stumble over."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

import pytest
import yaml

from inferdoc.catalogue.load import load_catalogue
from inferdoc.errors import CatalogueError
from inferdoc.generate.board import panel, panels
from inferdoc.generate.board_lint import UNITS, problems, queries
from inferdoc.generate.board_lint import panels as panels_of
from inferdoc.generate.board_panel import AxisBounds, bounds, colour_steps, steps
from inferdoc.generate.board_spec import PanelSpec, load_boards
from inferdoc.generate.boards import build_boards, check_boards, expanded
from inferdoc.generate.links import GeneratedLinks, with_board
from inferdoc_dev.generate.boards_page import board_page_changes
from tests.generate.conftest import ROOT, needs_promtool
from tests.recorded_history import rules_of

FOLDER = ROOT / "dashboards" / "generated"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
Board = dict[str, Any]


@pytest.fixture(scope="module")
def board() -> Board:
    return json.loads((FOLDER / "fleet-overview.json").read_text("utf-8"))


def test_the_committed_board_is_what_the_declarations_give(catalogue):
    assert build_boards(catalogue, GeneratedLinks(), FOLDER, check=True) == [], "run make generate"


def each() -> list[Board]:
    return [json.loads((FOLDER / f"{name}.json").read_text("utf-8")) for name in NAMES]


def test_the_boards_that_are_promised_are_there():
    assert NAMES == [
        "capacity-and-prewarm", "data-health", "fleet-overview", "gpu-per-tier", "kv-and-cache", "latency-by-phase",
        "lora", "moe-and-ranks", "pd-and-transfer", "router", "speculation",
    ]  # fmt: skip
    assert len({board["uid"] for board in each()}) == len(NAMES)


def test_every_board_is_shown_with_its_question(catalogue):
    page = (ROOT / "docs" / "boards.md").read_text("utf-8")
    assert board_page_changes(ROOT / "docs" / "boards.md", catalogue) == [], "run make generate"
    for name in NAMES:
        picture = ROOT / "docs" / "boards" / f"{name}.png"
        assert f"](boards/{name}.png)" in page and f"dashboards/{name}.yaml" in page
        assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size < 400_000
    assert page.count("?") >= 2 * len(NAMES) and (ROOT / "docs" / "boards" / "fleet-overview-desk.png").is_file()


def test_the_linter_finds_nothing():
    assert [line for board in each() for line in problems(board)] == []


@needs_promtool
def test_check_parses_every_query():
    found, summary = check_boards(FOLDER)
    assert found == [] and summary == f"{len(NAMES)} dashboards checked, 0 problems"


def test_no_query_stands_in_a_board_file():
    for name in NAMES:
        text = (ROOT / "dashboards" / f"{name}.yaml").read_text("utf-8")
        assert not any(word in text for word in ("rate(", "sum by", "vllm:", "DCGM_", "histogram_quantile"))


def test_every_panel_has_words_and_a_unit_of_the_registry():
    for board in each():
        shown = [one for one in panels_of(board) if one["type"] in ("stat", "timeseries", "table")]
        assert 4 <= len(shown) <= 20
        for one in shown:
            assert len(one["description"]) > 10 and one["fieldConfig"]["defaults"]["unit"] in UNITS
            for override in one["fieldConfig"]["overrides"]:
                assert all(p["value"] in UNITS for p in override["properties"] if p["id"] == "unit")


def test_the_registry_says_where_it_is_from():
    head = (ROOT / "inferdoc" / "generate" / "grafana-units.txt").read_text("utf-8").splitlines()[0]
    assert "@grafana/data 13" in head and len(UNITS) > 200 and "percentunit" in UNITS and "cpz" not in UNITS


def known_metrics(catalogue) -> set[str]:
    """Names of every series that an exporter is declared to have, those of histograms included."""
    found = set()
    for exporter in catalogue.exporters.values():
        for name, metric in exporter.metrics.items():
            found |= {name} | (
                {f"{name}{end}" for end in ("_bucket", "_sum", "_count")} if metric.type == "histogram" else set()
            )
    return found


METRIC = re.compile(r"\b((?:[a-z]+:)?[a-zA-Z_][a-zA-Z0-9_]*(?::\w+)*)\s*[{\[]")


def test_every_series_is_declared_or_recorded(catalogue):
    """Of panels, variables and marks: none that no exporter has under this name."""
    known = (
        known_metrics(catalogue)
        | set(rules_of(ROOT / "alerts" / "generated" / "inferdoc-recording.yaml"))
        | {"ALERTS", "ALERTS_FOR_STATE"}
    )
    seen = 0
    for board in each():
        texts = [expr for _, expr in queries(board)]
        texts += [mark["expr"] for mark in board["annotations"]["list"] if "expr" in mark]
        texts += [
            variable.get("definition", "").removeprefix("label_values(") for variable in board["templating"]["list"]
        ]
        for text in texts:
            for name in METRIC.findall(re.sub(r'"[^"]*"', '""', text)):
                seen += 1
                assert name in known, f"{board['title']}: {name}: {text}"
    assert seen > 1000


def test_thresholds_are_the_bands_of_the_tiers(catalogue):
    board = json.loads((FOLDER / "kv-and-cache.json").read_text("utf-8"))
    panel = next(p for p in panels_of(board) if p["title"] == "KV cache in use by live requests")
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["thresholds"]["steps"] == [
        {"color": "green", "value": None},
        {"color": "yellow", "value": catalogue.tiers.bands["kv_usage"].high},
        {"color": "red", "value": catalogue.tiers.bands["kv_usage"].bad},
    ]
    assert defaults["custom"]["thresholdsStyle"] == {"mode": "dashed"}
    assert (defaults["min"], defaults["max"]) == (0, 1)


@pytest.mark.parametrize(
    ("signal", "expected"),
    [
        ("spec_acceptance_rate", [("red", None), ("yellow", 0.5), ("green", 0.6)]),
        ("prefix_hit_ratio", [("yellow", None), ("green", 0.3)]),
        ("waiting", [("green", None), ("yellow", 5.0)]),
        ("fb_used_ratio", [("green", None), ("yellow", 0.96), ("orange", 0.97), ("red", 0.99)]),
        ("running", [("text", None)]),
    ],
)
def test_bands_of_every_shape_become_steps(catalogue, signal, expected):
    assert [(s.colour, s.value) for s in steps(signal, catalogue.signals[signal], catalogue)] == expected


@pytest.mark.parametrize(
    ("signal", "expected"),
    [
        ("kv_usage", AxisBounds(0, 1)),
        ("error_share", AxisBounds(0, soft=0.05)),
        ("itl_p99", AxisBounds(0, soft=0.005)),
        ("target_up", AxisBounds(0, 1)),
        ("gpu_temp", AxisBounds()),
    ],
)
def test_an_axis_reaches_as_far_as_its_unit_says(catalogue, signal, expected):
    declared = catalogue.signals[signal]
    assert bounds(declared, colour_steps((signal,), catalogue)) == expected


def test_worst_members_stand_beside_the_median_of_their_like(catalogue):
    spec = PanelSpec(signal="queue_time_mean", worst=3)
    worst, median = panel(spec, catalogue, GeneratedLinks()).queries
    assert "topk(3, max_over_time(" in worst.expr and "@ end())" in worst.expr and not worst.quiet
    assert median.expr.startswith("quantile by (role, tier) (0.5, ") and median.quiet
    down = panel(PanelSpec(signal="prefix_hit_ratio", worst=3), catalogue, GeneratedLinks()).queries[0]
    assert "bottomk(3, min_over_time(" in down.expr


def test_gpus_are_joined_with_the_chosen_pods(catalogue):
    (query,) = panel(PanelSpec(signal="gpu_temp"), catalogue, GeneratedLinks()).queries
    assert "on (cluster, namespace, pod) group_left (role, tier)" in query.expr
    assert 'present_over_time(vllm:num_requests_running{cluster=~"$cluster",namespace=~"$namespace"' in query.expr


def test_a_line_leads_to_its_pod_and_keeps_the_time(catalogue):
    links = dict(panel(PanelSpec(signal="itl_p99", worst=3), catalogue, GeneratedLinks()).drill)
    assert links["GPUs of this pod"].startswith("/d/inferdoc-gpu?${__url_time_range}&")
    assert links["GPUs of this pod"].endswith("&var-pod=${__field.labels.pod}")
    uids = {board["uid"] for board in each()}
    for board in each():
        for target in re.findall(r"/d/([\w-]+)\?", json.dumps(board)):
            assert target in uids


def test_the_entry_dashboard_fits_one_screen(board):
    """1440 x 900 less the head of Grafana is 20 rows of the grid; collapsed rows come below."""
    open_ = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in open_) <= 20
    assert all(panel["collapsed"] for panel in board["panels"] if panel["type"] == "row")


def test_a_finding_leads_to_the_one_dashboard_of_its_cause(catalogue, board):
    """Every pattern names a cause, no cause has two dashboards, and the link keeps time and variables."""
    boards = {name: spec for name, (spec, _) in load_boards(catalogue.overlays).items()}
    led = {
        spec.uid: [c for c in catalogue.recipes for each in spec.causes if fnmatchcase(c, each)]
        for spec in boards.values()
    }
    assert all(any(fnmatchcase(c, each) for c in catalogue.recipes) for spec in boards.values() for each in spec.causes)
    every = [cause for causes in led.values() for cause in causes]
    assert len(every) == len(set(every)) and not led["inferdoc-fleet"]
    assert all(led[uid] for uid in set(led) - {"inferdoc-fleet", "inferdoc-latency"})
    expr = with_board("x", boards)
    for uid, causes in led.items():
        for cause in causes:
            patterns = re.findall(r'"board", "([\w-]+)", "cause", "([^"]+)"', expr)
            assert [target for target, pattern in patterns if re.fullmatch(pattern, cause)] == [uid]
    for title in ("Findings", "Firing alerts"):
        table = next(panel for panel in board["panels"] if panel["title"] == title)
        (open_,) = (
            o for o in table["fieldConfig"]["overrides"] if "mappings" in str(o) and o["matcher"]["options"] == "Open"
        )
        mappings, links = (each["value"] for each in open_["properties"])
        assert set(mappings[0]["options"]) == set(led)
        assert links[0]["url"].startswith("/d/${__value.raw}?${__url_time_range}&${datasource:queryparam}&")


def test_dashboards_link_to_each_other_with_time_and_variables():
    for one in each():
        (menu,) = (link for link in one["links"] if link["type"] == "dashboards")
        assert menu["keepTime"] and menu["includeVars"] and set(menu["tags"]) <= set(one["tags"])


def test_the_watchdog_is_no_firing_alert(board):
    """It always fires, with severity none."""
    texts = [expr for _, expr in queries(board)] + [mark.get("expr", "") for mark in board["annotations"]["list"]]
    severities = [re.findall(r'severity(?:=~|!=|=)"[^"]*"', text) for text in texts if "ALERTS" in text]
    assert severities and all(
        found and all(one.startswith("severity=~") and "none" not in one for one in found) for found in severities
    )


def test_links_lead_to_pages_that_exist(tmp_path):
    """Without a base there is none."""
    assert not [link for board in each() for panel in panels_of(board) for link in panel.get("links", [])]
    build_boards(load_catalogue(), GeneratedLinks("https://wiki.example/r"), tmp_path)
    boards = [json.loads(path.read_text("utf-8")) for path in tmp_path.glob("*.json")]
    links = [link["url"] for board in boards for panel in panels_of(board) for link in panel.get("links", [])]
    assert links
    for url in links:
        assert (ROOT / "runbooks" / f"{url.rsplit('/', 1)[1]}.md").is_file(), url


def test_nothing_of_the_old_model_is_left():
    text = json.dumps(each())
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
    for board in each():
        assert [path for path in _nulls(board) if not path.endswith("steps.0.value")] == ["id"]


def test_collapsed_rows_hold_their_panels_and_open_ones_do_not():
    board = json.loads((FOLDER / "router.json").read_text("utf-8"))
    rows = [panel for panel in board["panels"] if panel["type"] == "row"]
    assert any(row["collapsed"] for row in rows) and any(not row["collapsed"] for row in rows)
    for row in rows:
        assert bool(row["panels"]) == row["collapsed"]


def test_dashboards_expand_to_plain_queries():
    for board in each():
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
    (tmp_path / "dashboards" / "mine.yaml").write_text(yaml.dump(mine, Dumper=yaml.CSafeDumper), "utf-8")
    changed = build_boards(load_catalogue([tmp_path]), GeneratedLinks(), tmp_path / "out")
    assert "mine.json: written" in [line.rsplit("/", 1)[1] for line in changed]
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
    (tmp_path / "dashboards" / "mine.yaml").write_text(yaml.dump(mine, Dumper=yaml.CSafeDumper), "utf-8")
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
    (_replace('cluster=~"$cluster"', 'cluster="$cluster"'), 'lacks cluster=~"$cluster"'),
    (_set("targets.0.expr", 'sum(vllm:x_total{cluster=~"$cluster"})'), "counter vllm:x_total without rate"),
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
