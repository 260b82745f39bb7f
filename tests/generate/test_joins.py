"""Joins of rules: what can never match is not built, and nothing of the pack is refused."""

from __future__ import annotations

import pytest
import yaml

from inferdoc.catalogue.load import load_catalogue
from inferdoc.errors import InferdocError
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.pack import RECORDING, RULES, build_pack
from inferdoc.generate.promql_labels import carried, declared, join_problems
from tests.conftest import ROOT

IMPOSSIBLE = [
    ("llm_d_epp_request_total and on (pod) vllm:num_requests_running", "pod names another thing on each side"),
    ("sum by (namespace) (up) > on (namespace, pod) vllm:num_requests_running", "the left side does not carry pod"),
    ("vllm:num_requests_running * on (pod) group_left (gpu) up", "the side that should bring it does not carry it"),
    ("sum by (pod) (vllm:kv_cache_usage_perc) > sum by (pod, engine) (vllm:kv_cache_usage_perc)", "left side"),
    ("vllm:num_requests_running unless on (instance) DCGM_FI_DEV_GPU_UTIL", "instance names another thing"),
    ("sum without (engine) (vllm:num_requests_running) and on (engine) vllm:num_requests_waiting", "carry engine"),
]
POSSIBLE = [
    "vllm:num_requests_running and on (cluster, namespace, pod) DCGM_FI_DEV_GPU_UTIL",
    "up == 1 and on (job, instance) vllm:num_requests_running",
    "sum by (model_name) (rate(vllm:request_success_total[5m])) > 2 * sum by (model_name) (llm_d_epp_request_total)",
    'label_replace(up, "gpu", "$1", "instance", "(.*)") and on (gpu) DCGM_FI_DEV_GPU_UTIL{gpu="0"}',
    "(sum by (pod, gpu) (DCGM_FI_DEV_GPU_UTIL) or sum by (pod) (up)) and sum by (pod) (up)",
    "sum by (pod) (up) > on () group_left () vector(1)",
    "histogram_quantile(0.9, sum by (le, pod) (rate(vllm:time_to_first_token_seconds_bucket[5m]))) > sum by (pod) (up)",
    "max_over_time(up[1h:5m] offset -1m) > ignoring (job) up @ 3",
    "something_of_others and on (whatever) up",
]


@pytest.mark.parametrize(("expr", "why"), IMPOSSIBLE)
def test_a_join_that_can_never_match_is_told(expr: str, why: str, catalogue):
    (problem, *_) = join_problems([{"alert": "X", "expr": expr}], catalogue)
    assert problem.startswith("X: ") and why in problem and problem.endswith("it can never match")


@pytest.mark.parametrize("expr", POSSIBLE)
def test_a_join_that_may_match_is_not(expr: str, catalogue):
    assert list(join_problems([{"alert": "X", "expr": expr}], catalogue)) == []


def test_labels_of_a_record_are_those_of_its_expression(catalogue):
    rules = [
        {"record": "pod:x:sum", "expr": "sum by (namespace, pod) (vllm:num_requests_running)"},
        {"alert": "X", "expr": "pod:x:sum and on (namespace, engine) vllm:num_requests_running"},
    ]
    assert list(join_problems(rules, catalogue)) == [
        "X: on (namespace, engine): the left side does not carry engine: it can never match"
    ]
    assert set(carried("pod:x:sum * 2", {"pod:x:sum": {"pod": frozenset()}}.get)[0]) == {"pod"}


def test_the_pack_can_be_read_and_has_none(catalogue):
    folder = ROOT / "alerts" / "generated"
    documents = [yaml.load((folder / name).read_text("utf-8"), yaml.CSafeLoader) for name in (RECORDING, RULES)]
    rules = [rule for document in documents for group in document["groups"] for rule in group["rules"]]
    assert list(join_problems(rules, catalogue)) == []
    known = declared(catalogue)
    read = [rule["record"] for rule in rules if "record" in rule and carried(rule["expr"], known.get)[0] is None]
    assert len(read) < len(rules), "raw series at least are known"


def test_an_alert_with_an_impossible_join_does_not_build(tmp_path):
    """In an overlay of one's own, in one line that says which and why."""
    text = (ROOT / "alerts" / "operational.yaml").read_text("utf-8")
    (tmp_path / "alerts").mkdir()
    right, label = "== 1 and on (cluster, namespace, job, instance) seen)", "model_name"
    wrong = text.replace(right, f"== 1 and on ({label}) vllm:num_requests_running)")
    assert wrong != text
    (tmp_path / "alerts" / "operational.yaml").write_text(wrong, "utf-8")
    with pytest.raises(InferdocError) as told:
        build_pack(load_catalogue((tmp_path,)), GeneratedLinks())
    why = "on (model_name): the left side does not carry model_name: it can never match"
    assert str(told.value) == f"alerts: InferdocMetricAbsent: {why}"
