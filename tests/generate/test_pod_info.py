"""The info series of pods, evaluated by promtool: one per engine pod, whoever tells of it, and nobody at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from inferdoc.catalogue.record_names import INFO
from inferdoc.fleet.members import Assignment
from inferdoc.generate import promtool
from inferdoc.generate.pack import RECORDING
from inferdoc.generate.recorded import recorded
from tests.generate.conftest import GENERATED, needs_promtool

pytestmark = [pytest.mark.live, needs_promtool]
MODEL = "qwen/qwen3-30b"
H100, A100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
END = 40


def series(name: str, values: str = f"1x{END}", **labels: str) -> dict[str, str]:
    inside = ", ".join(f'{label}="{value}"' for label, value in labels.items())
    return {"series": f"{name}{{{inside}}}", "values": values}


def engine(pod: str, model: str = MODEL, values: str = f"4x{END}", **labels: str) -> dict[str, str]:
    return series("vllm:num_requests_running", values, namespace="llm", pod=pod, model_name=model, engine="0", **labels)


def gpu(card: str, pod: str = "", values: str = f"80x{END}", **labels: str) -> dict[str, str]:
    """As dcgm-exporter is scraped by kube-prometheus-stack: `pod` is its own."""
    owner = {"exported_namespace": "llm", "exported_pod": pod} if pod else {}
    own = {"namespace": "gpu-operator", "pod": "dcgm-exporter-x"}
    return series("DCGM_FI_DEV_GPU_UTIL", values, **{"gpu": "0", "modelName": card, **own, **owner, **labels})


def place(pod: str, node: str) -> dict[str, str]:
    return series("kube_pod_info", namespace="llm", pod=pod, node=node)


def info(pod: str, role: str, tier: str, model: str = MODEL, **labels: str) -> str:
    told = {**labels, "namespace": "llm", "pod": pod, "role": role, "tier": tier, "pool": f"{model}/{role}/{tier}"}
    if model:
        told["model_name"] = model
    return f"{INFO}{{{', '.join(f'{name}={value!r}' for name, value in sorted(told.items()))}}}".replace("'", '"')


CASES: dict[str, tuple[list[dict[str, str]], list[str]]] = {
    "two tiers and two roles without a label": (
        [
            *(engine(pod) for pod in ("fast-prefill-0", "fast-decode-0", "slow-prefill-0", "slow-decode-0")),
            *(gpu(H100, f"fast-{role}-0") for role in ("prefill", "decode")),
            *(gpu(A100, f"slow-{role}-0") for role in ("prefill", "decode")),
        ],
        [
            info("fast-prefill-0", "prefill", "h100-80"),
            info("fast-decode-0", "decode", "h100-80"),
            info("slow-prefill-0", "prefill", "a100-80"),
            info("slow-decode-0", "decode", "a100-80"),
        ],
    ),
    "nobody tells": ([engine("vllm-0")], [info("vllm-0", "both", "unknown")]),
    "two GPU models and two ranks in a pod": (
        [engine("vllm-0"), engine("vllm-0", instance="b"), gpu(A100, "vllm-0"), gpu(H100, "vllm-0", gpu="1")],
        [info("vllm-0", "both", "h100-80")],
    ),
    "the exporter names machines only": (
        [engine("vllm-0"), place("vllm-0", "n1"), place("other", "n1"), gpu(A100, Hostname="n1")],
        [info("vllm-0", "both", "a100-80")],
    ),
    "labels of nodes and of pods": (
        [
            engine("vllm-0"),
            place("vllm-0", "n1"),
            series("kube_node_labels", node="n1", label_nvidia_com_gpu_product="NVIDIA-H100-80GB-HBM3-SHARED"),
            series("kube_node_labels", node="n2"),
            series("kube_pod_labels", namespace="llm", pod="vllm-0", label_llm_d_ai_role="decode"),
            series("kube_pod_labels", namespace="llm", pod="web-0", label_llm_d_ai_role="decode"),
        ],
        [info("vllm-0", "decode", "h100-80")],
    ),
    "labels of the targets come before names and cards": (
        [engine("x-prefill-0", role="decode", tier="mine"), gpu(H100, "x-prefill-0")],
        [info("x-prefill-0", "decode", "mine")],
    ),
    "AMD": (
        [
            engine("vllm-0"),
            series("gpu_gfx_activity", card_series="AMD Instinct MI300X", namespace="llm", pod="vllm-0"),
        ],
        [info("vllm-0", "both", "mi300x")],
    ),
    "what pods do": (
        [
            *(engine(pod) for pod in ("a-0", "b-0", "c-0")),
            *(
                series(f"vllm:request_generation_tokens_{part}", f"0+{step}x{END}", namespace="llm", pod=pod)
                for pod, tokens in (("a-0", 60), ("b-0", 6000), ("c-0", 6000))
                for part, step in (("sum", tokens), ("count", 60))
            ),
            *(
                series("vllm:prompt_tokens_total", f"0+6000x{END}", namespace="llm", pod=pod, model_name=MODEL)
                for pod in ("b-0", "c-0")
            ),
            *(
                series(
                    "vllm:prompt_tokens_by_source_total",
                    f"0+{step}x{END}",
                    namespace="llm",
                    pod=pod,
                    model_name=MODEL,
                    source="local_compute",
                )
                for pod, step in (("b-0", 0), ("c-0", 6000))
            ),
        ],
        [info("a-0", "prefill", "unknown"), info("b-0", "decode", "unknown"), info("c-0", "both", "unknown")],
    ),
    "the exporter stopped, and so did the engine": (
        [engine("vllm-0", values="4x30"), gpu(H100, "vllm-0", values="80x20")],
        [info("vllm-0", "both", "h100-80")],
    ),
    "a pod moved to another machine": (
        [engine("vllm-0"), gpu(H100, "vllm-0", values="80x20"), gpu(A100, "vllm-0", values="_x21 80x19", gpu="1")],
        [info("vllm-0", "both", "a100-80")],
    ),
    "several models in a pod, and a model replaced": (
        [engine("a-0"), engine("a-0", "other"), engine("b-0", "old", values="4x10"), engine("b-0", values="_x20 4x20")],
        [info("a-0", "both", "unknown", model=""), info("b-0", "both", "unknown")],
    ),
    "a pod of the same name in another cluster": (
        [engine("vllm-0", cluster="eu"), engine("vllm-0", cluster="us"), gpu(H100, "vllm-0", cluster="eu")],
        [info("vllm-0", "both", "h100-80", cluster="eu"), info("vllm-0", "both", "unknown", cluster="us")],
    ),
}


def complaints(folder: Path, cases: dict[str, tuple[list[dict[str, str]], list[str]]], recording: str) -> list[str]:
    """What promtool has to say of cases, each a world of its own."""
    (folder / RECORDING).write_text(recording, "utf-8")
    tests = [
        {
            "name": name,
            "interval": "1m",
            "input_series": given,
            "promql_expr_test": [
                {"expr": INFO, "eval_time": f"{END - 1}m", "exp_samples": [{"labels": s, "value": 1} for s in wanted]}
            ],
        }
        for name, (given, wanted) in cases.items()
    ]
    path = folder / "info_test.yaml"
    document = {"rule_files": [RECORDING.name], "evaluation_interval": "1m", "tests": tests}
    path.write_text(yaml.dump(document, width=1000, Dumper=yaml.CSafeDumper), "utf-8")
    done = promtool._run("test", "rules", str(path))
    return [] if done.returncode == 0 else (done.stdout + done.stderr).splitlines()


def pods_alone(text: str) -> str:
    """The recording rules that the info series needs, without the signals."""
    document = yaml.load(text, yaml.CSafeLoader)
    group = document["groups"][0]
    names = [rule["record"] for rule in group["rules"]]
    return yaml.dump(
        {"groups": [{**group, "rules": group["rules"][: names.index(INFO) + 1]}]}, width=10_000, Dumper=yaml.CSafeDumper
    )


def test_every_engine_pod_has_one_info_series(tmp_path: Path) -> None:
    recording = pods_alone((GENERATED / RECORDING).read_text("utf-8"))
    assert complaints(tmp_path, CASES, recording) == []


def test_what_the_configuration_says_of_pods_counts_as_in_a_diagnosis(catalogue, tmp_path: Path) -> None:
    said = (Assignment("gold-.*", tier="b200-180"), Assignment("gold-.*|x-prefill-.*", role="decode"))
    rules = [{"record": name, "expr": text} for name, text in recorded(catalogue, said).records.pods.items()]
    recording = yaml.dump({"groups": [{"name": "pods", "rules": rules}]}, width=10_000, Dumper=yaml.CSafeDumper)
    given = [engine("gold-0"), gpu(H100, "gold-0"), engine("x-prefill-0", role="prefill"), engine("y-0")]
    wanted = [
        info("gold-0", "decode", "b200-180"),
        info("x-prefill-0", "prefill", "unknown"),
        info("y-0", "both", "unknown"),
    ]
    assert complaints(tmp_path, {"configured": (given, wanted)}, recording) == []
