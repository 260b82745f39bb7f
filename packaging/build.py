#!/usr/bin/env python3
"""What is generated in packaging/: `python packaging/build.py [--check]`.

The chart is written by hand, but for the rights that each prewarm target needs and the schema of `config`, which the
code declares. The kustomize base is what the chart renders with its default values: only this part needs `helm` on the
PATH or in build/bin (packaging/tools.py puts it there).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from inferdoc.config import PROJECT_FILE, Config
from inferdoc.generate.document import write, yaml_text
from inferdoc.generate.provisioning import KUSTOMIZATION, kustomization
from inferdoc.prewarm.emit.kinds import PATCH_TARGETS, SCALED_OBJECT

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CHART, KUSTOMIZE = HERE / "chart" / "inferdoc", HERE / "kustomize"
TARGETS, SCHEMA = Path("files/prewarm-targets.yaml"), Path("values.schema.json")
PATCHED = {"hpa": "HorizontalPodAutoscaler", "kserve": "InferenceService", "wva": "VariantAutoscaling"}
"""Targets of `prewarm apply` that the chart offers. A Deployment or a LeaderWorkerSet is not among them: the record of
what was set stands on the object, and who may patch that may change what its pods run; `emit --target cronjob` scales
these with a right to their scale alone."""
NAME = "inferdoc"
EXAMPLE = [{"pool": "llama", "target": "hpa", "name": "llama", "namespace": "llm"}]
CHARTS_OWN = {"helm.sh/chart", "helm.sh/resource-policy", "inferdoc.io/config"}
"""Labels and annotations that mean something to Helm alone; of the configuration kustomize makes a hash itself."""


def main(check: bool) -> int:
    changed = write({TARGETS: targets(), SCHEMA: schema()}, CHART, check=check)
    changed += write(kustomize(), KUSTOMIZE, check=check)
    for line in changed:
        print(line)
    return 1 if check and changed else 0


def targets() -> str:
    """Group, resource and verbs of each target."""
    rights = {
        name: {"group": PATCH_TARGETS[kind].group, "resource": PATCH_TARGETS[kind].resource, "verbs": ["get", "patch"]}
        for name, kind in PATCHED.items()
    }
    place = SCALED_OBJECT
    verbs = ["get", "patch", "delete"]
    rights[place.word] = {"group": place.group, "resource": place.resource, "verbs": verbs}
    calls = "The calls of each: inferdoc/prewarm/apply.py, apply_command.py. A test holds them together."
    return yaml_text(rights, calls)


def schema() -> str:
    """The schema of the values, with that of the configuration file as the code declares it."""
    written = json.loads((CHART / SCHEMA).read_text("utf-8"))
    _, parts = msgspec.json.schema_components([Config], ref_template="#/$defs/{name}")
    parts["Config"]["properties"].pop("origin", None)
    written["$defs"] = {**parts, "PrewarmTarget": {"enum": [*PATCHED, "keda-cron"]}}
    return json.dumps(written, indent=1) + "\n"


def helm() -> str | None:
    """The program, None where there is none."""
    return shutil.which("helm", path=ROOT / "build" / "bin") or shutil.which("helm")


def rendered(values: Mapping[str, Any] | None = None, name: str = NAME, namespace: str = NAME) -> list[dict[str, Any]]:
    """The objects that the chart makes of these values over its own. Raises CalledProcessError with Helm's words."""
    program = helm()
    if program is None:
        raise FileNotFoundError("helm is not installed: make packages brings it")
    words = [program, "template", name, str(CHART), f"--namespace={namespace}", "--values=-"]
    done = subprocess.run(words, input=json.dumps(values or {}), capture_output=True, text=True, check=True)
    return [one for one in yaml.load_all(done.stdout, yaml.CSafeLoader) if one is not None]


def kustomize() -> dict[Path, str]:
    """The base, and beside it what not everybody has: the Prometheus Operator, pools that are planned."""
    base = rendered()
    of_base = [key(one) for one in base]
    monitor = [one for one in rendered({"serviceMonitor": {"enabled": True}}) if key(one) not in of_base]
    jobs = [one for one in rendered({"prewarm": {"enabled": True, "objects": EXAMPLE}}) if key(one) not in of_base]
    (settings,) = (one for one in base if one["kind"] == "ConfigMap")
    boards = "../../../dashboards/generated"
    rules = "../../../alerts/generated/sets/standard"
    return {
        Path("base/inferdoc.yaml"): text(one for one in base if one is not settings),
        Path("base") / PROJECT_FILE: settings["data"][PROJECT_FILE],
        Path("base") / KUSTOMIZATION: kustomization(
            {
                "resources": ["inferdoc.yaml"],
                "configMapGenerator": [{"name": settings["metadata"]["name"], "files": [PROJECT_FILE]}],
            }
        ),
        Path("monitoring/servicemonitor.yaml"): text(monitor),
        Path("monitoring") / KUSTOMIZATION: kustomization({"resources": ["servicemonitor.yaml", rules, boards]}),
        Path("prewarm/prewarm.yaml"): text(jobs),
        Path("prewarm") / KUSTOMIZATION: kustomization({"resources": ["prewarm.yaml"]}),
    }


def key(one: Mapping[str, Any]) -> tuple[str, str]:
    return one["kind"], one["metadata"]["name"]


def text(objects: Any) -> str:
    """Objects without what is Helm's, one document each."""
    parts = []
    for one in objects:
        plain = without(one)
        parts.append(yaml_text(plain, "packaging/build.py renders it from the chart.") if not parts else dumped(plain))
    return "---\n".join(parts)


def dumped(one: dict[str, Any]) -> str:
    return yaml_text(one, "").partition("\n")[2]


def without(node: Any) -> Any:
    if isinstance(node, dict):
        kept = {name: without(value) for name, value in node.items() if name not in CHARTS_OWN}
        if kept.get("app.kubernetes.io/managed-by") == "Helm":
            kept["app.kubernetes.io/managed-by"] = "kustomize"
        return {name: value for name, value in kept.items() if not (name == "annotations" and value == {})}
    return [without(value) for value in node] if isinstance(node, list) else node


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
