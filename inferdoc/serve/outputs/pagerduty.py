"""PagerDuty, Events API v2 (https://developer.pagerduty.com/docs/send-alert-event)."""

from __future__ import annotations

from typing import Any

import msgspec

from inferdoc.config_sections import OutputSection
from inferdoc.serve.note import Note
from inferdoc.serve.outputs.sending import Outgoing, address, secret
from inferdoc.times import rfc3339

EVENTS = "https://events.pagerduty.com/v2/enqueue"
MOST_SUMMARY = 1_024


def outgoing(note: Note, section: OutputSection) -> Outgoing:
    """The request. Raises ConfigError."""
    event = payload(note) | {"routing_key": secret(section.token_file, "token_file")}
    return Outgoing(address(section, EVENTS), msgspec.json.encode(event))


def payload(note: Note) -> dict[str, Any]:
    """The event without its routing key: one alert of PagerDuty for each incident, ended when that ends."""
    event: dict[str, Any] = {"event_action": "trigger", "dedup_key": f"inferdoc-{note.incident}"}
    if note.state == "resolved":
        return event | {"event_action": "resolve"}
    details = {
        **dict(note.facts),
        "evidence": list(note.evidence),
        "next": list(note.steps),
        "commands": list(note.commands),
    }
    return event | {
        "client": "inferdoc",
        "links": [{"href": url, "text": words} for words, url in note.links],
        "payload": {
            "summary": note.title[:MOST_SUMMARY],
            "source": dict(note.facts).get("where") or note.incident,
            "severity": note.severity,
            "timestamp": rfc3339(note.opened, "seconds"),
            "component": "inferdoc",
            "class": note.cause or "unknown",
            "custom_details": {name: words for name, words in details.items() if words},
        },
    }
