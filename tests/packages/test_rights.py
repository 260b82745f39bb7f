"""The rights of prewarm jobs, proven minimal: the real kubectl makes the calls of the real code against an API server
that keeps them; each is allowed by a rule, and each verb of a rule is needed by a call."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import inferdoc
from inferdoc.catalogue.load import load_catalogue
from inferdoc.cli.prewarm import command
from inferdoc.cluster.evidence import kubectl
from inferdoc.cluster.pods import facts_of
from inferdoc.prewarm.emit.base import EmitOptions
from inferdoc.prewarm.emit.kinds import PATCH_TARGETS, SCALED_OBJECT, PatchTarget, put
from inferdoc.prewarm.emit.registry import emit
from inferdoc.prewarm.plan import to_json
from tests.packages.api_server import ApiServer, Asked, serving
from tests.packages.built import build, one, program, rendered
from tests.prewarm.plans import NOW, office_plan

NOON, NIGHT, LATER = "2026-02-23T11:30:00Z", "2026-02-24T03:00:00Z", "2026-03-20T00:00:00Z"
"""The floor is 11, it is 2, the plan is stale."""
OBJECTS = [
    {"pool": "llama", "target": target, "name": f"llama-{target}", "namespace": "llm"}
    for target in (*build.PATCHED, "keda-cron")
]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """An API server, and a kubectl on the PATH that asks it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(program("kubectl"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "plan.json").write_text(to_json(office_plan()))
    with serving(tmp_path) as (server, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        yield server


def stands(cluster: ApiServer, aim: PatchTarget, name: str) -> None:
    obj: dict[str, Any] = {"kind": aim.kind, "metadata": {"name": name, "namespace": "llm", "resourceVersion": "7"}}
    put(obj, aim.field, 2)
    put(obj, ("spec", "maxReplicas"), 20)
    cluster.put(aim.group, aim.resource, obj)


def scaled(cluster: ApiServer, name: str) -> None:
    """A ScaledObject of the user's."""
    metric = {"type": "prometheus", "metadata": {"serverAddress": "http://p", "query": "q", "threshold": "5"}}
    spec = {"scaleTargetRef": {"name": name}, "minReplicaCount": 1, "maxReplicaCount": 40, "triggers": [metric]}
    put_scaled(cluster, {"kind": "ScaledObject", "metadata": {"name": name, "namespace": "llm"}, "spec": spec})


def put_scaled(cluster: ApiServer, obj: dict[str, Any]) -> None:
    cluster.put(SCALED_OBJECT.group, SCALED_OBJECT.resource, obj)


def runs(folder: Path, job: dict[str, Any], now: str) -> None:
    """The command of a job of the chart, at a time, with its files in this folder."""
    words = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"]
    place = words.index("apply")
    words = [word.replace("/var/lib/inferdoc", str(folder)) for word in words[place:]]
    done = CliRunner().invoke(command, [*words, "--now", now])
    assert done.exception is None or now == LATER, done.output


def allows(role: dict[str, Any], asked: Asked) -> bool:
    """Whether a Role lets a request through, as the API server judges it."""
    return asked.namespace == role["metadata"]["namespace"] and any(
        asked.group in rule["apiGroups"]
        and asked.resource in rule["resources"]
        and asked.verb in rule["verbs"]
        and asked.name in rule["resourceNames"]
        for rule in role["rules"]
    )


def granted(role: dict[str, Any]) -> set[Asked]:
    """Everything that a Role lets through."""
    return {
        Asked(verb, group, resource, role["metadata"]["namespace"], name)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule["resourceNames"]
    }


@pytest.fixture(scope="module")
def chart() -> list[dict[str, Any]]:
    return rendered({"prewarm": {"enabled": True, "objects": OBJECTS}})


def of_target(chart: list[dict[str, Any]], target: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Role and CronJob that the chart makes for a target."""
    (role,) = (o for o in chart if o["kind"] == "Role" and o["rules"][0]["resourceNames"] == [f"llama-{target}"])
    return role, one(chart, "CronJob", role["metadata"]["name"])


@pytest.mark.parametrize("target", [row["target"] for row in OBJECTS])
def test_the_chart_grants_each_target_the_calls_it_makes_and_no_other(target, chart, cluster, tmp_path):
    role, job = of_target(chart, target)
    name = f"llama-{target}"
    if target == "keda-cron":
        scaled(cluster, name)
    else:
        stands(cluster, PATCH_TARGETS[build.PATCHED[target]], name)
    for now in (NOON, NOON, NIGHT, LATER):
        runs(tmp_path, job, now)
    if target == "keda-cron":  # one that was emitted as a whole has no trigger left then, and goes
        emitted = emit(office_plan(), "keda-cron", EmitOptions(now=NOW, name=name, namespace="llm"))
        put_scaled(cluster, next(yaml.load_all(emitted, yaml.CSafeLoader)))
        runs(tmp_path, job, LATER)
    assert [asked for asked in cluster.asked if not allows(role, asked)] == []
    assert granted(role) == set(cluster.asked)


def test_a_role_stands_where_its_object_does_and_is_bound_to_the_jobs_alone(chart):
    jobs = {job["metadata"]["name"] for job in chart if job["kind"] == "CronJob"}
    bindings = [o for o in chart if o["kind"] == "RoleBinding"]
    assert len(bindings) == len(OBJECTS)
    for binding in bindings:
        assert binding["metadata"]["namespace"] == "llm"
        assert binding["roleRef"]["name"] == binding["metadata"]["name"] in jobs
        (subject,) = binding["subjects"]
        assert subject == {"kind": "ServiceAccount", "name": "inferdoc-prewarm", "namespace": "inferdoc"}
    assert {o["kind"] for o in chart} & {"ClusterRole", "ClusterRoleBinding"} == set()


def test_who_asks_nothing_of_the_api_server_gets_no_token(chart):
    pods = {o["metadata"]["name"]: o["spec"]["template"]["spec"] for o in chart if o["kind"] == "Deployment"}
    for job in (o for o in chart if o["kind"] == "CronJob"):
        pods[job["metadata"]["name"]] = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    for name, pod in pods.items():
        applies = "apply" in pod["containers"][0]["args"]
        assert pod["automountServiceAccountToken"] is applies, name
    assert all(o["automountServiceAccountToken"] is False for o in chart if o["kind"] == "ServiceAccount")


EMITTED = [
    ("daily", "HorizontalPodAutoscaler"),
    *(("cronjob", kind) for kind in PATCH_TARGETS),
    ("keda-cron", "ScaledObject"),
]


@pytest.mark.parametrize(("target", "kind"), EMITTED)
def test_emitted_jobs_bring_the_rights_that_they_need_and_no_other(target, kind, cluster, tmp_path):
    options = EmitOptions(now=NOW, name="llama", namespace="llm", kind=kind, server="http://p:9090")
    objects = list(yaml.load_all(emit(office_plan(), target, options), yaml.CSafeLoader))
    if kind == "ScaledObject":
        put_scaled(cluster, objects[0])
    else:
        stands(cluster, PATCH_TARGETS[kind], "llama")
    for job in (o for o in objects if o["kind"] == "CronJob"):
        cluster.put("batch", "cronjobs", job)
    for job in [o for o in objects if o["kind"] == "CronJob"]:
        pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            words = container["command"]
            if words[0] == "kubectl":
                subprocess.run(words, check=True, capture_output=True, timeout=60)
            elif words[2] != "plan":
                said = [word.replace("/var/lib/inferdoc", str(tmp_path)) for word in words[2:]]
                now = LATER if words[2] == "release" else NOON
                assert CliRunner().invoke(command, [*said, "--now", now]).exception is None
    if kind == "ScaledObject":  # one that has a trigger of the user's stays and is patched
        scaled(cluster, "llama")
        cluster.objects["keda.sh", "scaledobjects", "llm", "llama"]["metadata"]["annotations"] = {
            "inferdoc.io/valid-until": "2026-03-01T00:00:00Z"
        }
        assert CliRunner().invoke(command, [*said, "--now", LATER]).exception is None
    role = one(objects, "Role")
    assert [asked for asked in cluster.asked if not allows(role, asked)] == []
    assert granted(role) == set(cluster.asked)


def test_a_right_too_many_and_one_too_few_are_seen(chart, cluster, tmp_path):
    role, job = of_target(chart, "hpa")
    stands(cluster, PATCH_TARGETS["HorizontalPodAutoscaler"], "llama-hpa")
    runs(tmp_path, job, NOON)
    wide = {**role, "rules": [{**role["rules"][0], "verbs": ["get", "patch", "update"]}]}
    assert {asked.verb for asked in granted(wide) - set(cluster.asked)} == {"update"}
    narrow = {**role, "rules": [{**role["rules"][0], "verbs": ["get"]}]}
    assert {asked.verb for asked in cluster.asked if not allows(narrow, asked)} == {"patch"}
    other = {**role, "metadata": {**role["metadata"], "namespace": "other"}}
    assert not any(allows(other, asked) for asked in cluster.asked)


def test_a_diagnosis_that_asks_the_cluster_reads_what_the_page_says(cluster):
    """`diagnose --kubernetes`: the rights of the person who runs it, none of the chart's."""
    for resource, kind, name in (("pods", "Pod", "vllm-0"), ("events", "Event", "e")):
        spec = {"containers": [{"name": "vllm"}]}
        cluster.put("", resource, {"kind": kind, "metadata": {"name": name, "namespace": "llm"}, "spec": spec})
    pod = cluster.objects["", "pods", "llm", "vllm-0"]
    ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    pod["status"] = {"containerStatuses": [{"name": "vllm", "restartCount": 1, "lastState": ended}]}
    facts_of("llm", "vllm-0", load_catalogue().signs, kubectl)
    text = (build.ROOT / "docs" / "on-call.md").read_text("utf-8")
    told = {(verb, what) for verb, what in re.findall(r"`(get|list) ([a-z/]+)`", text)}
    assert {(asked.verb, asked.resource) for asked in cluster.asked} == told
    assert {asked.group for asked in cluster.asked} == {""}


def test_no_other_code_calls_kubectl():
    """Where a command begins with the word. `apply --target cronjob` and `init` have the rights of whoever runs them:
    the chart runs neither."""
    package = Path(inferdoc.__file__).parent
    callers = set()
    for path in package.rglob("*.py"):
        lists = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.List))
        first = (node.elts[0] for node in lists if node.elts)
        if any(isinstance(word, ast.Constant) and word.value == "kubectl" for word in first):
            callers.add(str(path.relative_to(package)))
    own = ("apply", "apply_command", "kubectl")
    asking = {"cluster/evidence.py", *(f"prewarm/{name}.py" for name in own)}
    assert callers == asking | {"prewarm/emit/base.py", "cluster/port_forward.py"}
    assert "cronjob" not in json.loads(build.schema())["$defs"]["PrewarmTarget"]["enum"]
