"""As much of a Kubernetes API server as the real kubectl needs to read, patch and delete objects; it keeps what was
asked of it, since RBAC allows or refuses exactly that."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

VERBS = {"GET": "get", "PATCH": "patch", "DELETE": "delete", "POST": "create", "PUT": "update"}
VERSIONS = {
    "": "v1",
    "autoscaling": "v2",
    "apps": "v1",
    "batch": "v1",
    "keda.sh": "v1alpha1",
    "serving.kserve.io": "v1beta1",
    "llmd.ai": "v1alpha1",
    "leaderworkerset.x-k8s.io": "v1",
}


@dataclass(frozen=True)
class Asked:
    """What RBAC judges of a request. name: None where the whole kind is asked for; resource: with its subresource."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str | None


class ApiServer:
    """objects: by group, resource, namespace and name. kinds: (group, resource) -> kind."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str, str], dict[str, Any]] = {}
        self.kinds: dict[tuple[str, str], str] = {}
        self.asked: list[Asked] = []

    def put(self, group: str, resource: str, obj: dict[str, Any]) -> None:
        meta = obj["metadata"]
        obj["apiVersion"] = f"{group}/{VERSIONS[group]}".removeprefix("/")
        self.kinds[group, resource] = obj["kind"]
        self.objects[group, resource, meta["namespace"], meta["name"]] = obj

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and document. Paths: /apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME[/SUBRESOURCE]."""
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "v1"] and len(parts) > 2:
            parts = ["apis", "", *parts[1:]]  # the core group has no name
        if len(parts) < 5:
            return self._discovered(parts)
        group, namespace, resource = parts[1], parts[4], parts[5]
        name = parts[6] if len(parts) > 6 else None
        sub = "".join(f"/{part}" for part in parts[7:])
        self.asked.append(Asked(VERBS[method], group, resource + sub, namespace, name))
        if method == "GET" and name is None:
            self.asked[-1] = replace(self.asked[-1], verb="list")
            return 200, {"kind": "List", "apiVersion": VERSIONS[group], "metadata": {}, "items": []}
        key = (group, resource, namespace, str(name))
        if key not in self.objects:
            return 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
        if method == "PATCH":
            merge(self.objects[key], json.loads(body))
        if method == "DELETE":
            return 200, self.objects.pop(key)
        return 200, self.objects[key]

    def _discovered(self, parts: list[str]) -> tuple[int, dict[str, Any]]:
        """What every account may read: system:discovery."""
        if parts == ["api"]:
            return 200, {"kind": "APIVersions", "versions": ["v1"]}
        if parts == ["api", "v1"]:
            return 200, {"kind": "APIResourceList", "groupVersion": "v1", "resources": self._resources("")}
        if parts == ["apis"]:
            known = sorted({group for group, _ in self.kinds} - {""})
            rows = [
                {
                    "name": group,
                    "versions": [{"groupVersion": f"{group}/{VERSIONS[group]}", "version": VERSIONS[group]}],
                    "preferredVersion": {"groupVersion": f"{group}/{VERSIONS[group]}", "version": VERSIONS[group]},
                }
                for group in known
            ]
            return 200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": rows}
        if parts[0] == "apis" and len(parts) == 3:
            return 200, {
                "kind": "APIResourceList",
                "groupVersion": "/".join(parts[1:]),
                "resources": self._resources(parts[1]),
            }
        return 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}

    def _resources(self, group: str) -> list[dict[str, Any]]:
        verbs = ["get", "list", "patch", "delete"]
        return [
            {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": verbs}
            for (of, resource), kind in self.kinds.items()
            for name in (resource, f"{resource}/scale", f"{resource}/log")
            if of == group
        ]


def merge(old: dict[str, Any], patch: dict[str, Any]) -> None:
    """A JSON merge patch (RFC 7386), in place."""
    for key, value in patch.items():
        if value is None:
            old.pop(key, None)
        elif isinstance(value, dict):
            merge(old.setdefault(key, {}), value)
        else:
            old[key] = value


@contextmanager
def serving(folder: Path) -> Iterator[tuple[ApiServer, Path]]:
    """A server on a free loopback port, and the kubeconfig that names it."""
    held = ApiServer()

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            code, document = held.answer(self.command, urlsplit(self.path).path, body)
            text = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PATCH = do_DELETE = do_POST = do_PUT = _any  # noqa: N815  (names of http.server)

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": address}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "users": [{"name": "it", "user": {}}],
    }
    (folder / "kubeconfig").write_text(json.dumps(config), "utf-8")
    try:
        yield held, folder / "kubeconfig"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
