"""Slack, by an incoming webhook (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks)."""

from __future__ import annotations

from typing import Any

import msgspec

from inferdoc.config_sections import OutputSection
from inferdoc.escaping import slack, slack_code, slack_link
from inferdoc.serve.note import Note
from inferdoc.serve.outputs.sending import Outgoing, address

MOST_TEXT, MOST_TITLE = 2_900, 150
MARKS = {"critical": "🔴", "warning": "🟠", "info": "🔵", "good": "🟢", "unknown": "⚪"}


def outgoing(note: Note, section: OutputSection) -> Outgoing:
    """The request. Raises ConfigError."""
    return Outgoing(address(section), msgspec.json.encode(payload(note)))


def payload(note: Note) -> dict[str, Any]:
    """The message: blocks for people, and `text` for notifications."""
    title = f"{MARKS[note.colour]} {note.title}"
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": _cut(title, MOST_TITLE), "emoji": True}}
    ]
    facts = "\n".join(f"*{name}*  {slack(words)}" for name, words in note.facts)
    evidence = "\n".join(f"• {slack(line)}" for line in note.evidence)
    steps = "\n".join(f"{number}. {slack(line)}" for number, line in enumerate(note.steps, start=1))
    commands = "\n".join(map(slack_code, note.commands[:1]))
    for words in (facts, evidence and f"*Why*\n{evidence}", steps and f"*Next*\n{steps}", commands):
        if words:
            blocks.append({"type": "section", "text": _mrkdwn(_cut(words, MOST_TEXT))})
    links = "  ·  ".join(slack_link(words, url) for words, url in note.links)
    below = f"{links}  ·  incident {note.incident}" if links else f"incident {note.incident}"
    blocks.append({"type": "context", "elements": [_mrkdwn(below)]})
    return {"text": _cut(slack(title), MOST_TEXT), "blocks": blocks}


def _mrkdwn(words: str) -> dict[str, Any]:
    """verbatim: Slack makes no links of addresses and names of channels."""
    return {"type": "mrkdwn", "text": words, "verbatim": True}


def _cut(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"
