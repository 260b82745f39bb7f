"""What a plan says of its candidates, and how it is drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from made import DAY, office

from inferdoc.cli.prewarm import command
from inferdoc.forecast.engine import Request
from inferdoc.forecast.series import LoadUnit, Rate
from inferdoc.prewarm.build import build_plan, outlook, shaped
from inferdoc.prewarm.difference import explain
from inferdoc.prewarm.plan import PlanRow
from inferdoc.prewarm.plan_options import POLICIES, Capacity, Limits, PoolOptions
from inferdoc.report.prewarm import prewarm_html

SERIES = office(21)
WISH = PoolOptions(
    Request(7 * DAY), POLICIES["balanced"], Capacity(Rate(0.3, LoadUnit.OF_FILE)), Limits(maximum=40), 300, name="chat"
)


@pytest.fixture(scope="module")
def plan() -> PlanRow:
    return build_plan([shaped(outlook(SERIES, WISH), WISH)], SERIES.end)


def test_explain_names_every_candidate_and_what_arima_changes(plan: PlanRow) -> None:
    pytest.importorskip("statsmodels")
    made = plan.pools[0].forecast
    text = explain(plan, plan.generated_at, 1)
    assert {one.name for one in made.candidates} == set(made.weights)
    for one in made.candidates:
        assert f"{one.name:<12s} {made.weights[one.name]:>6.1%} {one.error:>15.4g}" in text
    assert "arima: day-type regression + AR(" in text and "error rank" in text
    without = made.without_arima
    assert without is not None and f"plan without arima: {without.hours:g} replica-hours a week" in text
    bare = replace(WISH, request=Request(7 * DAY, arima_seconds=0.0))
    row = shaped(outlook(SERIES, bare), bare)
    assert row.hours == without.hours and row.forecast.without_arima is None
    assert "arima: left out by --arima-seconds 0" in explain(build_plan([row], SERIES.end), plan.generated_at, 1)


def test_the_page_holds_the_drawing_the_cost_and_the_explanation(plan: PlanRow) -> None:
    pytest.importorskip("matplotlib")
    page = prewarm_html(plan, {"chat": (SERIES, outlook(SERIES, WISH))}, price=2.0)
    assert page.count("<svg") == 1 and "<script" not in page
    for word in ("load", "forecast p50", "p50 to p95", "floor", "replicas for p50", "cost of the floor (right)"):
        assert f">{word}</text>" in page
    assert f"Cost {plan.pools[0].hours * 2:,.2f} a week" in page
    assert "<pre>" in page and "\n  policy balanced" in page


def test_plan_writes_the_page(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    load, out = tmp_path / "load.csv", tmp_path / "plan.html"
    rows = (f"{at},{value:g}" for at, value in zip(SERIES.times.tolist(), SERIES.values.tolist(), strict=True))
    load.write_text("\n".join(["timestamp,value", *rows]) + "\n")
    words = ["--rps-per-replica", "0.3", "--from", str(SERIES.end), "--arima-seconds", "0", "-o", "html"]
    done = CliRunner().invoke(command, ["plan", "--input", str(load), *words, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "<svg" in out.read_text()
