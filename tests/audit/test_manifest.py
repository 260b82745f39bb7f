"""Manifests: what is read of them, and the states that stand on it."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.audit.declared import add_declared
from inferdoc.audit.manifest import Declared, read_manifests
from inferdoc.errors import InferdocError
from tests.audit.lab import doubts, standing, watched
from tests.audit.test_states_of_load import started
from tests.cli.command import alone, call, refused

__all__ = ["alone"]
POD = "chat-7d9f8c5b6d-bcx2d"
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat, namespace: llm}
spec:
  template:
    spec:
      terminationGracePeriodSeconds: 60
      containers:
        - {name: proxy, image: envoyproxy/envoy}
        - name: engine
          image: vllm/vllm-openai:v0.20.0
          command: [/bin/sh, -c]
          args:
            - |
              exec vllm serve Qwen/Qwen3-8B \\
                --max-num-batched-tokens=2000 --enable_lora \\
                --max-model-len 32768  # as the gateway allows
          livenessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 10, failureThreshold: 3}
          startupProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 10, failureThreshold: 60}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: chat, namespace: llm}
spec:
  scaleTargetRef: {kind: Deployment, name: chat}
  minReplicas: 1
  metrics:
    - {type: Pods, pods: {metric: {name: DCGM_FI_DEV_GPU_UTIL}, target: {averageValue: 80}}}
"""
WELL = {
    "image": "vllm/vllm-openai:v0.20.0",
    "--max-num-batched-tokens": "2048",
    "--shutdown-timeout": "90",
    "terminationGracePeriodSeconds": "120",
    "livenessProbe": "/v1/models",
    "startupProbe": "600",
    "--model": "Qwen/Qwen3-8B",
    "minReplicas": "1",
    "scaled by": "vllm:num_requests_waiting",
}
FLAGS = ("--shutdown-timeout", "cache_dtype")


def manifest(tmp_path, text: str) -> str:
    path = tmp_path / "chat.yaml"
    path.write_text(text, "utf-8")
    return str(path)


def read(tmp_path, text: str) -> Declared:
    (one,) = read_manifests([manifest(tmp_path, text)])
    return one


def standing_with(settings, **signals) -> list[str]:
    fleet = watched({POD: {"e2e_p99": 30.0, **signals}})
    assert add_declared(fleet, [Declared("llm", "chat", settings, "chat.yaml")], FLAGS) == []
    return standing(fleet)


def test_flags_probes_and_autoscaler_of_a_workload(tmp_path):
    one = read(tmp_path, DEPLOYMENT)
    assert (one.namespace, one.workload) == ("llm", "chat")
    assert one.settings == {
        "--max-num-batched-tokens": "2000",
        "--enable-lora": "True",
        "--max-model-len": "32768",
        "image": "vllm/vllm-openai:v0.20.0",
        "terminationGracePeriodSeconds": "60",
        "livenessProbe": "/health",
        "startupProbe": "600",
        "--model": "Qwen/Qwen3-8B",
        "minReplicas": "1",
        "scaled by": "DCGM_FI_DEV_GPU_UTIL",
    }


def test_arguments_as_a_list_and_what_a_pod_does_not_declare(tmp_path):
    text = """\
kind: List
items:
  - kind: StatefulSet
    metadata: {name: decode}
    spec:
      template:
        spec: {containers: [{image: my/vllm, args: [--model, m, "--kv-transfer-config", '{"a": 1}', --tp, "2"]}]}
  - kind: Service
    metadata: {name: decode}
"""
    one = read(tmp_path, text)
    assert one.settings["--kv-transfer-config"] == '{"a": 1}' and one.settings["--tp"] == "2"
    assert one.settings["terminationGracePeriodSeconds"] == "30" and one.settings["livenessProbe"] == "none"
    assert "startupProbe" not in one.settings


def test_a_scaled_object_scales_to_nothing_unless_it_declares_otherwise(tmp_path):
    text = """\
kind: ScaledObject
metadata: {name: chat}
spec:
  scaleTargetRef: {name: chat}
  triggers: [{type: prometheus, metadata: {query: "sum(vllm:num_requests_waiting)"}}]
"""
    settings = read(tmp_path, text).settings
    assert settings == {"minReplicas": "0", "scaled by": "sum(vllm:num_requests_waiting)"}


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        ({"--max-num-batched-tokens": "2000"}, "chunk-budget-odd"),
        ({"terminationGracePeriodSeconds": "30"}, "shutdown-kills-requests"),
        ({"--shutdown-timeout": None}, "shutdown-without-drain"),
        ({"--shutdown-timeout": "0"}, "shutdown-without-drain"),
        ({"livenessProbe": "/health"}, "liveness-blind-to-hangs"),
        ({"scaled by": "DCGM_FI_DEV_GPU_UTIL"}, "autoscaler-on-gpu-use"),
    ],
)
def test_one_thing_that_is_declared_wrong(changed, state):
    settings = {name: value for name, value in {**WELL, **changed}.items() if value is not None}
    assert standing_with(settings) == [state]
    assert standing_with(WELL) == []


def test_probes_and_floors_against_the_starts_that_were_seen():
    starts = started(5.0, 7.0, load_s=250.0)
    found = standing_with({**WELL, "startupProbe": "300", "minReplicas": "0"}, **starts)
    assert found == ["scale-from-zero", "startup-probe-short"]
    assert standing_with(WELL, **starts) == []
    assert standing_with({**WELL, "startupProbe": "300", "minReplicas": "0"}) == []


def test_without_a_manifest_nothing_is_reported_and_nothing_is_in_doubt():
    fleet = watched({POD: {"e2e_p99": np.full(961, 30.0)}})
    declared = {"chunk-budget-odd", "shutdown-kills-requests", "shutdown-without-drain", "liveness-blind-to-hangs"}
    assert not declared & {*standing(fleet), *doubts(fleet)}


def test_a_workload_without_pods_is_reported():
    warnings = add_declared(watched({POD: {}}), [Declared("llm", "other", WELL, "other.yaml")], FLAGS)
    assert warnings == ["--manifest other.yaml: no pod of other in the window"]
    assert add_declared(watched({POD: {}}), [Declared("elsewhere", "chat", WELL, "x.yaml")], FLAGS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Service\nmetadata: {name: chat}\n", "no workload with a vLLM container"),
        ("kind: [", "line 2: not YAML"),
        ("- 1\n- 2\n", "no workload with a vLLM container"),
        ("", "no workload with a vLLM container"),
        ("a: &a [*a]", "chat.yaml"),
    ],
)
def test_a_file_that_is_no_manifest_is_one_line(tmp_path, text, words):
    with pytest.raises(InferdocError) as caught:
        read_manifests([manifest(tmp_path, text)])
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_manifest_that_is_not_there(tmp_path, store_of):
    done = call("audit", "--store", store_of("control-steady"), "--manifest", tmp_path / "none.yaml")
    refused(done, 2, "--manifest", "none.yaml: No such file or directory")
