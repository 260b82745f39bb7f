"""One request of one token, with a deadline: what no metric shows.

An engine that has nothing to do keeps its last gauges, and one that hangs does too. Only a request distinguishes them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import requests

from inferdoc.catalogue.cluster import Outcome
from inferdoc.collect.session import (
    BodyTooLargeError,
    Deadline,
    DeadlineWatch,
    OriginSession,
    RedirectError,
    body_of,
    redirect_text,
)
from inferdoc.errors import NOT_JSON, InferdocError
from inferdoc.escaping import one_line

SLOW_SECONDS = 5.0
"""One token for a prompt of one word takes two steps; an engine that needs so long for them has a queue, or is ill."""
MOST_BYTES = 16 << 20
MODELS, COMPLETIONS = "/v1/models", "/v1/completions"


@dataclass(frozen=True)
class Probe:
    """outcome: alive (a token came in time), slow (it came late), hung (none came by the deadline), refused (an HTTP
    error), down (no connection); seconds: until the response or the deadline; detail: what the server answered."""

    outcome: Outcome
    seconds: float
    detail: str


def probe(url: str, deadline_s: float, headers: Mapping[str, str] | None = None, model: str | None = None) -> Probe:
    """Send one request of one token to an OpenAI-compatible server. url: without a path; headers: sent to the origin of
    the URL only; model: of those that the server has, the first by default. Raises InferdocError where the server names
    no model."""
    base, start = url.rstrip("/"), time.monotonic()
    watch = DeadlineWatch()
    try:
        with OriginSession(base, environment=True) as session, watch.within(deadline_s) as limit:
            session.headers.update(headers or {})
            outcome, detail = _outcome(session, base, deadline_s, model, limit)
    finally:
        watch.close()
    seconds = time.monotonic() - start
    return Probe("slow" if outcome == "alive" and seconds > SLOW_SECONDS else outcome, seconds, detail)


def _outcome(
    session: OriginSession, base: str, deadline_s: float, model: str | None, limit: Deadline
) -> tuple[Outcome, str]:
    """The outcome, but for slow, and the detail."""
    try:
        name = model or _first_model(session, base, deadline_s)
        body = {"model": name, "prompt": "1", "max_tokens": 1, "temperature": 0}
        answer = session.post(base + COMPLETIONS, json=body, timeout=deadline_s, stream=True)
        _read(answer)
        if answer.is_redirect:
            raise RedirectError(redirect_text(base + COMPLETIONS, answer.headers["location"]))
    except (RedirectError, BodyTooLargeError, requests.HTTPError) as error:
        return "refused", str(error)
    except (requests.Timeout, requests.ConnectionError, requests.exceptions.ChunkedEncodingError) as error:
        if limit.expired or isinstance(error, requests.Timeout):
            return "hung", f"no response within {deadline_s:g} s"
        return "down", "no connection"
    return "alive", f"one token of {name}"


def _first_model(session: OriginSession, base: str, deadline_s: float) -> str:
    body = _read(session.get_following(base + MODELS, timeout=deadline_s, stream=True))
    try:
        listed: Any = json.loads(body)["data"]
        return str(listed[0]["id"])
    except (*NOT_JSON, LookupError, TypeError):
        raise InferdocError(f"{base + MODELS} lists no model; name one with --model") from None


def _read(answer: requests.Response) -> bytes:
    """The body. Raises HTTPError, with what the server writes, where the status is an error; BodyTooLargeError."""
    body = body_of(answer, MOST_BYTES)
    if answer.status_code >= 400:
        text = one_line(body.decode("utf-8", "replace"))[:200] or "no text"
        raise requests.HTTPError(f"HTTP {answer.status_code}: {text}")
    return body
