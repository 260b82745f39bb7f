"""The JSON API of incidents and its OpenAPI document, from the same classes."""

from __future__ import annotations

from typing import Any

import msgspec

from inferdoc.incidents.model import AlertScope, DiagnosisRun, Incident, Story
from inferdoc.judging.model import Diagnosis
from inferdoc.serve.pools import PoolSummary
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


_PATHS: dict[str, tuple[str, type[Any], tuple[str, ...]]] = {
    "/api/v1/incidents": ("The newest incidents.", IncidentsShown, ()),
    "/api/v1/incidents/{id}": ("One incident with its diagnosis runs.", IncidentShown, ("id",)),
    "/api/v1/incidents/{id}/diagnosis": ("The last diagnosis of the incident.", Diagnosis, ("id",)),
    "/api/v1/fleet": ("The last diagnosis of the whole fleet.", FleetShown, ()),
}
"""Path -> summary, response class, path parameters."""


def openapi() -> dict[str, Any]:
    """The OpenAPI 3.1 document of the API."""
    kinds: list[type[Any]] = [*dict.fromkeys(kind for _, kind, _ in _PATHS.values()), ApiProblem]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    ref = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, Any] = {}
    for path, (words, kind, names) in _PATHS.items():
        answers = {
            "200": _answer("The answer.", ref[kind]),
            "401": {"description": "Credentials are required."},
        }
        if names:
            answers["404"] = _answer("The incident is unknown, or has no finished diagnosis yet.", ref[ApiProblem])
        paths[path] = {
            "get": {
                "summary": words,
                "parameters": [
                    {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
                ],
                "responses": answers,
            }
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "inferdoc", "version": __version__, "description": "Read-only. Times are RFC 3339 in UTC."},
        "paths": paths,
        "components": {"schemas": components},
    }


def _answer(words: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": schema}}}
