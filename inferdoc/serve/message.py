"""What Alertmanager sends to a webhook, version 4, read with care: any part of it may be anybody's.

https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from datetime import datetime
from typing import Literal

import msgspec

from inferdoc.errors import NOT_JSON, InferdocError
from inferdoc.escaping import is_web
from inferdoc.incidents.model import ReceivedAlert

LONGEST_TEXT = 2_000
MOST_LABELS = 128
OLDEST_SECONDS = 366 * 86_400.0
"""An alert with an earlier start, or one in the future, has a wrong clock: its start is set to now."""


class MessageError(InferdocError):
    """The body is no webhook of Alertmanager."""


class WebhookAlert(msgspec.Struct):
    """One alert of a webhook; other keys are ignored."""

    status: Literal["firing", "resolved"]
    labels: dict[str, str]
    starts: datetime = msgspec.field(name="startsAt")
    annotations: dict[str, str] = {}
    ends: datetime | None = msgspec.field(name="endsAt", default=None)
    url: str = msgspec.field(name="generatorURL", default="")
    fingerprint: str = ""


class Webhook(msgspec.Struct):
    """The body that Alertmanager sends; other keys are ignored."""

    version: str
    alerts: list[WebhookAlert]


_DECODER = msgspec.json.Decoder(Webhook)


def read_alerts(body: bytes, now: float, ignore: Collection[str] = ()) -> tuple[list[ReceivedAlert], list[str]]:
    """The alerts of a message, and the names of those that are ignored. Raises MessageError: one line."""
    try:
        message = _DECODER.decode(body)
    except NOT_JSON as error:
        raise MessageError(f"not an Alertmanager webhook: {error}") from None
    if message.version != "4":
        raise MessageError(f"version {message.version[:20]!r} of the webhook is not supported; use version 4")
    every = [_received(alert, now) for alert in message.alerts]
    return [one for one in every if one.name not in ignore], [one.name for one in every if one.name in ignore]


def _received(alert: WebhookAlert, now: float) -> ReceivedAlert:
    labels = _short(alert.labels)
    starts = _seconds(alert.starts, now)
    ends = None
    if alert.status == "resolved":
        ends = max(starts, now if alert.ends is None else min(now, _seconds(alert.ends, now)))
    mark = alert.fingerprint[:64]
    if not mark:
        mark = hashlib.blake2b(msgspec.json.encode(labels, order="sorted"), digest_size=8).hexdigest()
    url = alert.url if is_web(alert.url) and len(alert.url) <= LONGEST_TEXT else ""
    name = labels.get("alertname", "(no alertname)")
    return ReceivedAlert(mark, name, labels, _short(alert.annotations), starts, ends, url)


def _short(texts: dict[str, str]) -> dict[str, str]:
    """Lone surrogates, which no file takes, are replaced; what is too long is cut."""
    return {_clean(name)[:200]: _clean(text)[:LONGEST_TEXT] for name, text in list(texts.items())[:MOST_LABELS]}


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _seconds(moment: datetime, now: float) -> float:
    """Unix seconds; now where it cannot be."""
    try:
        seconds = moment.timestamp()
    except (OverflowError, ValueError, OSError):
        return now
    return seconds if now - OLDEST_SECONDS <= seconds <= now else now
