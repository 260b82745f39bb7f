"""Two tiers and two roles under ordinary labels: recorded signals, comparisons and diagnosis keep them apart."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from inferdoc.fleet.members import resolve
from inferdoc.generate import promtool
from inferdoc.generate.pack import RECORDING, RULES
from inferdoc.generate.recorded import recorded
from inferdoc.source.open import open_source
from tests.cli.command import call
from tests.generate.conftest import GENERATED, needs_promtool

pytestmark = [pytest.mark.live, needs_promtool]
MODEL = "qwen"
CARDS = {"fast": "NVIDIA H100 80GB HBM3", "slow": "NVIDIA A100-SXM4-80GB"}
TIERS = {"fast": "h100-80", "slow": "a100-80"}
ITL = {"fast": 0.02, "slow": 0.08}
"""Seconds a token: the slow tier takes four times as long, which is no fault of any of its pods."""
PODS = [f"{speed}-{role}-{number}" for speed in CARDS for role in ("prefill", "decode") for number in range(3)]
SICK = "slow-decode-2"
END = 30
STREAMS = {"prefill": 2, "decode": 30}


def series(cards: bool, sick: bool) -> list[tuple[str, dict[str, str], float, bool]]:
    """Name, labels, value or growth a minute, whether it grows; as kube-prometheus-stack labels them."""
    found: list[tuple[str, dict[str, str], float, bool]] = []
    for pod in PODS:
        speed, role, _ = pod.split("-")
        scrape = {"namespace": "llm", "pod": pod, "job": "llm/vllm", "instance": f"{pod}:8000", "container": "vllm"}
        own = {**scrape, "model_name": MODEL, "engine": "0"}
        found.append(("up", scrape, 1, False))
        found.append(("vllm:num_requests_running", own, STREAMS[role], False))
        found.append(("vllm:generation_tokens_total", own, 6000, True))
        slow = ITL[speed] * (3 if sick and pod == SICK else 1)
        found.append(("vllm:inter_token_latency_seconds_count", own, 6000, True))
        found.append(("vllm:inter_token_latency_seconds_sum", own, 6000 * slow, True))
        if cards:
            owner = {"exported_namespace": "llm", "exported_pod": pod, "namespace": "gpu", "pod": "dcgm-exporter-x"}
            found.append(("DCGM_FI_DEV_GPU_UTIL", {**owner, "gpu": pod, "modelName": CARDS[speed]}, 80, False))
    return found


def results(expr: str, folder: Path, *, cards: bool = True, sick: bool = False) -> list[dict[str, str]]:
    """The label sets that an expression has at the end, over the generated recording rules."""
    files = [yaml.load((GENERATED / name).read_text("utf-8"), yaml.CSafeLoader) for name in (RECORDING, RULES)]
    every = [rule for file in files for group in file["groups"] for rule in group["rules"]]
    rules = [rule for rule in every if WANTED.match(rule.get("record", ""))]
    (folder / "rules.yaml").write_text(
        yaml.dump({"groups": [{"name": "x", "rules": rules}]}, Dumper=yaml.CSafeDumper), "utf-8"
    )
    given = [
        {"series": f"{name}{{{inside(labels)}}}", "values": f"0+{value}x{END}" if grows else f"{value}x{END}"}
        for name, labels, value, grows in series(cards, sick)
    ]
    check = {"expr": expr, "eval_time": f"{END - 1}m", "exp_samples": []}
    test = {"interval": "1m", "input_series": given, "promql_expr_test": [check]}
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (folder / "test.yaml").write_text(yaml.dump(document, width=10_000, Dumper=yaml.CSafeDumper), "utf-8")
    done = promtool._run("test", "rules", str(folder / "test.yaml"))
    got = (done.stdout + done.stderr).partition("got:")[2]
    assert done.returncode == 0 or got, done.stderr
    return [dict(re.findall(r'(\w+)=\\?"([^"\\]*)\\?"', labels)) for labels in re.findall(r"\{([^}]*)\}", got)]


WANTED = re.compile(
    r"pod:|instance:|engine:inferdoc_(itl_mean|running|generation_tokens_rate):|target:inferdoc_target_up"
)


def inside(labels: dict[str, str]) -> str:
    return ", ".join(f'{name}="{value}"' for name, value in labels.items())


def who(found: list[dict[str, str]]) -> set[tuple[str, str, str]]:
    return {(each["pod"], each["role"], each["tier"]) for each in found}


TRUE = {(pod, pod.split("-")[1], TIERS[pod.split("-")[0]]) for pod in PODS}


@pytest.mark.parametrize("name", ["engine:inferdoc_itl_mean:rate5m", "target:inferdoc_target_up:last"])
def test_recorded_signals_tell_tier_and_role(name: str, tmp_path: Path) -> None:
    found = results(name, tmp_path)
    assert len(found) == len(PODS) and who(found) == TRUE
    assert {each["model_name"] for each in found} == {MODEL}


def test_a_slower_tier_is_no_outlier_and_a_slow_pod_of_it_is(tmp_path: Path, catalogue) -> None:
    """The comparison that rules make with peers."""
    expr = f"engine:inferdoc_itl_mean:rate5m > 1.5 * {recorded(catalogue).peers('itl_mean')}"
    assert results(expr, tmp_path) == []
    assert who(results(expr, tmp_path, sick=True)) == {(SICK, "decode", "a100-80")}


def test_without_a_gpu_exporter_nothing_is_lost_and_roles_stay_apart(tmp_path: Path) -> None:
    for name in ("engine:inferdoc_running:avg5m", "target:inferdoc_target_up:last"):
        found = results(name, tmp_path, cards=False)
        assert who(found) == {(pod, role, "unknown") for pod, role, _ in TRUE} and len(found) == len(PODS)


def test_a_diagnosis_of_the_same_series_has_the_same_pools(tmp_path: Path, catalogue) -> None:
    lines, begin = [], 1_700_000_000
    for name, labels, value, grows in series(cards=True, sick=False):
        for minute in range(END):
            amount = value * minute if grows else value
            lines.append((name, f"{name}{{{inside(labels)}}} {amount:g} {begin + 60 * minute}"))
    raw = tmp_path / "same.om"
    raw.write_text("\n".join(line for _, line in sorted(lines, key=lambda each: each[0])) + "\n# EOF\n", "utf-8")
    store = tmp_path / "same.db"
    done = call("import", raw, "--store", store, "--lenient")
    assert done.code == 0, done.err
    source = open_source(store=store)
    try:
        frame = source.read(["running", "generation_tokens_rate", "gpu_util"], begin + 600, begin + 1500)
        members = resolve(frame, catalogue.tiers).members
    finally:
        source.close()
    assert {(member.pod, member.role, member.tier) for member in members} == TRUE
    assert len({member.pool for member in members}) == 4
