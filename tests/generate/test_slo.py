"""Objectives become burn-rate alerts; an objective that could never fire, or a limit that is no bound, is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.catalogue.slo import FAST, SLOW
from inferdoc.errors import CatalogueError
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.promtool import test as promtool_test
from inferdoc.generate.slo import merged, slo_records, slo_rules, slow_records, watched
from inferdoc_dev.rule_tests.pack_tests import build_with_tests
from tests.generate.conftest import ROOT, needs_promtool

PLAIN = {"id": "ttft", "title": "First tokens", "signal": "ttft", "percentile": 99, "target": 2.5}


def catalogue_of(tmp_path: Path, *entries: dict[str, Any], **top: Any) -> Catalogue:
    """The catalogue with a user's alerts/slo.yaml."""
    (tmp_path / "alerts").mkdir(exist_ok=True)
    (tmp_path / "alerts" / "slo.yaml").write_text(
        yaml.dump({"slos": list(entries), **top}, Dumper=yaml.CSafeDumper), "utf-8"
    )
    return Catalogue((tmp_path,))


def with_one_cause(tmp_path: Path, *entries: dict[str, Any]) -> Catalogue:
    """The same with one cause: rules and tests of causes take long to generate, and do not change objectives."""
    others = [name for name in load_catalogue().recipes if name != "kv-preemption-thrash"]
    return load_catalogue(catalogue_of(tmp_path, *entries).overlays, disabled=others)


def refused(tmp_path: Path, entry: dict[str, Any], words: str, **top: Any) -> None:
    with pytest.raises(CatalogueError, match=words):
        watched(catalogue_of(tmp_path, entry, **top))


def test_factors_are_those_of_the_workbook_for_thirty_days():
    assert [round(burn.factor("30d"), 6) for burn in (*FAST, *SLOW)] == [14.4, 6.0, 3.0, 1.0]


def test_factors_are_computed_anew_for_another_period():
    assert [round(burn.factor("28d"), 2) for burn in (*FAST, *SLOW)] == [13.44, 5.6, 2.8, 0.93]


def test_an_objective_whose_budget_cannot_burn_fast_enough_is_refused(tmp_path):
    """At 0.90 the fast burn would need 144 % bad events."""
    refused(tmp_path, {**PLAIN, "percentile": 90}, r"slo\.yaml:\d+: slos\[0\]: .*0\.9 good leaves a budget.*144%")


def test_it_can_stand_without_rules(tmp_path):
    assert watched(catalogue_of(tmp_path, {**PLAIN, "percentile": 90, "burn": False})) == []


def test_the_lowest_objective_that_can_fire_is_taken(tmp_path):
    (slo,) = watched(catalogue_of(tmp_path, {**PLAIN, "percentile": 95}))
    assert slo.good == 0.95 and slo.signal == "ttft_p95"


def test_a_limit_that_is_no_bucket_bound_is_refused_with_the_nearest(tmp_path):
    words = r"3 is no bucket bound of vllm:time_to_first_token_seconds.*nearest are 0\.75, 1, 2\.5, 5"
    refused(tmp_path, {**PLAIN, "target": 3.0}, words)


def test_servers_may_have_bounds_of_their_own(tmp_path):
    buckets = {"vllm:time_to_first_token_seconds": [1, 2, 3]}
    assert watched(catalogue_of(tmp_path, {**PLAIN, "target": 3.0}, buckets=buckets))
    refused(tmp_path, PLAIN, r"2\.5 is no bucket bound.*nearest are 1, 2, 3", buckets=buckets)


def test_a_histogram_whose_bounds_nobody_told_is_refused(tmp_path):
    refused(
        tmp_path, {**PLAIN, "signal": "router_ttft"}, "nothing declares the bucket bounds of llm_d_epp_request_ttft"
    )


def test_both_windows_must_burn_and_rest_on_enough_events(catalogue):
    (ttft,) = [slo for slo in watched(catalogue) if slo.id == "ttft"]
    fast = next(rule for rule in slo_rules(ttft, catalogue, GeneratedLinks()) if rule.name == "InferdocSloBurnFast")
    for expected in (
        "bad:ratio1h / 0.01 > 14.4",
        "bad:ratio5m > 14.4 * 0.01",
        "bad:ratio6h / 0.01 > 6",
        "bad:ratio30m",
    ):
        assert expected in fast.expr
    assert fast.expr.count(">= 100") == 2 and fast.severity == "critical"


def test_a_whole_bound_is_found_in_both_spellings(tmp_path):
    """Go writes le="1", Python le="1.0"."""
    catalogue = catalogue_of(tmp_path, {**PLAIN, "target": 1.0})
    records = slo_records(catalogue.slos[0], catalogue)
    assert 'seconds_bucket{le=~"1|1[.]0"}' in records["model:inferdoc_slo_ttft_bad:rate5m"]


def test_every_ratio_is_recorded_once_per_window(catalogue):
    """Those of hours as seldom as tickets are judged: a few minutes hardly move them."""
    for records, windows in ((slo_records, ["5m", "30m", "1h"]), (slow_records, ["2h", "6h", "1d", "3d"])):
        names = [name for name in records(catalogue.slos[0], catalogue) if "_ttft_bad:ratio" in name]
        assert [name.rsplit("ratio", 1)[1] for name in names] == windows


def test_the_declared_bounds_are_those_that_the_pages_show(catalogue):
    """Every bound that a real page of vLLM has for these histograms stands in collectors/vllm.yaml, and no other."""
    text = "".join(path.read_text("utf-8") for path in sorted((ROOT / "fixtures" / "pages").glob("vllm-plain.txt")))
    declared = {name: metric.bounds for name, metric in catalogue.exporters["vllm"].metrics.items() if metric.bounds}
    assert len(declared) == 8
    for histogram, bounds in declared.items():
        lines = [line for line in text.splitlines() if line.startswith(f"{histogram}_bucket{{")]
        seen = {float(line.split('le="')[1].split('"')[0]) for line in lines if 'le="+Inf"' not in line}
        assert seen == {float(bound) for bound in bounds}, histogram


def test_a_catalogue_without_overlay_has_the_shipped_starting_points():
    slos = load_catalogue().slos
    assert [slo.id for slo in slos] == ["ttft", "tpot", "errors"]
    assert not any(slo.agreed for slo in slos)


FEW = pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["few", "all"])
"""Hours of a burning budget, evaluated every two minutes, take long."""


@needs_promtool
@FEW
def test_rules_of_narrow_scopes_and_of_counters_pass_their_unit_tests(few, tmp_path):
    """A tier with an objective of its own is left out of the common one."""
    catalogue = with_one_cause(
        tmp_path,
        PLAIN,
        {**PLAIN, "id": "ttft-a100", "target": 5, "tier": "a100-80", "model": "model-a"},
        {"id": "gold", "signal": "ttft", "percentile": 99, "target": 1, "tenant": {"customer": "gold"}},
        {"id": "router-errors", "signal": "router_error_share", "target": 0.01},
        {"id": "http", "signal": "http_error_ratio", "target": 0.01, "window": "28d"},
    )
    build_with_tests(catalogue, GeneratedLinks(), tmp_path / "out")
    tests = sorted((tmp_path / "out" / "tests").glob("slo-*_test.yaml"))
    limits = [path for path in tests if path.name.endswith("-limits_test.yaml")]
    assert len(tests) == 10 and len(limits) == 5
    named = [path for path in tests if path.name in ("slo-ttft-a100_test.yaml", "slo-http_test.yaml")]
    answer = promtool_test([named[0], limits[0]] if few else [*named, *limits])
    assert answer.count == (2 if few else 7) and answer.problems == []
    records = slo_records(catalogue.slos[0], catalogue)["model:inferdoc_slo_ttft_all:rate5m"]
    assert "\n  unless (" in records and 'tier="a100-80"' in records and "customer" not in records


@needs_promtool
@FEW
def test_an_objective_of_a_place_counts_no_other_place(few, tmp_path):
    """The generated tests have users elsewhere, with the same names, of whom most miss it."""
    catalogue = with_one_cause(
        tmp_path,
        PLAIN,
        {**PLAIN, "id": "ttft-eu", "target": 5, "cluster": "eu"},
        {"id": "errors-chat", "signal": "error_share", "target": 0.01, "cluster": "eu", "namespace": "chat"},
        {"id": "router-chat", "signal": "router_error_share", "target": 0.01, "namespace": "chat"},
    )
    build_with_tests(catalogue, GeneratedLinks(), tmp_path / "out")
    files = {path.name: path for path in (tmp_path / "out" / "tests").glob("slo-*_test.yaml")}
    asked = [files[f"slo-{name}_test.yaml"] for name in ("ttft-eu", "errors-chat", "router-chat")]
    answer = promtool_test(asked[1:2] if few else asked)
    assert answer.count == (1 if few else 3) and answer.problems == []
    for path, scope in zip(asked, ('cluster="eu"', 'cluster="eu",namespace="chat"', 'namespace="chat"'), strict=True):
        (slo,) = [slo for slo in catalogue.slos if path.name == f"slo-{slo.id}_test.yaml"]
        records = slo_records(slo, catalogue)
        name = f"model:inferdoc_slo_{slo.id.replace('-', '_')}_all:rate5m"
        assert all(part in records[name] for part in scope.split(",")), records[name]
    common = slo_records(catalogue.slos[0], catalogue)["model:inferdoc_slo_ttft_all:rate5m"]
    assert 'cluster="eu"' in common.split("unless")[1], "what is promised there is left out of the common one"


def test_objectives_share_one_rule_per_alert_which_names_them(tmp_path):
    catalogue = catalogue_of(tmp_path, PLAIN, {**PLAIN, "id": "ttft-a100", "target": 5, "tier": "a100-80"})
    parts = [rule for slo in watched(catalogue) for rule in slo_rules(slo, catalogue, GeneratedLinks())]
    rules = merged(parts)
    assert len(rules) == len({rule.name for rule in rules}) == len(parts) / 2
    (fast,) = [rule for rule in rules if rule.name == "InferdocSloBurnFast"]
    assert '"slo", "ttft", "", "")\nor\nlabel_replace(' in fast.expr and '"slo", "ttft-a100", "", "")' in fast.expr
    assert "slo" in fast.by and not fast.labels


def test_objectives_over_another_window_keep_their_own_limits(tmp_path):
    catalogue = catalogue_of(tmp_path, PLAIN, {**PLAIN, "id": "week", "tier": "a100-80", "window": "28d"})
    rules = merged(rule for slo in watched(catalogue) for rule in slo_rules(slo, catalogue, GeneratedLinks()))
    limits = [rule.annotations["description"] for rule in rules if rule.name == "InferdocSloBurnFast"]
    assert len(limits) == 2 and any("limit 14.4 over 1h" in text for text in limits)


def test_pages_look_at_two_minutes_and_at_what_was_usual(catalogue):
    """An outage, and latency out of the usual, need no window of an hour."""
    (ttft,) = [slo for slo in watched(catalogue) if slo.id == "ttft"]
    rules = {rule.name: rule for rule in slo_rules(ttft, catalogue, GeneratedLinks())}
    slower, outage = rules["InferdocSloSlower"], rules["InferdocSloOutage"]
    assert ", 1.3) * model:inferdoc_slo_ttft_mean:median30m" in slower.expr and "0.1 * 2.5" in slower.expr
    assert slower.severity == outage.severity == "critical" and (slower.for_, outage.for_) == ("2m", "1m")
    assert "bad:rate2m" in outage.expr
    records = slo_records(ttft, catalogue)
    assert ">= 50" in slower.expr, "growth of a mean of fewer events is chance"
    assert "> 4 * 2.5" in slower.expr and ">= 10" in records["model:inferdoc_slo_ttft_mean:rate2m"]


def test_an_objective_on_a_share_has_no_mean_to_grow(catalogue):
    (errors,) = [slo for slo in watched(catalogue) if slo.id == "errors"]
    names = {rule.name for rule in slo_rules(errors, catalogue, GeneratedLinks())}
    assert "InferdocSloOutage" in names and "InferdocSloSlower" not in names


def test_a_pod_pages_beside_its_model_and_what_counters_tell_stands_for_a_past(catalogue):
    """The mean over a model shows the wait on one of its pods late; after an install the counters are the only past."""
    (ttft,) = [slo for slo in watched(catalogue) if slo.id == "ttft"]
    (pod,) = [rule for rule in slo_rules(ttft, catalogue, GeneratedLinks()) if rule.name == "InferdocSloPodSlower"]
    assert pod.by == ("cluster", "namespace", "pod", "model_name") and pod.severity == "warning"
    assert pod.expr.startswith(f"max by ({', '.join(pod.by)})"), "the role of a pod may change with the fault"
    usual = slow_records(ttft, catalogue)["model:inferdoc_slo_ttft_mean:median30m"]
    past, known, figure = usual.index("[30m] offset 5m"), usual.index("seconds_sum offset 2m"), usual.index("+ 1.25")
    assert past < known < figure


def test_an_objective_on_what_routers_count_knows_no_pods(tmp_path):
    entry = {**PLAIN, "signal": "router_ttft"}
    catalogue = catalogue_of(tmp_path, entry, buckets={"llm_d_epp_request_ttft_seconds": [1, 2.5]})
    (slo,) = watched(catalogue)
    assert not [name for name in slo_records(slo, catalogue) if name.startswith("pod:")]
    names = {rule.name for rule in slo_rules(slo, catalogue, GeneratedLinks())}
    assert "InferdocSloSlower" in names and "InferdocSloPodSlower" not in names
