"""The relabelling for servers that cannot join: Prometheus takes it, and gives targets role and tier."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from inferdoc.generate import promtool
from inferdoc.generate.pack import RELABELLING
from tests import prometheus_server
from tests.conftest import ROOT
from tests.generate.conftest import GENERATED, needs_promtool

pytestmark = [pytest.mark.live, needs_promtool]
POD = "__meta_kubernetes_pod_label_llm_d_ai_role"
NODE = "__meta_kubernetes_node_label_nvidia_com_gpu_product"
TARGETS = {
    "a:1": ({POD: "prefill", NODE: "NVIDIA-H100-80GB-HBM3"}, ("prefill", "h100-80")),
    "b:1": ({POD: "decode", NODE: "NVIDIA-A100-SXM4-80GB-SHARED"}, ("decode", "a100-80")),
    "c:1": ({NODE: "NVIDIA-L4"}, (None, "l4")),
    "d:1": ({POD: "decode"}, ("decode", None)),
    "e:1": ({POD: "router", NODE: "NVIDIA-Riva-128"}, (None, None)),
}


def configuration(folder: Path) -> Path:
    """A server with one target per case, under labels as service discovery gives them."""
    rules = yaml.load((GENERATED / RELABELLING).read_text("utf-8"), yaml.CSafeLoader)["relabel_configs"]
    targets = [{"targets": [address], "labels": labels} for address, (labels, _) in TARGETS.items()]
    job = {"job_name": "vllm", "static_configs": targets, "relabel_configs": rules}
    path = folder / "prometheus.yml"
    path.write_text(yaml.dump({"scrape_configs": [job]}, Dumper=yaml.CSafeDumper), "utf-8")
    return path


def test_promtool_takes_the_page_and_the_generated_rules(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "labels.md").read_text("utf-8"), re.DOTALL)
    (shown,) = [block for block in blocks if "scrape_configs:" in block]
    page, document = tmp_path / "page.yml", yaml.load(shown, yaml.CSafeLoader)
    (job,) = document["scrape_configs"]
    # Debian builds Prometheus without the discovery of Kubernetes, so that its promtool does not know the section.
    assert job.pop("kubernetes_sd_configs") == [{"role": "pod", "attach_metadata": {"node": True}}]
    page.write_text(yaml.dump(document, Dumper=yaml.CSafeDumper), "utf-8")
    for path in (page, configuration(tmp_path)):
        done = promtool._run("check", "config", str(path))
        assert done.returncode == 0, done.stdout + done.stderr


def test_targets_get_the_role_of_their_pod_and_the_tier_of_their_node(tmp_path: Path) -> None:
    if not prometheus_server.available():
        pytest.skip(prometheus_server.MISSING)
    address = f"127.0.0.1:{prometheus_server.free_port()}"
    command = [
        "prometheus",
        f"--config.file={configuration(tmp_path)}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            found = {target["labels"]["instance"]: target["labels"] for target in discovered(f"http://{address}")}
        finally:
            process.terminate()
            process.wait(20)
    told = {instance: (labels.get("role"), labels.get("tier")) for instance, labels in found.items()}
    assert told == {instance: wanted for instance, (_, wanted) in TARGETS.items()}


def discovered(address: str) -> list[dict[str, Any]]:
    """The targets of a server, once it knows them."""
    end = time.monotonic() + 180
    while time.monotonic() < end:
        try:
            active = requests.get(f"{address}/api/v1/targets", timeout=5).json()["data"]["activeTargets"]
        except requests.exceptions.RequestException:
            active = []
        if len(active) == len(TARGETS):
            return active
        time.sleep(0.3)
    raise AssertionError("the server did not find its targets in time")
