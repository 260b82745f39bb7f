"""Each target's own traps: handled, or refused with a clear message."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from plans import NOW, WORKDAYS, office_plan, plan, pool

from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.base import EmitOptions
from inferdoc.prewarm.emit.registry import emit
from inferdoc.prewarm.week import WeekWindow

SERVER = "http://prometheus.monitoring:9090"


def made(target: str, **asked: Any) -> list[dict[str, Any]]:
    return [o for o in yaml.safe_load_all(emit(office_plan(), target, EmitOptions(now=NOW, **asked))) if o]


def orders(target: str, **asked: Any) -> list[dict[str, str]]:
    """What the weekly jobs say, option by option."""
    found = []
    for obj in made(target, **asked):
        if obj["kind"] == "CronJob" and not obj["metadata"]["name"].endswith("-expiry"):
            words = obj["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["command"]
            assert words[:3] == ["inferdoc", "prewarm", "hold"]
            found.append(dict(word.split("=", 1) for word in words[3:] if "=" in word))
    return found


def refused(target: str, said: str, **asked: Any) -> None:
    with pytest.raises(InferdocError, match=said):
        emit(office_plan(), target, EmitOptions(now=NOW, **asked))


def test_a_forecast_trigger_fails_over_instead_of_scaling_in() -> None:
    (scaled,) = made("keda-prometheus", server=SERVER)
    (trigger,) = scaled["spec"]["triggers"]
    meta = trigger["metadata"]
    assert meta["ignoreNullValues"] == "false"
    assert meta["threshold"] == "1" and trigger["metricType"] == "AverageValue"
    assert meta["query"].startswith("max(") and "> time()" in meta["query"]
    assert scaled["spec"]["fallback"]["behavior"] == "currentReplicasIfHigher"
    refused("keda-prometheus", "needs --server")


def test_a_forecast_trigger_is_merged_into_an_existing_object() -> None:
    existing = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "so"},
        "spec": {
            "scaleTargetRef": {"name": "x"},
            "maxReplicaCount": 30,
            "triggers": [{"type": "cpu", "metadata": {"value": "60"}}],
        },
    }
    (scaled,) = made("keda-prometheus", server=SERVER, existing=existing)
    assert [t["type"] for t in scaled["spec"]["triggers"]] == ["cpu", "prometheus"]
    existing["spec"]["maxReplicaCount"] = 3  # type: ignore[index]
    refused("keda-prometheus", "maxReplicaCount of ScaledObject so is 3", server=SERVER, existing=existing)


def hpa_object(**changed: Any) -> dict[str, Any]:
    base = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "llama"},
        "spec": {"minReplicas": 2, "maxReplicas": 20},
        "status": {"currentReplicas": 3},
    }
    return {**base, **changed}


def test_an_hpa_patch_owns_one_field_only_and_is_idempotent() -> None:
    (first,) = made("hpa", existing=hpa_object())
    (second,) = made("hpa", existing=hpa_object())
    assert first == second
    assert list(first["spec"]) == ["minReplicas"]
    assert first["metadata"]["annotations"]["inferdoc.io/base-replicas"] == "2"


@pytest.mark.parametrize(
    ("existing", "said"),
    [
        (hpa_object(kind="Deployment"), "expected a HorizontalPodAutoscaler"),
        (
            hpa_object(metadata={"name": "keda-hpa-x", "ownerReferences": [{"kind": "ScaledObject"}]}),
            "belongs to ScaledObject",
        ),
        (hpa_object(metadata={"name": "x", "labels": {"scaledobject.keda.sh/name": "x"}}), "belongs to a ScaledObject"),
        (
            hpa_object(metadata={"name": "x", "ownerReferences": [{"kind": "InferenceService"}]}),
            "belongs to InferenceService",
        ),
        (hpa_object(spec={"maxReplicas": 5}), "maxReplicas 5, the plan wants 11"),
        (hpa_object(status={"currentReplicas": 0}), "is at 0 replicas and inactive"),
    ],
)
def test_an_hpa_that_would_undo_or_ignore_the_patch_is_refused(existing: dict[str, Any], said: str) -> None:
    refused("hpa", said, existing=existing)


def test_an_hpa_kept_in_git_is_told_how() -> None:
    kept = hpa_object(metadata={"name": "llama", "annotations": {"argocd.argoproj.io/tracking-id": "x"}})
    assert "ignore differences" in emit(office_plan(), "hpa", EmitOptions(now=NOW, existing=kept))


def test_a_floor_of_zero_is_refused_where_the_kind_cannot_hold_it() -> None:
    zero = plan(pool(WeekWindow(WORKDAYS, 480, 600, 4), base=0))
    for target in ("cronjob", "kserve"):
        with pytest.raises(InferdocError, match="no floor below 1"):
            emit(zero, target, EmitOptions(now=NOW))


def test_kserve_patches_the_service_and_refuses_what_overrides_it() -> None:
    assert {said["--target"] for said in orders("kserve")} == {"kserve"}
    service = {"kind": "InferenceService", "metadata": {"name": "llama"}}
    assert made("kserve", existing=service)
    for key, value, said in [
        ("serving.kserve.io/stop", "true", "overrides any floor"),
        ("serving.kserve.io/autoscalerClass", "external", "does not act on minReplicas"),
    ]:
        refused("kserve", said, existing={**service, "metadata": {"name": "x", "annotations": {key: value}}})
    refused("kserve", "expected a InferenceService", existing={"kind": "Pod"})
    refused("kserve", "give the object with --existing", kind="LLMInferenceService")


def llm_service(scaling: Any) -> dict[str, Any]:
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": "llama", "resourceVersion": "4"},
        "spec": {"scaling": scaling},
    }


def test_an_llm_service_keeps_its_other_triggers() -> None:
    keda = {"maxReplicas": 20, "keda": {"triggers": [{"type": "prometheus", "metadata": {"query": "q"}}]}}
    service = made("kserve", existing=llm_service(keda))[0]
    types = [t["type"] for t in service["spec"]["scaling"]["keda"]["triggers"]]
    assert types[0] == "prometheus" and types[1:] == ["cron"] * 3
    assert "resourceVersion" not in service["metadata"]


def test_an_llm_service_under_wva_gets_its_floor_patched() -> None:
    found = orders("kserve", existing=llm_service({"maxReplicas": 20, "wva": {"variantCost": "1"}}))
    assert {said["--target"] for said in found} == {"llm-service"}


@pytest.mark.parametrize(
    ("scaling", "said"),
    [
        (None, "with `replicas` alone nothing scales it"),
        ({"maxReplicas": 20}, "holds neither keda nor wva"),
        ({"maxReplicas": 4, "keda": {"triggers": []}}, "maxReplicas 4, the plan wants 11"),
    ],
)
def test_an_llm_service_that_cannot_hold_the_plan_is_refused(scaling: Any, said: str) -> None:
    refused("kserve", said, existing=llm_service(scaling))


def test_prefill_and_decode_have_their_own_floor() -> None:
    service = llm_service({"maxReplicas": 20, "keda": {"triggers": [{"type": "cpu", "metadata": {}}]}})
    service["spec"]["prefill"] = {
        "scaling": {"maxReplicas": 20, "keda": {"triggers": [{"type": "cpu", "metadata": {}}]}}
    }
    text = emit(office_plan(role="prefill"), "kserve", EmitOptions(now=NOW, existing=service))
    spec = next(yaml.safe_load_all(text))["spec"]
    assert len(spec["prefill"]["scaling"]["keda"]["triggers"]) == 4
    assert len(spec["scaling"]["keda"]["triggers"]) == 1


def test_wva_sets_the_maximum_with_the_floor() -> None:
    assert {said["--max"] for said in orders("wva")} == {"20"}
    refused(
        "wva", "maxReplicas 2, the plan wants 11", existing={"kind": "VariantAutoscaling", "spec": {"maxReplicas": 2}}
    )
    old = {"kind": "CustomResourceDefinition", "spec": {"versions": [{"schema": {"properties": {"modelID": {}}}}]}}
    refused("wva", "has no minReplicas", existing=old)


def test_leader_worker_sets_count_groups_rounded_up_and_say_the_gpus() -> None:
    found = orders("lws", per_group=4)
    assert {said["--floor"] for said in found} == {"1", "2", "3"} and {said["--levels"] for said in found} == {"1,2,3"}
    text = emit(office_plan(), "lws", EmitOptions(now=NOW, per_group=4, pods_per_group=2, gpus_per_pod=8))
    assert "3 groups x 2 pods = 6 pods, 48 GPUs" in text
    (role,) = [o for o in made("lws") if o["kind"] == "Role"]
    assert role["rules"][0]["resources"] == ["leaderworkersets/scale"]


def test_a_deployment_is_scaled_only_through_its_scale() -> None:
    (role,) = [o for o in made("cronjob", kind="Deployment") if o["kind"] == "Role"]
    assert role["rules"][0]["resources"] == ["deployments/scale"]
    text = emit(office_plan(), "cronjob", EmitOptions(now=NOW, kind="Deployment"))
    assert "--target=deployment" in text and "without any autoscaler" in text


def test_crontab_lines_are_in_the_hosts_zone_for_each_offset() -> None:
    text = emit(office_plan(), "crontab", EmitOptions(now=NOW))
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert any(line.startswith("30 6 ") for line in lines) and any(line.startswith("30 5 ") for line in lines)
    assert "TZ=" not in text and "CRON_TZ" not in text
    assert all("prewarm apply" in line and "--yes" in line for line in lines)
    own = emit(office_plan(), "crontab", EmitOptions(now=NOW, host_zone="Europe/Berlin"))
    assert "\n30 7 * * 1-5 " in own
    refused("crontab", "the clock of America/New_York changes", host_zone="America/New_York")


def test_a_percent_sign_is_escaped_in_crontab_and_systemd() -> None:
    odd = EmitOptions(now=NOW, plan_path="/etc/a%b/plan.json")
    assert r"/etc/a\%b/plan.json" in emit(office_plan(), "crontab", odd)
    assert "/etc/a%%b/plan.json" in emit(office_plan(), "systemd", odd)


def test_systemd_timers_carry_the_zone_and_catch_up() -> None:
    text = emit(office_plan(), "systemd", EmitOptions(now=NOW))
    assert "OnCalendar=Mon,Tue,Wed,Thu,Fri *-*-* 07:30:00 Europe/Berlin" in text
    assert "Persistent=true" in text and "AccuracySec=1s" in text


def test_a_constant_plan_is_no_schedule() -> None:
    constant = plan(pool(base=3))
    for target in ("keda-cron", "cronjob"):
        with pytest.raises(InferdocError, match="constant 3"):
            emit(constant, target, EmitOptions(now=NOW))


def test_the_nightly_job_plans_and_applies_with_narrow_rights() -> None:
    found = made("daily", server=SERVER, image="registry.example/inferdoc:1")
    jobs = {o["metadata"]["name"]: o for o in found if o["kind"] == "CronJob"}
    assert set(jobs) == {"prewarm-llama-plan", "prewarm-llama-apply"}
    (role,) = [o for o in found if o["kind"] == "Role"]
    assert role["rules"][0]["resourceNames"] == ["llama"]
    refused("daily", "needs --server")


def test_every_command_line_that_is_written_is_one_that_inferdoc_takes() -> None:
    import shlex

    from inferdoc.cli.prewarm import command

    lines = []
    for job in [
        *made("daily", server=SERVER),
        *made("cronjob"),
        *made("cronjob", kind="Deployment"),
        *made("keda-cron"),
    ]:
        if job["kind"] == "CronJob":
            pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
            found = [box["command"] for box in [*pod.get("initContainers", ()), *pod["containers"]]]
            lines += [words for words in found if words[0] != "kubectl"]
    text = emit(office_plan(), "crontab", EmitOptions(now=NOW))
    lines.append(shlex.split(text.splitlines()[-1])[5:])
    timer = emit(office_plan(), "systemd", EmitOptions(now=NOW))
    lines.append(
        shlex.split(next(x for x in timer.splitlines() if x.startswith("ExecStart=")).removeprefix("ExecStart="))
    )
    for words in lines:
        assert words[:2] == ["inferdoc", "prewarm"]
        name, rest = words[2], words[3:]
        context = command.commands[name].make_context(name, list(rest))
        assert context.params
