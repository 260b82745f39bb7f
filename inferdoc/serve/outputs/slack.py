"""Slack, by an incoming webhook (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks)."""

from __future__ import annotations

from typing import Any

import msgspec

from inferdoc.config_sections import OutputSection
from inferdoc.serve.note import Note
from inferdoc.serve.outputs.sending import Outgoing, address

MOST_TEXT, MOST_TITLE = 2_900, 150
MARKS = {"critical": "🔴", "warning": "🟠", "info": "🔵", "good": "🟢", "unknown": "⚪"}
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""All that Slack asks for: https://docs.slack.dev/messaging/formatting-message-text#escaping"""


def outgoing(note: Note, section: OutputSection) -> Outgoing:
    """The request. Raises ConfigError."""
    return Outgoing(address(section), msgspec.json.encode(payload(note)))


def payload(note: Note) -> dict[str, Any]:
    """The message: blocks for people, and `text` for notifications."""
    title = f"{MARKS[note.colour]} {note.title}"
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": _cut(title, MOST_TITLE), "emoji": True}}
    ]
    facts = "\n".join(f"*{name}*  {safe(words)}" for name, words in note.facts)
    evidence = "\n".join(f"• {safe(line)}" for line in note.evidence)
    steps = "\n".join(f"{number}. {safe(line)}" for number, line in enumerate(note.steps, start=1))
    commands = "\n".join(f"```{escaped(command)}```" for command in note.commands[:1])
    for words in (facts, evidence and f"*Why*\n{evidence}", steps and f"*Next*\n{steps}", commands):
        if words:
            blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": _cut(words, MOST_TEXT)}})
    links = "  ·  ".join(f"<{_href(url)}|{words}>" for words, url in note.links)
    below = f"{links}  ·  incident {note.incident}" if links else f"incident {note.incident}"
    blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": below}]})
    return {"text": _cut(safe(title), MOST_TEXT), "blocks": blocks}


def escaped(words: str) -> str:
    """Words that make no mention, link or channel call."""
    return words.translate(_ESCAPES).replace("```", "ˋˋˋ")


def safe(words: str) -> str:
    """Words of others in running text: no mention, no link, no emphasis."""
    return words.translate(_ESCAPES).replace("*", "∗").replace("~", "∼").replace("`", "ˋ")


def _href(url: str) -> str:
    return url.translate(_ESCAPES).replace("|", "%7C")


def _cut(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"
