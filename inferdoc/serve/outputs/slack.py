"""Slack: an incoming webhook, or with a bot token one thread per incident.

https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
https://docs.slack.dev/reference/methods/chat.postMessage

With a token, the first run posts a message. Every later run replaces this message, so that the channel shows the
current state, and adds a reply, so that the thread is the history."""

from __future__ import annotations

from typing import Any

import msgspec

from inferdoc.config_sections import OutputSection
from inferdoc.escaping import slack, slack_code, slack_link
from inferdoc.serve.note import Note
from inferdoc.serve.outputs.sending import Outgoing, PostError, address, secret, send

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


API = "https://slack.com/api"
GONE = ("message_not_found", "thread_not_found", "cant_update_message")
"""Errors after which the incident gets a new thread."""
FAULTS_OF_MESSAGE = ("invalid_blocks", "invalid_blocks_format", "msg_too_long", "no_text")
"""Errors that a retry repeats."""


class _Response(msgspec.Struct):
    ok: bool
    error: str = ""
    channel: str = ""
    ts: str = ""


class _Thread(msgspec.Struct):
    """channel: its id, which updates need instead of the name; ts: of the first message."""

    channel: str
    ts: str


def post(note: Note, section: OutputSection, reference: str | None) -> str:
    """Start the thread of an incident, or update it. reference: what the last call returned, None before the first.

    Raises PostError and ConfigError.
    """
    message = payload(note)
    if reference is not None:
        thread = msgspec.json.decode(reference, type=_Thread)
        try:
            _call("chat.update", {"channel": thread.channel, "ts": thread.ts, **message}, section)
            _call("chat.postMessage", {"channel": thread.channel, "thread_ts": thread.ts, **message}, section)
            return reference
        except _GoneError:
            pass
    started = _call("chat.postMessage", {"channel": section.channel, **message}, section)
    return msgspec.json.encode(_Thread(started.channel, started.ts)).decode()


class _GoneError(PostError):
    """The message of the thread was deleted."""


def _call(method: str, body: dict[str, Any], section: OutputSection) -> _Response:
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "Authorization": f"Bearer {secret(section.token_file, 'token_file')}",
    }
    url = f"{address(section, API).rstrip('/')}/{method}"
    try:
        found = msgspec.json.decode(
            send(Outgoing(url, msgspec.json.encode(body), headers), section.ca_file), type=_Response
        )
    except msgspec.DecodeError:
        raise PostError(f"{method}: the response is not of the Slack API; check url") from None
    if not found.ok:
        kind = _GoneError if found.error in GONE else PostError
        raise kind(f"{method}: {found.error[:100]}", final=found.error in FAULTS_OF_MESSAGE)
    return found
