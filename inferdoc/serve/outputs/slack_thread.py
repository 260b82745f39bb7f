"""One Slack thread per incident, by a bot token (https://docs.slack.dev/reference/methods/chat.postMessage).

The first run posts a message. Every later run replaces this message, so that the channel shows the current state, and
adds a reply, so that the thread is the history.
"""

from __future__ import annotations

from typing import Any

import msgspec

from inferdoc.config_sections import OutputSection
from inferdoc.serve.note import Note
from inferdoc.serve.outputs.sending import Outgoing, PostError, address, secret, send
from inferdoc.serve.outputs.slack import payload

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
