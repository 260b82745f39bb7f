"""One request of one token, with a deadline: what no metric shows.

An engine that has nothing to do keeps its last gauges, and one that hangs does too. Only a request distinguishes them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import requests

from inferdoc.errors import InferdocError

Outcome = Literal["alive", "slow", "hung", "refused", "down"]
SLOW_SECONDS = 5.0
"""One token for a prompt of one word takes two steps; an engine that needs so long for them has a queue, or is ill."""
MODELS, COMPLETIONS = "/v1/models", "/v1/completions"


@dataclass(frozen=True)
class Probe:
    """outcome: alive (a token came in time), slow (it came late), hung (none came by the deadline), refused (an HTTP
    error), down (no connection); seconds: until the response or the deadline; detail: what the server answered."""

    outcome: Outcome
    seconds: float
    detail: str


def probe(url: str, deadline_s: float, headers: Mapping[str, str] | None = None, model: str | None = None) -> Probe:
    """Send one request of one token to an OpenAI-compatible server. url: without a path; model: of those that the
    server has, the first by default. Raises InferdocError where the server names no model."""
    base, began = url.rstrip("/"), time.monotonic()
    try:
        name = model or _first_model(base, deadline_s, headers)
        body = {"model": name, "prompt": "1", "max_tokens": 1, "temperature": 0}
        answer = requests.post(base + COMPLETIONS, json=body, headers=headers, timeout=deadline_s)
        answer.raise_for_status()
    except requests.HTTPError as error:
        return Probe("refused", time.monotonic() - began, f"HTTP {error.response.status_code}: {_text(error.response)}")
    except requests.Timeout:
        return Probe("hung", time.monotonic() - began, f"no response within {deadline_s:g} s")
    except requests.ConnectionError:
        return Probe("down", time.monotonic() - began, "no connection")
    seconds = time.monotonic() - began
    return Probe("slow" if seconds > SLOW_SECONDS else "alive", seconds, f"one token of {name}")


def _first_model(base: str, deadline_s: float, headers: Mapping[str, str] | None) -> str:
    answer = requests.get(base + MODELS, headers=headers, timeout=deadline_s)
    answer.raise_for_status()
    try:
        listed: Any = answer.json()["data"]
        return str(listed[0]["id"])
    except (ValueError, LookupError, TypeError):
        raise InferdocError(f"{base + MODELS} lists no model; name one with --model") from None


def _text(answer: requests.Response) -> str:
    return " ".join(answer.text.split())[:200] or "no text"
