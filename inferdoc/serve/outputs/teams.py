"""Microsoft Teams, by a workflow that takes an Adaptive Card
(https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using)."""

from __future__ import annotations

from typing import Any

import msgspec

from inferdoc.config_sections import OutputSection
from inferdoc.escaping import markdown
from inferdoc.serve.note import Note
from inferdoc.serve.outputs.sending import Outgoing, address

COLOURS = {"critical": "Attention", "warning": "Warning", "info": "Accent", "good": "Good", "unknown": "Default"}


def outgoing(note: Note, section: OutputSection) -> Outgoing:
    """The request. Raises ConfigError."""
    return Outgoing(address(section), msgspec.json.encode(payload(note)))


def payload(note: Note) -> dict[str, Any]:
    """The message. A card takes a subset of Markdown, so the words of others are escaped."""
    body: list[dict[str, Any]] = [
        _text(markdown(note.title), size="Large", weight="Bolder", color=COLOURS[note.colour]),
        {"type": "FactSet", "facts": [{"title": name, "value": markdown(words)} for name, words in note.facts]},
    ]
    body += [_text(f"- {markdown(line)}", spacing="Small") for line in note.evidence]
    body += [_text(f"{number}. {markdown(line)}") for number, line in enumerate(note.steps, start=1)]
    body += [_text(command, fontType="Monospace") for command in map(markdown, note.commands[:1])]
    body.append(_text(f"incident {note.incident}", isSubtle=True, size="Small"))
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": body,
        "actions": [{"type": "Action.OpenUrl", "title": words, "url": url} for words, url in note.links],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attachment]}


def _text(words: str, **style: Any) -> dict[str, Any]:
    return {"type": "TextBlock", "text": words, "wrap": True, **style}
