"""What Kubernetes manifests say of how engines are started, probed, stopped and scaled."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from inferdoc.catalogue.yaml_text import load_all_yaml
from inferdoc.errors import InferdocError

ENGINE = "vllm"
GRACE_SECONDS = 30
"""terminationGracePeriodSeconds where a manifest has none (Kubernetes documentation: Pod lifecycle)."""
PERIOD_SECONDS, FAILURES = 10, 3
"""Of a probe that does not say (Kubernetes documentation: Configure probes)."""
FIELDS = ("image", "terminationGracePeriodSeconds", "livenessProbe", "startupProbe", "minReplicas", "scaled by")
"""Fields besides flags. startupProbe: seconds that it allows; livenessProbe: its path, `other` or `none`."""
SCRIPT_FOLLOWS = ("-c", "-lc", "-ec", "-euc", "-xc")
POD_SPECS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "Pod": (("spec",),),
    "Deployment": (("spec", "template", "spec"),),
    "StatefulSet": (("spec", "template", "spec"),),
    "DaemonSet": (("spec", "template", "spec"),),
    "ReplicaSet": (("spec", "template", "spec"),),
    "LeaderWorkerSet": (
        ("spec", "leaderWorkerTemplate", "leaderTemplate", "spec"),
        ("spec", "leaderWorkerTemplate", "workerTemplate", "spec"),
    ),
}
"""Where a kind keeps the specification of its pods; the first that is there counts."""


@dataclass(frozen=True)
class Declared:
    """One workload. namespace: "" where the manifest names none; settings: flag (`--max-model-len`) or field -> value,
    a flag without a value being "True"; file: its path."""

    namespace: str
    workload: str
    settings: Mapping[str, str]
    file: str


def read_manifests(paths: Iterable[str | Path]) -> list[Declared]:
    """The workloads that run engines, and what scales them. Raises InferdocError, one line, where a file cannot be read
    or holds none."""
    found: dict[tuple[str, str], Declared] = {}
    for path in map(Path, paths):
        documents = list(_documents(path))
        engines = [one for one in documents if isinstance(one, dict) and (spec := _pod_spec(one)) and _engine(spec)]
        scalers = [one for one in documents if isinstance(one, dict) and _target(one)]
        if not engines and not scalers:
            raise InferdocError(f"--manifest {path}: no workload with a vLLM container and no autoscaler in it")
        for one in (*engines, *scalers):
            namespace, workload = _text(_at(one, "metadata", "namespace")), _target(one) or _name(one)
            before = found.get((namespace, workload))
            settings = {**(before.settings if before else {}), **_settings(one)}
            found[namespace, workload] = Declared(namespace, workload, settings, str(path))
    return list(found.values())


def _documents(path: Path) -> Iterator[Any]:
    try:
        documents = load_all_yaml(path.read_bytes())
    except OSError as error:
        raise InferdocError(f"--manifest {path}: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise InferdocError(
            f"--manifest {path}{where}: not YAML: {getattr(error, 'problem', None) or error}"
        ) from error
    for document in documents:
        items = document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else None
        yield from items if isinstance(items, list) else [document]


def _settings(document: Mapping[str, Any]) -> dict[str, str]:
    spec = _pod_spec(document)
    engine = _engine(spec) if spec else None
    if spec is None or engine is None:
        return _scaling(document)
    settings = dict(_flags(_argv(engine)))
    settings["image"] = _text(engine.get("image"))
    settings["terminationGracePeriodSeconds"] = _text(spec.get("terminationGracePeriodSeconds", GRACE_SECONDS))
    liveness = engine.get("livenessProbe")
    settings["livenessProbe"] = _text(_at(liveness, "httpGet", "path")) or ("other" if liveness else "none")
    probe = engine.get("startupProbe") or liveness
    if isinstance(probe, dict):
        delay, period = (
            _number(probe.get("initialDelaySeconds", 0)),
            _number(probe.get("periodSeconds", PERIOD_SECONDS)),
        )
        settings["startupProbe"] = f"{delay + period * _number(probe.get('failureThreshold', FAILURES)):g}"
    return settings


def _scaling(document: Mapping[str, Any]) -> dict[str, str]:
    """minReplicas, and the names of the metrics that scale, of a HorizontalPodAutoscaler or a ScaledObject."""
    spec = document.get("spec")
    if not isinstance(spec, dict):
        return {}
    if document.get("kind") == "ScaledObject":
        names = [_text(_at(one, "metadata", "query")) or _text(_at(one, "type")) for one in _list(spec.get("triggers"))]
        return {"minReplicas": _text(spec.get("minReplicaCount", 0)), "scaled by": ", ".join(filter(None, names))}
    names = []
    for metric in _list(spec.get("metrics")):
        body = metric.get(str(metric.get("type", "")).lower()) or metric.get("external") or metric.get("pods") or {}
        names.append(_text(_at(body, "metric", "name")) or _text(_at(body, "name")))
    return {"minReplicas": _text(spec.get("minReplicas", 1)), "scaled by": ", ".join(filter(None, names))}


def _target(document: Mapping[str, Any]) -> str:
    """The workload that an autoscaler scales, else empty."""
    if document.get("kind") not in ("HorizontalPodAutoscaler", "ScaledObject"):
        return ""
    return _text(_at(document, "spec", "scaleTargetRef", "name"))


def _pod_spec(document: Mapping[str, Any]) -> dict[str, Any] | None:
    for path in POD_SPECS.get(str(document.get("kind")), ()):
        spec = _at(document, *path)
        if isinstance(spec, dict):
            return spec
    return None


def _engine(spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """The container that runs the engine: by its command, its arguments or its image."""
    for one in _list(spec.get("containers")):
        if any(ENGINE in word for word in _argv(one)) or ENGINE in _text(one.get("image")):
            return one
    return None


def _argv(container: Mapping[str, Any]) -> list[str]:
    """Words of command and arguments; a script given to a shell (`-c`) is split as the shell would."""
    given = [_text(entry) for part in ("command", "args") for entry in container.get(part) or () if entry is not None]
    words: list[str] = []
    for before, text in zip(["", *given], given, strict=False):
        words += _script(text) if before in SCRIPT_FOLLOWS else [text]
    return words


def _script(text: str) -> list[str]:
    try:
        return shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError:  # a quote that the shell would not close either
        return [text]


def _flags(words: list[str]) -> Iterator[tuple[str, str]]:
    for index, word in enumerate(words):
        if word == "serve" and index + 1 < len(words) and not words[index + 1].startswith("-"):
            yield "--model", words[index + 1]
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            following = words[index + 1] if index + 1 < len(words) else "--"
            yield name.replace("_", "-"), value if equals else "True" if following.startswith("--") else following


def _at(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _name(document: Mapping[str, Any]) -> str:
    return _text(_at(document, "metadata", "name"))


def _list(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return "" if value is None or isinstance(value, dict | list) else str(value)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
