"""Finds a Prometheus that responds here, for a command that was given no source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing

import requests

from inferdoc.collect.session import DeadlineWatch, OriginSession, body_of
from inferdoc.errors import NOT_JSON

LOCAL = "http://localhost:9090"
DEADLINE_SECONDS = 0.5
MOST_TRIED = 4
MOST_BYTES = 1 << 20
IN_CLUSTER = re.compile(r"(\w*(?:PROMETHEUS|THANOS_QUERY|VMSINGLE|VMSELECT|MIMIR)\w*)_SERVICE_HOST")
"""Kubernetes sets NAME_SERVICE_HOST and NAME_SERVICE_PORT for every service of the namespace of a pod."""


def no_source(environment: Mapping[str, str]) -> str:
    """What to do without a source, in one line; it names a server that responds here."""
    found = responding([LOCAL, *in_cluster(environment)])
    here = f"; a Prometheus responds at {found}: add --prometheus {found}" if found else ""
    return (
        "no source: run inferdoc init, give --prometheus URL or --store PATH, set INFERDOC_PROMETHEUS_URL, or set "
        f"prometheus under [source] in inferdoc.toml{here}"
    )


def in_cluster(environment: Mapping[str, str]) -> Iterator[str]:
    """Addresses of the services that are named like a server with the Prometheus API."""
    for name, host in sorted(environment.items()):
        found = IN_CLUSTER.fullmatch(name)
        port = environment.get(f"{found.group(1)}_SERVICE_PORT", "") if found else ""
        if host and port.isdigit():
            yield f"http://{host}:{port}"


def responding(addresses: Iterable[str], deadline: float = DEADLINE_SECONDS) -> str | None:
    """The first address that answers a query, of the first few; None where none does."""
    with closing(DeadlineWatch()) as watch:
        for address, _ in zip(addresses, range(MOST_TRIED), strict=False):
            if _responds(address, deadline, watch):
                return address
    return None


def _responds(address: str, deadline: float, watch: DeadlineWatch) -> bool:
    try:
        with OriginSession(address, environment=False) as session, watch.within(deadline):
            response = session.get(f"{address}/api/v1/query?query=1", timeout=deadline, stream=True)
            return bool(response.ok and json.loads(body_of(response, MOST_BYTES)).get("status") == "success")
    except (requests.RequestException, AttributeError, *NOT_JSON):
        return False
