"""The alert pack: complete, as committed, well formed, and by the conventions that alerts need to route and resolve."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
import yaml

from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.catalogue.recipe import Alert
from inferdoc.catalogue.signal import WIDE
from inferdoc.errors import CatalogueError, InferdocError
from inferdoc.generate import promtool
from inferdoc.generate.alerts import ALERTMANAGER, set_objects
from inferdoc.generate.cause_rules import AlertRule, alert_name, cause_rule, first_leaf
from inferdoc.generate.document import write, yaml_text
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.pack import RECORDING, RULES, pack_problems
from inferdoc.generate.recorded import recorded
from inferdoc_dev.rule_tests.pack_tests import files_with_tests
from tests.generate.conftest import GENERATED, needs_promtool

NEWER = ("limitk", "limit_ratio", "info(", "mad_over_time", "sort_by_label", "double_exponential", "ts_of_")
"""What Prometheus 2.42 does not know."""
SHORT_ALONE = re.compile(r"(?<![a-z_])(rate|increase)\([^)]*\[(?:30s|1m)\](?!\) or \1\()")
"""A window of a minute or less with nothing to fall back on: it is empty where scrapes are a minute apart."""


def test_the_committed_files_are_what_the_declarations_give(tmp_path):
    (tmp_path / "alerts").mkdir()  # an empty overlay: nothing that was cached before is used
    catalogue, links = load_catalogue((tmp_path,)), GeneratedLinks()
    files, _ = files_with_tests(catalogue, links)
    assert write({**files, **set_objects(catalogue, links)}, GENERATED, check=True) == [], "run make generate"


def test_every_cause_has_a_rule_or_says_why_not(catalogue, pack):
    named = {rule.cause for rule in pack.rules if rule.name == alert_name(rule.cause)}
    assert named | set(pack.none) == set(catalogue.recipes)
    assert not named & set(pack.none)
    assert all(pack.none.values())


@needs_promtool
def test_promtool_finds_nothing():
    answer = promtool.check([GENERATED / RECORDING, GENERATED / RULES])
    assert answer.problems == [] and answer.count > 150


def test_labels_are_constant_and_severities_known(rules):
    for rule in rules:
        assert rule["labels"]["severity"] in ("critical", "warning", "info", "none"), rule["alert"]
        assert rule["labels"]["component"] == "inferdoc"
        assert not any("{{" in value for value in rule["labels"].values()), rule["alert"]


def test_only_what_users_feel_is_critical(rules):
    """A cause is a ticket: who wakes for it would have been woken by its victims."""
    assert list(pack_problems(rules)) == []
    kinds = {rule["alert"]: rule["labels"]["kind"] for rule in rules}
    assert kinds["InferdocEngineDown"] == "symptom" and kinds["InferdocKvPreemptionThrash"] == "cause"
    assert kinds["InferdocWatchdog"] == "monitoring"


def test_a_critical_cause_and_an_alert_about_nothing_are_refused():
    critical = {"alert": "A", "labels": {"severity": "critical", "kind": "cause"}}
    nameless = {"alert": "B", "labels": {"severity": "warning"}}
    assert [line.partition(":")[0] for line in pack_problems([critical, nameless])] == ["A", "B"]


def test_a_label_in_an_annotation_is_one_that_the_series_keep(pack, catalogue):
    for rule in pack.rules:
        used = set(re.findall(r"\$labels\.(\w+)", str(rule.annotations)))
        recipe = catalogue.recipes.get(rule.cause)
        above = recipe is not None and catalogue.signals[str(first_leaf(recipe).signal)].level in WIDE
        if rule.by:
            assert used <= set(rule.by), rule.name
            assert {"cluster", "namespace"} <= set(rule.by), rule.name
            assert above or {"pod", "model_name"} & set(rule.by), rule.name


def test_names_tell_the_cause(rules):
    assert alert_name("kv-preemption-thrash") == "InferdocKvPreemptionThrash"
    assert all(re.fullmatch(r"Inferdoc[A-Z]\w+", rule["alert"]) for rule in rules)


def test_expressions_are_of_the_dialect_and_avoid_known_traps(rules, records):
    for name, expr in [*((rule["alert"], rule["expr"]) for rule in rules), *records.items()]:
        assert not any(word in expr for word in NEWER), name
        assert "absent(" not in expr and "topk" not in expr, name
        assert "query_offset" not in expr and "$" not in expr.replace('"$1"', ""), name
        assert not SHORT_ALONE.search(expr), f"{name}: window too short"


def test_recorded_names_have_level_metric_and_operation(records):
    for name in records:
        assert re.fullmatch(
            r"(engine|target|pod|gpu|model|instance|router|tenant|namespace):inferdoc_[a-z0-9_]+:[a-z0-9_]+", name
        ), name


def test_what_rules_read_is_recorded(rules, records):
    for expr in [*(rule["expr"] for rule in rules), *records.values()]:
        for name in promtool.NAME.findall(expr):
            assert name in records, name


def test_a_usual_value_needs_a_history(records):
    usual = {name: expr for name, expr in records.items() if ":median6h" in name}
    assert usual
    for name, expr in usual.items():
        own = re.sub(r"\n +", "\n", expr.removeprefix("(\n  ")).split("\nor ")[0]
        assert re.search(r"\[6h:5m\] offset 1h\)+\nand [a-z]+:inferdoc_\w+:\w+ offset 2h$", own), name


def test_a_new_pod_is_held_against_its_own_short_past_then_its_pool_then_its_peers(records):
    """Pod names change with every rollout: what was usual must survive them."""
    expr = records["engine:inferdoc_itl_mean:median6h"]
    own, short, shared = expr.split("\nor ")
    assert "[6h:5m] offset 1h" in own and "[30m] offset 10m" in short
    pool, peers, stand_in = shared.split("\n  or ")
    assert "quantile by (cluster, namespace, model_name, role, tier)" in pool
    assert peers == "model:inferdoc_itl_mean:middle < Inf"
    assert stand_in.startswith(
        "0 * group by (cluster, namespace, model_name, role, tier) (engine:inferdoc_itl_mean:rate5m)"
    )


def test_a_short_past_that_began_with_the_fault_does_not_count(records):
    """Beyond the figure that stands for a healthy service, or beyond what its peers show."""
    short = records["engine:inferdoc_itl_mean:median6h"].split("\nor ")[1]
    assert " <= 0.1\n<= on " in short and "group_left () (1.25 * model:inferdoc_itl_mean:middle)" in short


def test_rates_of_a_young_pod_wait_until_their_window_is_full(records):
    """They read too low before; means and shares do not."""
    rate, mean = (records[f"engine:inferdoc_{name}:median6h"] for name in ("request_rate", "itl_mean"))
    assert "and engine:inferdoc_request_rate:rate5m offset 25m" in rate and "offset 25m" not in mean


def test_ill_peers_show_nothing_usual(records):
    peers = records["model:inferdoc_itl_mean:middle"]
    told, none = peers.split("\nor ")
    assert " <= 0.1\nand count by " in told and told.endswith(">= 3")
    assert none.endswith(" + Inf"), "no short past lies beyond what nobody shows"


def test_a_signal_of_the_workload_has_no_figure_in_place_of_its_past(records):
    assert "+ on (" in records["engine:inferdoc_arrival_rate:median6h"].split("\nor ")[-1]


def test_a_signal_is_read_by_what_the_exporter_has(records):
    """A queue that is not split by reason, and a router under its former name."""
    queue = records["engine:inferdoc_waiting_capacity:avg5m"]
    assert queue.index("waiting_by_reason") < queue.index("avg_over_time(vllm:num_requests_waiting[5m])")
    assert "inference_objective_request_total" in records["router:inferdoc_router_gets_requests:holds"]


def test_what_only_engines_show_is_said_once(records):
    """Pods that exporters tell of beside the engines have no info series: what is told of them stands without it."""
    engines, all_ = (
        records[f"target:inferdoc_{name}"] for name in ("http_arrival_rate:rate5m", "restarts_total:avg5m")
    )
    assert engines.count("rate(http_requests_total") == 1
    assert all_.count("kube_pod_container_status_restarts_total") == 2


def test_gpus_are_told_apart_by_what_their_exporter_calls_them(records):
    gpus = {name: text for name, text in records.items() if name.startswith("gpu:")}
    amd = [text for text in gpus.values() if "(gpu_" in text]
    assert amd
    for text in amd:
        for label, own in (("gpu", "gpu_id"), ("modelName", "card_model")):
            assert f'"{label}", "$1", "{own}", "(.+)")' in text


def test_quotients_by_zero_are_no_value(records):
    for name, expr in records.items():
        for below in re.findall(r"/ (\S+(?: by \([^)]*\))?)", expr):
            assert below.startswith(("(", "clamp_min", "on")), f"{name}: divides by {below}"


def test_unlike_roles_are_left_out_by_label(rules):
    by_name = {rule["alert"]: rule["expr"] for rule in rules}
    assert 'role!="prefill"' in by_name["InferdocKvTransferBacklog"]
    assert 'role!="decode"' in by_name["InferdocKvLeaseExpiry"]
    assert "role" not in by_name["InferdocEngineDown"].replace("(cluster, namespace, pod)", "")


def test_clauses_of_unlike_levels_are_joined_on_what_both_have(rules):
    expr = next(rule["expr"] for rule in rules if rule["alert"] == "InferdocEpHotExpert")
    assert "or on (cluster, namespace, pod) gpu:" in expr and "unless on (cluster, namespace, pod) engine:" in expr


def test_a_cause_of_pools_counts_its_members(rules):
    expr = next(rule["expr"] for rule in rules if rule["alert"] == "InferdocDemandBeyondCapacity")
    assert expr.startswith("count by (cluster, namespace, model_name, role, tier) (")
    assert ">= 0.6 * count by (cluster, namespace, model_name, role, tier) (" in expr


def test_alerts_join_observations_of_the_same_instant(pack):
    """An observation stands once, before its alerts and in their group; it can be read at 3 a.m."""
    for group in yaml.load(pack.files[RULES], yaml.CSafeLoader)["groups"]:
        kinds = ["record" in rule for rule in group["rules"]]
        assert kinds == sorted(kinds, reverse=True), f"{group['name']}: an alert stands before what it may join"
    assert pack.files[RULES].count("record: engine:inferdoc_tokens_slow:holds\n") == 1
    named = {rule.name: re.sub(r'__name__=~"[^"]*"', "", rule.expr) for rule in pack.rules}
    of_objectives = [expr.count("label_replace(") for expr in named.values() if '"slo", "' in expr]
    assert max(of_objectives) == 3, "one part for each objective"
    longest = max(len(expr) / max(1, expr.count('"slo", "')) for expr in named.values())
    assert longest < 3200, "a queue is read under the name that each of the engines gives it"
    assert "engine:inferdoc_tokens_slow:holds" in named["InferdocSlowGpu"]


def test_links_follow_the_configuration(catalogue):
    links = GeneratedLinks("https://wiki.example/pages/", "https://grafana.example/d/inferdoc-fleet")
    rule = cause_rule(catalogue.recipes["engine-down"], catalogue, recorded(catalogue), links)
    assert isinstance(rule, AlertRule)
    assert rule.annotations["runbook_url"] == "https://wiki.example/pages/engine-down"
    assert rule.annotations["dashboard_url"] == (
        "https://grafana.example/d/inferdoc-fleet?var-cluster={{ $labels.cluster | urlquery }}"
        "&var-namespace={{ $labels.namespace | urlquery }}&var-pod={{ $labels.pod | urlquery }}"
    )


def test_a_cause_with_a_rule_of_its_own_keeps_it_and_brings_its_test(catalogue, tmp_path):
    recipe = catalogue.recipes["engine-down"]
    own = Alert(for_="1m", expr="up == 0")
    rule = cause_rule(_with(recipe, own), catalogue, recorded(catalogue), GeneratedLinks())
    assert isinstance(rule, AlertRule) and rule.expr == "up == 0" and rule.for_ == "1m"


def test_a_cause_that_no_rule_can_tell_says_of_which_signal(catalogue):
    recipe = catalogue.recipes["telemetry-artifact"]
    answer = cause_rule(_with(recipe, Alert()), catalogue, recorded(catalogue), GeneratedLinks())
    assert answer == "PromQL cannot express its condition on duplicate_targets, generation_tokens_rate, missing_scrapes"


def test_alertmanager_configuration_is_part_of_the_files():
    assert (GENERATED / ALERTMANAGER).is_file()


def test_stale_generated_files_go_and_foreign_ones_stay(tmp_path):
    files = {Path("rules.yaml"): yaml_text({"groups": []}, "Rules.")}
    (tmp_path / "tests").mkdir()
    stale, foreign = tmp_path / "tests" / "gone_test.yaml", tmp_path / "mine.yaml"
    stale.write_text(yaml_text({}, "A test."), "utf-8")
    foreign.write_text("a: 1\n", "utf-8")
    assert write(files, tmp_path, check=True) == [
        f"{tmp_path / 'rules.yaml'}: missing",
        f"{stale}: no longer generated",
    ]
    assert stale.is_file()
    write(files, tmp_path)
    assert not stale.exists() and foreign.read_text("utf-8") == "a: 1\n"
    assert write(files, tmp_path) == []
    (tmp_path / "rules.yaml").write_text("changed", "utf-8")
    assert write(files, tmp_path, check=True) == [f"{tmp_path / 'rules.yaml'}: out of date"]


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("", "utf-8")
    with pytest.raises(InferdocError, match="cannot be written"):
        write({Path("rules.yaml"): "x"}, blocked / "below")


def test_a_missing_declaration_of_objectives_is_one_line(monkeypatch):
    monkeypatch.setattr("inferdoc.catalogue.slo_file.content_file", lambda *_: None)
    with pytest.raises(CatalogueError, match=r"alerts/slo\.yaml: not found"):
        _ = Catalogue().slos


def _with(recipe, alert):
    return msgspec.structs.replace(recipe, alert=alert)
