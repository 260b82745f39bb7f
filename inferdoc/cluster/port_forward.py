"""A Prometheus of the cluster through `kubectl port-forward`, for a shell outside it."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from inferdoc.cluster.evidence import kubectl
from inferdoc.cluster.pods import Kubectl
from inferdoc.errors import NOT_JSON, SourceError

NAMED = re.compile(r"prometheus|thanos-query|vmsingle|vmselect|mimir", re.IGNORECASE)
NO_SERVER = re.compile(r"alertmanager|node-exporter|kube-state|operator$|pushgateway|adapter|grafana", re.IGNORECASE)
"""Services whose name begins with that of a server, and that have no Prometheus API."""
PORTS = {9090, 9091, 8428, 8481, 80}
FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ")
SECONDS = 15.0


class _Metadata(msgspec.Struct):
    name: str
    namespace: str


class _Port(msgspec.Struct):
    port: int


class _Spec(msgspec.Struct, rename={"cluster_ip": "clusterIP"}):
    ports: list[_Port] = []
    cluster_ip: str = ""


class _Service(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Services(msgspec.Struct):
    """Of the answer of `kubectl get services` what is read here."""

    items: list[_Service] = []


@dataclass(frozen=True)
class ServerService:
    """A service that may have the Prometheus API."""

    namespace: str
    name: str
    port: int

    @property
    def inside(self) -> str:
        """Its address within the cluster."""
        return f"http://{self.name}.{self.namespace}:{self.port}"

    @property
    def forward(self) -> str:
        """The command that makes it reachable at localhost:9090."""
        return f"kubectl --namespace {self.namespace} port-forward service/{self.name} 9090:{self.port}"


def server_services(run: Kubectl = kubectl) -> list[ServerService]:
    """The services of all namespaces that are named like a Prometheus, headless ones last. Raises SourceError."""
    try:
        found = msgspec.json.decode(run(["get", "services", "--all-namespaces", "--output=json"]), type=_Services)
    except NOT_JSON:
        raise SourceError("kubectl get services: no JSON; give the address of the server by --prometheus") from None
    services = []
    for item in found.items:
        name = item.metadata.name
        port = next((each.port for each in item.spec.ports if each.port in PORTS), None)
        if port is not None and NAMED.search(name) and not NO_SERVER.search(name):
            services.append((item.spec.cluster_ip == "None", ServerService(item.metadata.namespace, name, port)))
    return [service for _, service in sorted(services, key=lambda pair: (pair[0], pair[1].namespace, pair[1].name))]


@contextmanager
def forwarded(service: ServerService) -> Iterator[str | None]:
    """The address of a service on a free local port, for as long; None where kubectl does not forward it in time."""
    words = ["kubectl", "--namespace", service.namespace, "port-forward", f"service/{service.name}", f":{service.port}"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace"
    ) as process:
        late = threading.Timer(SECONDS, process.terminate)
        late.start()
        try:
            assert process.stdout is not None
            lines = (FORWARDING.search(line) for line in process.stdout)
            port = next((found.group(1) for found in lines if found), None)
            late.cancel()
            yield None if port is None else f"http://127.0.0.1:{port}"
        finally:
            late.cancel()
            process.terminate()
