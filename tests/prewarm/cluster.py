"""An API server behind a kubectl that is no process: objects with versions, merge patches, pruning, and faults on
demand."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable
from typing import Any

import yaml

PLURALS = {
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "ScaledObject": "scaledobjects.keda.sh",
    "Deployment": "deployments",
    "LeaderWorkerSet": "leaderworkersets.leaderworkerset.x-k8s.io",
    "VariantAutoscaling": "variantautoscalings.llmd.ai",
    "LLMInferenceService": "llminferenceservices.serving.kserve.io",
    "CronJob": "cronjobs",
    "ServiceAccount": "serviceaccounts",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}
CHANGING = ("patch", "apply", "delete")


class FakeCluster:
    """faults: of the coming calls that change something, in order: None, "timeout" (nothing happened), "late" (it took
    effect, the client gave up), "forbidden", or a function that changes an object in between."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.faults: list[str | Callable[[], None] | None] = []
        self.calls: list[list[str]] = []
        self.version = 0

    def put(self, obj: dict[str, Any]) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects[PLURALS[obj["kind"]], obj["metadata"]["name"]] = obj

    def of(self, kind: str, name: str = "llama") -> dict[str, Any]:
        return self.objects[PLURALS[kind], name]

    def names(self, kind: str) -> list[str]:
        return sorted(name for plural, name in self.objects if plural == PLURALS[kind])

    def edit(self, kind: str, name: str = "llama", **spec: Any) -> None:
        """What a person does with kubectl edit."""
        obj = self.of(kind, name)
        obj["spec"].update(spec)
        self.put(obj)

    def sent(self, verb: str) -> int:
        return sum(words[1] == verb for words in self.calls)

    def run(self, words: list[str], **asked: Any) -> Any:
        """Stands in for subprocess.run."""
        self.calls.append(words)
        fault = self.faults.pop(0) if self.faults and words[1] in CHANGING else None
        if callable(fault):
            fault()
        if fault == "timeout":
            raise subprocess.TimeoutExpired(words, 60)
        if fault == "forbidden":
            return _answer(1, error='Error from server (Forbidden): llama is forbidden: User "x" cannot patch')
        try:
            out = getattr(self, f"_{words[1]}")(words, asked["input"])
        except KeyError as missing:
            return _answer(1, error=f"Error from server (NotFound): {missing.args[0]} not found")
        except ValueError as invalid:
            return _answer(1, error=f"Error from server {invalid}")
        if fault == "late":
            raise subprocess.TimeoutExpired(words, 60)
        return _answer(0, out)

    def _get(self, words: list[str], _text: str | None) -> str:
        obj = self.objects[words[2], words[3]]
        if "--subresource=scale" in words:
            meta = {key: obj["metadata"][key] for key in ("name", "resourceVersion")}
            obj = {"kind": "Scale", "metadata": meta, "spec": {"replicas": obj["spec"]["replicas"]}}
        return json.dumps(obj)

    def _patch(self, words: list[str], _text: str | None) -> str:
        old = self.objects[words[2], words[3]]
        patch = json.loads(words[-1].removeprefix("--patch="))
        version = patch.get("metadata", {}).pop("resourceVersion", None)
        if version not in (None, old["metadata"]["resourceVersion"]):
            raise ValueError("(Conflict): the object has been modified")
        made = _merged(copy.deepcopy(old), patch)
        _admit(made)
        self.put(made)
        return "patched"

    def _apply(self, words: list[str], text: str | None) -> str:
        objects = [o for o in yaml.load_all(text or "", Loader=yaml.CSafeLoader) if o]
        for obj in objects:
            self.put(obj)
        kept = {o["metadata"]["name"] for o in objects if o["kind"] == "CronJob"}
        pruned = self._selected("cronjobs", words) if "--prune" in words else []
        for name in [n for n in pruned if n not in kept]:
            del self.objects["cronjobs", name]
        return "applied"

    def _delete(self, words: list[str], _text: str | None) -> str:
        for plural in words[2].split(","):
            named = [w for w in words[3:] if not w.startswith("-")]
            for name in named or self._selected(plural, words):
                if (plural, name) in self.objects or "--ignore-not-found" not in words:
                    del self.objects[plural, name]
        return "deleted"

    def _selected(self, plural: str, words: list[str]) -> list[str]:
        selector = next(w for w in words if w.startswith("--selector=")).removeprefix("--selector=")
        wanted = dict(pair.split("=") for pair in selector.split(","))
        return [
            name
            for (kind, name), obj in self.objects.items()
            if kind == plural and wanted.items() <= obj["metadata"].get("labels", {}).items()
        ]


def _answer(code: int, out: str = "", error: str = "") -> Any:
    return subprocess.CompletedProcess([], code, out, error)


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    made = old if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = _merged(made.get(key), value)
    return made


def _admit(obj: dict[str, Any]) -> None:
    """What the API server and KEDA's webhook check."""
    spec = obj["spec"]
    if obj["kind"] == "HorizontalPodAutoscaler" and not 1 <= spec.get("minReplicas", 1) <= spec["maxReplicas"]:
        raise ValueError("(Invalid): minReplicas must be within 1 and maxReplicas")
    if obj["kind"] == "ScaledObject":
        names = [t.get("name") for t in spec["triggers"] if t.get("name")]
        if not spec["triggers"] or len(set(names)) < len(names):
            raise ValueError("(Invalid): triggers must be there, each with a name of its own")
    if not all(isinstance(value, str) for value in obj["metadata"].get("annotations", {}).values()):
        raise ValueError("(BadRequest): annotations are strings")


def hpa(floor: int = 2, maximum: int = 20, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "llama", **metadata},
        "spec": {"minReplicas": floor, "maxReplicas": maximum},
        "status": {"currentReplicas": floor},
    }


def scaled_object(floor: int = 2, **spec: Any) -> dict[str, Any]:
    load = {"type": "prometheus", "name": "load", "metadata": {"query": "q", "threshold": "5"}}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "llama", "finalizers": ["finalizer.keda.sh"]},
        "spec": {
            "scaleTargetRef": {"name": "llama"},
            "minReplicaCount": floor,
            "maxReplicaCount": 20,
            "triggers": [load],
            **spec,
        },
    }
