"""docs/install.md: its values and kustomizations are rendered, its configuration of Alertmanager is checked, its
commands have the options that they show."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferdoc.version import __version__
from tests.docs.shown import FENCE
from tests.packages.built import PACKAGING, ROOT, build, kustomized, one, program
from tests.packages.objects import refuse_wrong, unsafe

PAGE = ROOT / "docs" / "install.md"
BLOCKS = [(fence[2], fence[3]) for fence in FENCE.finditer(PAGE.read_text("utf-8"))]
VALUES, RECEIVERS, PREWARM, OVERLAY = (yaml.safe_load(text) for kind, text in BLOCKS if kind == "yaml")
LINES = [line.partition("  #")[0].strip() for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose reader has written values.yaml."""
    (tmp_path / "packaging").symlink_to(PACKAGING)
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({**VALUES, **PREWARM}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(start: str) -> list[str]:
    (line,) = (line for line in LINES if line.startswith(start))
    return shlex.split(line)


def test_helm_renders_what_the_page_shows(folder):
    words = command("helm upgrade")
    assert words[:4] == ["helm", "upgrade", "--install", "inferdoc"]
    done = subprocess.run([program("helm"), "template", *words[3:]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    objects: list[Any] = list(yaml.load_all(done.stdout, yaml.CSafeLoader))
    refuse_wrong([o for o in objects if o])
    assert {o["kind"] for o in objects if o} >= {"Deployment", "PrometheusRule", "ServiceMonitor", "CronJob", "Role"}
    deployment = one([o for o in objects if o], "Deployment")
    assert unsafe(deployment["spec"]["template"]) == []
    assert f"{VALUES['image']['repository']}:{__version__}" in str(deployment)


def test_the_receiver_of_the_page_reaches_the_service_and_amtool_takes_it(folder, tmp_path):
    url = RECEIVERS["receivers"][0]["webhook_configs"][0]["url"]
    service = one(build.rendered(VALUES) if build.helm() else kustomized(PACKAGING / "kustomize" / "base"), "Service")
    assert (
        url == f"http://{service['metadata']['name']}.inferdoc.svc:{service['spec']['ports'][0]['port']}/alertmanager"
    )
    if shutil.which("amtool") is None:
        pytest.skip("amtool is not on the PATH: apt-get install prometheus-alertmanager")
    (tmp_path / "alertmanager.yml").write_text(yaml.safe_dump({"route": {"receiver": "inferdoc"}, **RECEIVERS}))
    words = ["amtool", "check-config", str(tmp_path / "alertmanager.yml")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_kustomize_renders_what_the_page_shows(tmp_path):
    shutil.copy(PACKAGING / "kustomize" / "base" / "inferdoc.toml", tmp_path)
    resources = [os.path.relpath(ROOT / name, tmp_path.resolve()) for name in OVERLAY["resources"]]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({**OVERLAY, "resources": resources}))
    objects = kustomized(tmp_path)
    refuse_wrong(objects)
    assert f"registry.example.org/team/inferdoc:{__version__}" in str(one(objects, "Deployment"))
    assert command("kubectl apply") == ["kubectl", "apply", "-n", "inferdoc", "-k", "."]


def test_the_table_of_rights_is_that_of_the_chart():
    rows = re.findall(r"^\| `([\w-]+)` \| ([\w.]+) \| (\w+) \| ([a-z, ]+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    told = {name: {"group": group, "resource": res, "verbs": verbs.split(", ")} for name, group, res, verbs in rows}
    assert told == yaml.safe_load(build.targets())


def test_the_image_is_built_with_arguments_that_the_containerfile_has():
    text = (PACKAGING / "Containerfile").read_text("utf-8")
    words = command("podman build")
    assert words[words.index("--file") + 1] == f"{words[-1]}/Containerfile"
    given = {words[place + 1].partition("=")[0] for place, word in enumerate(words) if word == "--build-arg"}
    known = set(re.findall(r"^ARG (\w+)", text, re.MULTILINE))
    assert given == known
    for name, image in re.findall(r"^ARG (\w+)=(\S+/\S+)$", text, re.MULTILINE):
        (by_digest,) = [line for line in LINES if line.startswith(f"{name}=")]
        assert "@$(skopeo inspect " in by_digest and by_digest.endswith(f"docker://{image})")
    versions = [line for line in LINES if re.search(r"\d+\.\d+\.\d+", line) and not line.startswith("KUBECTL=")]
    assert [line for line in versions if __version__ not in line] == []
    assert re.search(r"^USER 65532:65532$", text, re.MULTILINE)
    assert all(":" in image for image in re.findall(r"^ARG \w+=(\S+/\S+)$", text, re.MULTILINE))
