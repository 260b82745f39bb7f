"""The JSON API of incidents, and the OpenAPI document of all routes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.routing import BaseRoute, Route

from inferdoc.incidents.intake import Outcome
from inferdoc.incidents.model import AlertScope, DiagnosisRun, Incident, Story
from inferdoc.serve.run_process import PoolSummary
from inferdoc.times import rfc3339
from inferdoc.version import __version__


class AlertShown(msgspec.Struct):
    """One alert of an incident. Times are RFC 3339."""

    name: str
    fingerprint: str
    labels: dict[str, str]
    starts: str
    ends: str | None


class LookShown(msgspec.Struct):
    """One diagnosis run of an incident. number: key of its document; failure: why it has no result."""

    number: int
    why: str
    state: str
    asked: str
    window_from: str | None
    window_until: str | None
    story: Story | None
    failure: str | None


class IncidentShown(msgspec.Struct):
    """An incident: alerts and diagnosis runs. Times are RFC 3339; resolved is null while it is open."""

    id: str
    tenant: str
    place: AlertScope
    opened: str
    resolved: str | None
    reopened: int
    ended_by: str | None
    story: Story | None
    alerts: list[AlertShown]
    looks: list[LookShown] = []


class IncidentsShown(msgspec.Struct):
    """The newest first."""

    incidents: list[IncidentShown]


class FleetShown(msgspec.Struct):
    """The last diagnosis of the whole fleet. at: RFC 3339, null if there is none."""

    at: str | None
    verdict: str | None
    summary: str | None
    pools: list[PoolSummary]
    trouble: str | None


class Accepted(msgspec.Struct):
    """What became of a webhook: accepted, merged (into a known incident) or ignored."""

    result: Outcome


class ApiProblem(msgspec.Struct):
    """An error in one line."""

    error: str


def describe_incident(incident: Incident, runs: list[DiagnosisRun] | None = None) -> IncidentShown:
    """Convert an incident to its API form."""
    return IncidentShown(
        incident.id,
        incident.tenant,
        incident.place,
        _time(incident.opened),
        None if incident.resolved is None else _time(incident.resolved),
        incident.reopened,
        incident.ended_by,
        incident.story,
        [
            AlertShown(a.name, a.fingerprint, a.labels, _time(a.starts), None if a.ends is None else _time(a.ends))
            for a in incident.alerts
        ],
        [
            LookShown(k.number, k.why, k.state, _time(k.requested), k.from_, k.until, k.story, k.failure)
            for k in runs or ()
        ],
    )


def _time(seconds: float) -> str:
    return rfc3339(seconds, "seconds")


@dataclass(frozen=True)
class Operation:
    """One route of the service, for its OpenAPI document.

    summary: one sentence; body: class of the response, or str for text of this media type; request: class of the
    request body, None without one; problems: words by HTTP status other than 200; open: needs no credentials.
    """

    summary: str
    body: Any
    media: str = "application/json"
    request: Any = None
    problems: Mapping[int, str] = field(default_factory=dict)
    open: bool = False


class DescribedRoute(Route):
    """A route with its operation."""

    def __init__(self, path: str, endpoint: Callable[..., Any], operation: Operation, method: str = "GET") -> None:
        super().__init__(path, endpoint, methods=[method])
        self.operation = operation
        self.method = method


def openapi(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """The OpenAPI 3.1 document of described routes."""
    described = [route for route in routes if isinstance(route, DescribedRoute)]
    kinds = dict.fromkeys(
        kind for route in described for kind in (route.operation.body, route.operation.request) if _is_schema(kind)
    )
    kinds[ApiProblem] = None
    schemas, components = msgspec.json.schema_components(list(kinds), ref_template="#/components/schemas/{name}")
    ref = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in described:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, ref)
    return {
        "openapi": "3.1.0",
        "info": {"title": "inferdoc serve", "version": __version__, "description": "Times are RFC 3339 in UTC."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {name: {"type": "http", "scheme": name} for name in ("bearer", "basic")},
        },
        "security": [{}, {"bearer": []}, {"basic": []}],
    }


def _operation(route: DescribedRoute, ref: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    known = route.operation
    responses = {"200": _content("Success.", known.media, ref.get(known.body, {"type": "string"}))}
    if not known.open:
        responses["401"] = {"description": "Credentials are required."}
    for status, words in known.problems.items():
        problem = known.media == "application/json"
        responses[str(status)] = _content(words, known.media, ref[ApiProblem] if problem else {"type": "string"})
    described: dict[str, Any] = {"summary": known.summary, "responses": responses}
    names = sorted(route.param_convertors)
    if names:
        described["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    if known.request is not None:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": ref[known.request]}}}
    return described | ({"security": []} if known.open else {})


def _is_schema(kind: Any) -> bool:
    return kind is not None and kind is not str


def _content(words: str, media: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": words, "content": {media: {"schema": schema}}}
