"""The chart and the kustomize base: rendered by Helm and kubectl, held to strict schemas, and to each other."""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import Config, load_config
from inferdoc.generate.alerts import build_alerts
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.provisioning import RULES_FOLDER
from inferdoc.prewarm.emit.base import EmitOptions
from inferdoc.prewarm.emit.registry import emit
from inferdoc.version import IMAGE, __version__
from tests.packages.built import PACKAGING, ROOT, build, kustomized, one, program, refused, rendered
from tests.packages.objects import pods, refuse_wrong, unsafe
from tests.prewarm.plans import NOW, office_plan

CHART = PACKAGING / "chart" / "inferdoc"
APPLIED_BYTES = 256 * 1024
"""`kubectl apply` keeps a copy of an object in an annotation of it; all annotations together take this much."""
SECRET_BYTES = 1 << 20
"""Helm keeps a release in a Secret."""
OBJECTS = [
    {"pool": "chat-prefill-h100", "target": "hpa", "name": "llama-prefill", "namespace": "llm"},
    {"pool": "chat-decode-h100", "target": "keda-cron", "name": "llama-decode", "namespace": "llm"},
]
EVERYTHING: dict[str, Any] = {
    "image": {"repository": "registry.example.org/team/inferdoc", "tag": "1.2.3", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "pull"}],
    "config": {
        "source": {"prometheus": "http://mimir/prometheus", "headers": {"X-Scope-OrgID": "team-a"}, "parallel": 4},
        "slo": [{"signal": "ttft", "percentile": 99, "target": 2.5, "model": "llama-3.1-70b"}],
        "prices": {"currency": "EUR", "tiers": {"h100-80": {"on_demand": 3}}},
        "pods": [{"pod": "llama-.*", "role": "decode", "gpus": 4}],
        "links": {"runbook_base": "https://runbooks.example.org"},
    },
    "catalogue": {"diagnostics/my-cause.yaml": "id: my-cause\n", "runbooks/my-cause.md": "# {{ not a template }}\n"},
    "secrets": {"secretName": "inferdoc-secrets"},
    "store": {"size": "5Gi", "storageClassName": "fast"},
    "serve": {
        "extraArgs": ["--judge-every=5m"],
        "podAnnotations": {"a": "b"},
        "nodeSelector": {"kubernetes.io/arch": "arm64"},
        "tolerations": [{"key": "cpu", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "kube-prometheus-stack"}},
    "rules": {"enabled": True, "set": "full", "labels": {"release": "kube-prometheus-stack"}},
    "boards": {"enabled": True},
    "prewarm": {"enabled": True, "planArgs": ["--tz=Europe/Berlin", "--max=40"], "objects": OBJECTS},
}


@pytest.fixture(scope="module")
def everything() -> list[dict[str, Any]]:
    return rendered(EVERYTHING, "prod", "monitor")


def alerts(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    groups = (group for one in objects if one["kind"] == "PrometheusRule" for group in one["spec"]["groups"])
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def test_links_of_alerts_lead_to_the_ingress_and_without_one_there_are_none(everything):
    values = {"rules": {"enabled": True}, "ingress": {"enabled": True, "host": "doc.acme.org", "tlsSecretName": "t"}}
    objects = rendered(values)
    assert alerts(objects)
    for rule in alerts(objects):
        page = rule["annotations"]["runbook"]
        assert rule["annotations"]["runbook_url"] == f"https://doc.acme.org/runbooks/{page}"
    assert tomllib.loads(toml(objects))["serve"]["public_url"] == "https://doc.acme.org"
    ingress = next(one for one in objects if one["kind"] == "Ingress")
    assert ingress["spec"]["tls"] == [{"hosts": ["doc.acme.org"], "secretName": "t"}]
    assert all(
        rule["annotations"]["runbook_url"].startswith("https://runbooks.example.org/") for rule in alerts(everything)
    )
    bare = rendered({"rules": {"enabled": True}})
    assert alerts(bare) and not any("runbook_url" in rule["annotations"] for rule in alerts(bare))
    assert not any(one["kind"] == "Ingress" for one in bare)
    plainly = rendered({"ingress": {"enabled": True, "host": "doc.acme.org"}})
    assert tomllib.loads(toml(plainly))["serve"]["public_url"] == "http://doc.acme.org"


@pytest.fixture(scope="module")
def plain() -> list[dict[str, Any]]:
    return rendered()


def toml(objects: list[dict[str, Any]], name: str = "inferdoc") -> str:
    return one(objects, "ConfigMap", name)["data"]["inferdoc.toml"]


def test_lint_finds_nothing():
    words = [program("helm"), "lint", "--strict", "--quiet", str(CHART)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_generated_is_up_to_date(capsys):
    program("helm")
    assert build.main(check=True) == 0, capsys.readouterr().out


def test_rights_and_schema_are_up_to_date_without_helm():
    assert (CHART / build.TARGETS).read_text("utf-8") == build.targets()
    assert (CHART / build.SCHEMA).read_text("utf-8") == build.schema()


def test_every_object_is_what_its_api_takes(plain, everything):
    assert {o["kind"] for o in everything} == {
        "ConfigMap", "CronJob", "Deployment", "NetworkPolicy", "PersistentVolumeClaim", "PrometheusRule", "Role",
        "RoleBinding", "Service", "ServiceAccount", "ServiceMonitor",
    }  # fmt: skip
    refuse_wrong(plain)
    refuse_wrong(everything)


def test_an_unknown_field_is_refused(plain):
    for kind, place in (("Deployment", "spec"), ("ConfigMap", "metadata")):
        wrong = deepcopy(one(plain, kind))
        wrong[place]["unheard"] = 1
        with pytest.raises(Exception, match="unheard"):
            refuse_wrong([wrong])


def test_pods_run_restricted_with_a_read_only_root(everything):
    found = list(pods(everything))
    assert len(found) == 4
    assert {name: told for name, template in found if (told := unsafe(template))} == {}
    template = deepcopy(found[0][1])
    template["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"] = False
    assert unsafe(template) == ["writable root"]


def test_what_pods_mount_is_there_or_a_secret_that_the_user_names(everything):
    maps = {o["metadata"]["name"] for o in everything if o["kind"] == "ConfigMap"}
    claims = {o["metadata"]["name"] for o in everything if o["kind"] == "PersistentVolumeClaim"}
    accounts = {o["metadata"]["name"] for o in everything if o["kind"] == "ServiceAccount"}
    for _, template in pods(everything):
        spec = template["spec"]
        assert spec["serviceAccountName"] in accounts
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        mounts = {mount["name"] for container in spec["containers"] for mount in container["volumeMounts"]}
        assert mounts == set(volumes)
        for volume in volumes.values():
            assert volume.get("configMap", {}).get("name") in {None, *maps}
            assert volume.get("persistentVolumeClaim", {}).get("claimName") in {None, *claims}
            assert volume.get("secret", {}).get("secretName") in {None, "inferdoc-auth", "inferdoc-secrets"}
    assert not any(o["kind"] == "Secret" for o in everything)


def test_selectors_meet_their_pods_and_no_others(everything):
    labels = {name: template["metadata"]["labels"] for name, template in pods(everything)}

    def met(selector: dict[str, str]) -> set[str]:
        return {name for name, own in labels.items() if selector.items() <= own.items()}

    service = one(everything, "Service")
    assert met(service["spec"]["selector"]) == {"prod-inferdoc"}
    assert met(one(everything, "Deployment")["spec"]["selector"]["matchLabels"]) == {"prod-inferdoc"}
    wanted = one(everything, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()
    policies = {o["metadata"]["name"]: o["spec"] for o in everything if o["kind"] == "NetworkPolicy"}
    assert met(policies["prod-inferdoc"]["podSelector"]["matchLabels"]) == set(labels)
    assert met(policies["prod-inferdoc-serve"]["podSelector"]["matchLabels"]) == {"prod-inferdoc"}


def test_values_become_a_configuration_that_inferdoc_reads(everything, tmp_path):
    document = tomllib.loads(toml(everything, "prod-inferdoc"))
    assert document["serve"]["listen"] == "0.0.0.0:9109"
    assert document["serve"]["bearer_token_file"] == "/etc/inferdoc/auth/token"
    text = toml(everything, "prod-inferdoc")
    (tmp_path / "inferdoc.toml").write_text(text, "utf-8")
    config = load_config(tmp_path / "inferdoc.toml", {})
    asked = msgspec.convert({**EVERYTHING["config"], "catalogue": ["/etc/inferdoc/catalogue"]}, Config)
    assert [getattr(config, name) for name in EVERYTHING["config"]] == [
        getattr(asked, name) for name in EVERYTHING["config"]
    ]
    assert config.catalogue == asked.catalogue


def test_what_the_user_says_of_serve_stays(plain):
    said = {"public_url": "https://inferdoc.example.org", "queue": 9}
    serve = tomllib.loads(toml(rendered({"config": {"serve": said}})))["serve"]
    assert serve == {**tomllib.loads(toml(plain))["serve"], **said}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"sevre": {}}, "sevre"),
        ({"config": {"slo": [{"signal": "ttft", "percentil": 99}]}}, "percentil"),
        ({"config": {"source": {"parallel": "many"}}}, "parallel"),
        ({"prewarm": {"objects": [{**OBJECTS[0], "target": "deployment"}]}}, "target"),
        ({"prewarm": {"objects": [{"pool": "a", "target": "hpa", "name": "a"}]}}, "namespace"),
        ({"auth": {"secretName": ""}}, "auth.secretName"),
        ({"catalogue": {"../x.yaml": ""}}, "../x.yaml"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(values, told):
    assert told in refused(values)


def test_a_change_of_the_configuration_starts_new_pods(plain):
    def mark(objects: list[dict[str, Any]]) -> str:
        return one(objects, "Deployment")["spec"]["template"]["metadata"]["annotations"]["inferdoc.io/config"]

    other = rendered({"config": {"prices": {"currency": "EUR"}}})
    assert mark(rendered()) == mark(plain) != mark(other)


def test_catalogue_files_lie_where_the_configuration_looks(everything):
    held = one(everything, "ConfigMap", "prod-inferdoc-catalogue")["data"]
    spec = one(everything, "Deployment")["spec"]["template"]["spec"]
    (volume,) = (volume for volume in spec["volumes"] if volume["name"] == "catalogue")
    laid = {item["path"]: held[item["key"]] for item in volume["configMap"]["items"]}
    assert laid == EVERYTHING["catalogue"]
    (mount,) = (m for m in spec["containers"][0]["volumeMounts"] if m["name"] == "catalogue")
    assert [mount["mountPath"]] == tomllib.loads(toml(everything, "prod-inferdoc"))["catalogue"]


@pytest.mark.parametrize("chosen", ["pages", "standard"])
def test_a_smaller_set_is_what_alerts_build_writes(chosen, tmp_path):
    build_alerts(load_catalogue(), GeneratedLinks(), tmp_path, rule_set=chosen)
    written = [yaml.load(p.read_text(), yaml.CSafeLoader) for p in (tmp_path / RULES_FOLDER).glob("inferdoc-*.yaml")]
    values = {"rules": {"enabled": True} | ({"set": "pages"} if chosen == "pages" else {})}
    found = [o for o in rendered(values) if o["kind"] == "PrometheusRule"]
    assert {o["metadata"]["name"]: o["spec"] for o in found} == {o["metadata"]["name"]: o["spec"] for o in written}


def test_rules_and_boards_of_the_chart_are_those_of_the_generator(everything):
    made = ROOT / "alerts" / "generated" / RULES_FOLDER
    written = [yaml.load(path.read_text("utf-8"), yaml.CSafeLoader) for path in sorted(made.glob("inferdoc-*.yaml"))]
    found = [o for o in deepcopy(everything) if o["kind"] == "PrometheusRule"]
    assert all(rule["annotations"].pop("runbook_url") for rule in alerts(found))
    assert {o["metadata"]["name"]: o["spec"] for o in found} == {o["metadata"]["name"]: o["spec"] for o in written}
    assert all(o["metadata"]["labels"]["release"] == "kube-prometheus-stack" for o in found)
    boards = {path.name: json.loads(path.read_text("utf-8")) for path in (CHART / "files" / "boards").glob("*.json")}
    shown = {
        name.removeprefix("inferdoc-"): json.loads(text)
        for o in everything
        if o["metadata"].get("labels", {}).get("grafana_dashboard") == "1"
        for name, text in o["data"].items()
    }
    assert shown == boards and len(boards) > 5


def test_the_groups_of_the_objects_are_those_of_the_rule_files():
    made = ROOT / "alerts" / "generated"
    files = [
        yaml.load((made / f"inferdoc-{name}.yaml").read_text(), yaml.CSafeLoader) for name in ("recording", "rules")
    ]
    objects = [yaml.load(p.read_text(), yaml.CSafeLoader) for p in (made / RULES_FOLDER).glob("inferdoc-*.yaml")]
    groups = {group["name"]: group for one in objects for group in one["spec"]["groups"]}
    assert groups == {group["name"]: group for file in files for group in file["groups"]}


def test_objects_and_release_are_small_enough(everything):
    sizes = {(o["kind"], o["metadata"]["name"]): len(json.dumps(o)) for o in everything}
    assert max(sizes.values()) < APPLIED_BYTES - 4096, max(sizes, key=sizes.__getitem__)
    links = ("files/boards/*.json", "files/prometheusrules/*.yaml", "files/sets/*/*.yaml")
    paths = [*(path for path in CHART.rglob("*") if path.is_file()), *(p for link in links for p in CHART.glob(link))]
    files = b"".join(base64.b64encode(path.read_bytes()) for path in paths)
    release = gzip.compress(files + yaml.dump_all(everything, Dumper=yaml.CSafeDumper).encode())
    assert len(base64.b64encode(release)) < SECRET_BYTES


def test_versions_and_image_are_those_of_the_package(plain):
    about = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert about["version"] == about["appVersion"] == __version__
    images = {c["image"] for _, template in pods(plain) for c in template["spec"]["containers"]}
    assert images == {IMAGE}


def test_jobs_are_those_that_emit_makes():
    """Schedules, deadlines and bounds of `emit --target daily`; labels and volumes are the chart's own."""
    emitted = {
        o["metadata"]["name"].rpartition("-")[2]: o["spec"]
        for o in yaml.safe_load_all(emit(office_plan(), "daily", EmitOptions(now=NOW, server="http://p:9090")))
        if o["kind"] == "CronJob"
    }
    jobs = [o for o in rendered({"prewarm": {"enabled": True, "objects": OBJECTS}}) if o["kind"] == "CronJob"]
    assert len(jobs) == 3
    for job in jobs:
        ours = job["spec"]
        theirs = emitted["plan" if job["metadata"]["name"].endswith("-plan") else "apply"]
        alike = ("schedule", "concurrencyPolicy", "startingDeadlineSeconds")
        assert [ours[name] for name in alike] == [theirs[name] for name in alike]
        one_job, their_job = ours["jobTemplate"]["spec"], theirs["jobTemplate"]["spec"]
        alike = ("activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
        assert [one_job[name] for name in alike] == [their_job[name] for name in alike]
        pod, their_pod = one_job["template"]["spec"], their_job["template"]["spec"]
        assert their_pod["securityContext"].items() <= pod["securityContext"].items()
        (container,), (other,) = pod["containers"], their_pod["containers"]
        assert container["securityContext"] == other["securityContext"]
        assert container["image"] == other["image"] == IMAGE


def test_the_kustomize_base_is_what_the_chart_renders(plain, tmp_path):
    base = kustomized(PACKAGING / "kustomize" / "base")
    refuse_wrong(base)
    kinds = sorted((o["kind"], o["metadata"]["name"]) for o in plain if o["kind"] != "ConfigMap")
    assert sorted((o["kind"], o["metadata"]["name"]) for o in base if o["kind"] != "ConfigMap") == kinds
    assert "Helm" not in json.dumps(base) and "helm.sh" not in json.dumps(base)
    settings = one(base, "ConfigMap")
    assert tomllib.loads(settings["data"]["inferdoc.toml"]) == tomllib.loads(toml(plain))


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    """A kustomization of a user: all three parts, with a configuration and an image of his own."""
    (tmp_path / "inferdoc.toml").write_text('[source]\nprometheus = "http://thanos:9090"\n')
    parts = [PACKAGING / "kustomize" / name for name in ("base", "monitoring", "prewarm")]
    document = {
        "resources": [os.path.relpath(part, tmp_path.resolve()) for part in parts],
        "images": [{"name": "localhost/inferdoc", "newName": "registry.example.org/inferdoc", "newTag": "1.2.3"}],
        "configMapGenerator": [{"name": "inferdoc", "behavior": "replace", "files": ["inferdoc.toml"]}],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(document))
    return tmp_path


def test_an_overlay_changes_image_and_configuration_everywhere(overlay):
    objects = kustomized(overlay)
    refuse_wrong(objects)
    assert {o["kind"] for o in objects} >= {"PrometheusRule", "ServiceMonitor", "CronJob", "Deployment"}
    (settings,) = (o for o in objects if o["kind"] == "ConfigMap" and "inferdoc.toml" in o["data"])
    assert "thanos" in settings["data"]["inferdoc.toml"]
    found = list(pods(objects))
    assert len(found) == 3
    for _, template in found:
        assert unsafe(template) == []
        assert {c["image"] for c in template["spec"]["containers"]} == {"registry.example.org/inferdoc:1.2.3"}
        (mounted,) = (v["configMap"]["name"] for v in template["spec"]["volumes"] if v["name"] == "config")
        assert mounted == settings["metadata"]["name"]


def test_boards_are_the_same_by_kustomize_and_by_the_files_that_provisioning_writes():
    from inferdoc.generate.provisioning import configmap

    objects = kustomized(ROOT / "dashboards" / "generated")
    for made in objects:
        name = made["metadata"]["name"].removeprefix("inferdoc-board-")
        board = json.loads((ROOT / "dashboards" / "generated" / f"{name}.json").read_text("utf-8"))
        written = yaml.safe_load(configmap(name, board))
        parsed = [{file: json.loads(text) for file, text in one["data"].items()} for one in (made, written)]
        assert parsed[0] == parsed[1]
        assert made["metadata"] == written["metadata"]
        assert len(json.dumps(made)) < APPLIED_BYTES - 4096
