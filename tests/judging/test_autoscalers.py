"""Autoscalers that add nothing to an overloaded pool: the demand of a real fleet, with the page of an autoscaler."""

from __future__ import annotations

import gzip

import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.model import Finding
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store
from tests.conftest import ROOT

BEGIN, END = 1795332921, 1795333231
KNATIVE = 'job="knative",instance="10.0.0.9:9090",namespace="knative-serving",pod="autoscaler-0",{}="llm",{}="chat-1"'


def gauge(name: str, labels: str, value: float) -> str:
    samples = (f"{name}{{{labels}}} {value} {second}\n" for second in range(BEGIN, END, 5))
    return f"# TYPE {name} gauge\n" + "".join(samples)


KEDA = 'job="keda",instance="10.0.0.8:8080",exported_namespace="llm",namespace="keda",pod="keda-0",scaledObject="chat"'
PLANNER = 'job="planner",instance="10.0.0.5:9085",namespace="llm",pod="planner-0"'
OTEL = KNATIVE.format("k8s_namespace_name", "kn_revision_name")
PAGES = {
    "nothing": "",
    "keda-paused": gauge("keda_scaled_object_paused", KEDA, 1),
    "keda-runs": gauge("keda_scaled_object_paused", KEDA, 0),
    "dynamo-planner": gauge("dynamo_planner_predicted_num_decode_replicas", PLANNER, 4),
    "knative": gauge("kn_revision_pods_desired", OTEL, 4) + gauge("kn_revision_pods_count", OTEL, 4),
    "knative-1.18": gauge("autoscaler_desired_pods", KNATIVE.format("namespace_name", "revision_name"), 4),
    "knative-elsewhere": gauge("kn_revision_pods_desired", OTEL.replace('"llm"', '"other"'), 4),
}


@pytest.mark.parametrize(
    ("page", "cause"),
    [
        ("nothing", "demand-beyond-capacity"),
        ("keda-runs", "demand-beyond-capacity"),
        ("knative-elsewhere", "demand-beyond-capacity"),
        ("keda-paused", "autoscaler-blind"),
        ("dynamo-planner", "autoscaler-blind"),
        ("knative", "autoscaler-blind"),
        ("knative-1.18", "autoscaler-blind"),
    ],
)
def test_an_autoscaler_that_adds_nothing_is_the_cause(tmp_path, page, cause):
    assert first_finding(tmp_path, PAGES[page]).id == cause


def first_finding(tmp_path, page: str) -> Finding:
    text = gzip.decompress((ROOT / "fixtures/fleets/demand.om.gz").read_bytes()).decode().removesuffix("# EOF\n")
    file = tmp_path / "page.om"
    file.write_text(text + page + "# EOF\n")
    with Store.open(tmp_path / "page.db", "w") as store:
        import_file(store, file)
    return diagnose(open_source(store=tmp_path / "page.db"), from_=BEGIN - 3, until=END + 2).findings[0]


@pytest.mark.parametrize("result", ["timeout", "accept"])
def test_calls_that_fail_in_the_planner_of_dynamo_are_evidence(tmp_path, result):
    labels = f'{PLANNER},plugin_id="load",stage="propose",result="{result}"'
    calls = (f"dynamo_planner_plugin_evaluations_total{{{labels}}} {n} {BEGIN + 5 * n}\n" for n in range(62))
    page = PAGES["dynamo-planner"] + gauge("dynamo_planner_tick_timeout_total", PLANNER, 0).replace("gauge", "counter")
    found = first_finding(tmp_path, page + "# TYPE dynamo_planner_plugin_evaluations counter\n" + "".join(calls))
    assert found.id == "autoscaler-blind"
    assert ("scaler_errors" in {item.signal for item in found.evidence}) == (result == "timeout")


HPA = 'job="kube-state-metrics",instance="10.0.0.7:8080",exported_namespace="llm",horizontalpodautoscaler="chat"'


@pytest.mark.parametrize(("value", "is_below"), [(1, True), (3, False)])
def test_an_autoscaler_below_its_target_is_blind_to_a_queue_whatever_latencies_show(tmp_path, value, is_below):
    text = gzip.decompress((ROOT / "fixtures/fleets/demand.om.gz").read_bytes()).decode().removesuffix("# EOF\n")
    latencies = ("time_to_first_token", "queue_time", "e2e_request_latency", "inference_time", "inter_token")
    kept = [line for line in text.splitlines(keepends=True) if not any(name in line for name in latencies)]
    page = gauge("kube_horizontalpodautoscaler_status_desired_replicas", HPA, 4)
    page += gauge("kube_horizontalpodautoscaler_status_target_metric", HPA, value)
    page += gauge("kube_horizontalpodautoscaler_spec_target_metric", HPA, 2)
    file = tmp_path / "page.om"
    file.write_text("".join([*kept, page, "# EOF\n"]))
    with Store.open(tmp_path / "page.db", "w") as store:
        import_file(store, file)
    found = diagnose(open_source(store=tmp_path / "page.db"), from_=BEGIN - 3, until=END + 2).findings[0]
    assert found.id == "autoscaler-blind"
    assert is_below == any("hpa_target_share" in one.signal for one in found.evidence)
