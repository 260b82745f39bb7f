"""Objectives become burn-rate alerts; an objective that could never fire, or a limit that is no bound, is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from inferdoc.catalogue.load import load_catalogue
from inferdoc.errors import CatalogueError
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.slo import FAST, SLOW, load_slos, slo_records, slo_rules
from tests.generate.conftest import ROOT

SHIPPED = yaml.safe_load((ROOT / "alerts" / "slo.yaml").read_text("utf-8"))


def overlay(tmp_path: Path, **changes: object) -> tuple[Path, ...]:
    """A user's folder whose first objective is changed."""
    document = {**SHIPPED, "slos": [{**SHIPPED["slos"][0], **changes}]}
    (tmp_path / "alerts").mkdir()
    (tmp_path / "alerts" / "slo.yaml").write_text(yaml.safe_dump(document), "utf-8")
    return (tmp_path,)


def test_factors_are_those_of_the_workbook_for_thirty_days():
    assert [round(burn.factor("30d"), 6) for burn in (*FAST, *SLOW)] == [14.4, 6.0, 3.0, 1.0]


def test_factors_are_computed_anew_for_another_period():
    assert [round(burn.factor("28d"), 2) for burn in (*FAST, *SLOW)] == [13.44, 5.6, 2.8, 0.93]


def test_an_objective_whose_budget_cannot_burn_fast_enough_is_refused(tmp_path):
    """At 0.90 the fast burn would need 144 % bad events."""
    with pytest.raises(CatalogueError, match=r"slo\.yaml:\d+: slos\[0\]\.objective: 0\.9 leaves a budget.*144%"):
        load_slos(overlay(tmp_path, objective=0.90))


def test_the_lowest_objective_that_can_fire_is_taken(tmp_path):
    assert load_slos(overlay(tmp_path, objective=0.95)).slos[0].objective == 0.95


@pytest.mark.parametrize("objective", [0.0, 1.0, 99.0])
def test_an_objective_that_is_no_share_is_refused(tmp_path, objective):
    with pytest.raises(CatalogueError, match="a share between 0 and 1"):
        load_slos(overlay(tmp_path, objective=objective))


def test_a_limit_that_is_no_bucket_bound_is_refused_with_the_nearest(tmp_path):
    latency = {"histogram": "vllm:time_to_first_token_seconds", "within": 3.0}
    with pytest.raises(
        CatalogueError, match=r"3 is no bucket bound of vllm:time_to_first_token_seconds.*nearest is 2\.5"
    ):
        load_slos(overlay(tmp_path, latency=latency))


def test_a_histogram_whose_bounds_nobody_told_is_refused(tmp_path):
    latency = {"histogram": "vllm:request_prefill_time_seconds", "within": 1.0}
    with pytest.raises(CatalogueError, match="buckets does not say the bounds"):
        load_slos(overlay(tmp_path, latency=latency))


def test_latency_and_errors_exclude_each_other(tmp_path):
    errors = {"counter": "vllm:request_success_total", "bad": {"finished_reason": "error"}}
    with pytest.raises(CatalogueError, match="exactly one of latency, errors"):
        load_slos(overlay(tmp_path, errors=errors))


def test_unknown_keys_are_named(tmp_path):
    with pytest.raises(CatalogueError, match=r"slo\.yaml:\d+: slos\[0\]\.objektive: unknown key"):
        load_slos(overlay(tmp_path, objektive=0.9))


def test_both_windows_must_burn_and_rest_on_enough_events():
    file = load_slos()
    fast = next(rule for rule in slo_rules(file, GeneratedLinks()) if rule.name == "InferdocSloTtftBurnFast")
    for expected in (
        "bad:ratio1h > 14.4 * 0.01",
        "bad:ratio5m > 14.4 * 0.01",
        "bad:ratio6h > 6 * 0.01",
        "bad:ratio30m",
    ):
        assert expected in fast.expr
    assert fast.expr.count(">= 100") == 2 and fast.severity == "critical"


def test_a_whole_bound_is_found_in_both_spellings():
    """Go writes le="1", Python le="1.0"."""
    from inferdoc.generate.slo import Latency, Slo, SloFile

    file = SloFile((Slo("x", "x", 0.99, Latency("h", 1.0)),), {"h": (1.0,)})
    assert 'h_bucket{le=~"1|1[.]0"}' in slo_records(file)["model:inferdoc_slo_x_bad:rate5m"]


def test_every_ratio_is_recorded_once_per_window():
    file = load_slos()
    names = [name for name in slo_records(file) if "_ttft_bad:ratio" in name]
    windows = [name.rsplit("ratio", 1)[1] for name in names]
    assert windows == ["5m", "30m", "1h", "2h", "6h", "1d", "3d"]


def test_the_shipped_bounds_are_those_that_the_pages_show():
    """Every bound that a real page of vLLM has for these histograms stands in slo.yaml, and no other."""
    text = "".join(path.read_text("utf-8") for path in sorted((ROOT / "fixtures" / "pages").glob("vllm-plain.txt")))
    for histogram, bounds in SHIPPED["buckets"].items():
        lines = [line for line in text.splitlines() if line.startswith(f"{histogram}_bucket{{")]
        seen = {float(line.split('le="')[1].split('"')[0]) for line in lines if 'le="+Inf"' not in line}
        assert seen == {float(bound) for bound in bounds}, histogram


def test_a_catalogue_without_overlay_has_the_shipped_objectives():
    assert [slo.id for slo in load_slos(load_catalogue().overlays).slos] == ["ttft", "itl", "errors"]
