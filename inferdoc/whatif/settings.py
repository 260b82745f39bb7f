"""Settings as users write them: `--set replicas=4`, `--now max-num-seqs=256`. A key that does not exist, or a value
that nobody can mean, is one line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, get_args

from inferdoc.catalogue.document import nearest
from inferdoc.errors import InferdocError
from inferdoc.simulate.scenario import Policy

LONGEST_DRAFT = 16
MOST_FACTOR = 10.0
MOST_REPLICAS = 1000


@dataclass(frozen=True)
class SettingKey:
    """expected: of its value, in words; read: the value of a text, None for one that cannot be; now: whether it may be
    given for the pool as it is; set: whether it may be changed."""

    expected: str
    read: Callable[[str], Any]
    now: bool = False
    set: bool = True


def _whole(least: int, most: int, none: bool = False) -> Callable[[str], Any]:
    """none: 0 counts as well."""

    def read(text: str) -> int | None:
        value = int(text)
        return value if least <= value <= most or (none and value == 0) else None

    return read


def _factor(text: str) -> float | None:
    value = float(text.removeprefix("x"))
    return value if math.isfinite(value) and 1 / MOST_FACTOR <= value <= MOST_FACTOR else None


def _one_of(words: Iterable[str]) -> Callable[[str], Any]:
    known = tuple(words)
    return lambda text: text if text in known else None


def _shares(text: str) -> tuple[float, ...] | None:
    shares = tuple(float(part) for part in text.split(","))
    falling = all(earlier >= later for earlier, later in pairwise(shares))
    return shares if len(shares) <= LONGEST_DRAFT and falling and all(0 <= each <= 1 for each in shares) else None


SIDES = ("prefill", "decode")
BOTH_SIDES = ("kv-dtype", "router", "traffic", "prompts", "answers")
"""Keys of both sides at once, where prefill and decode are apart: what is read there must be as it is written here."""
DECODE_ONLY = ("draft-tokens", "accepted")
TRAFFIC = f"a factor of {1 / MOST_FACTOR:g} to {MOST_FACTOR:g}"
POLICIES: tuple[str, ...] = get_args(Policy)
KEYS: dict[str, SettingKey] = {
    "replicas": SettingKey(f"pods, 1 to {MOST_REPLICAS}", _whole(1, MOST_REPLICAS)),
    "tier": SettingKey("a hardware tier: h100-80", str.lower),
    "max-num-seqs": SettingKey("requests, 1 to 65536", _whole(1, 65536), now=True),
    "batch-tokens": SettingKey("tokens of a step, 64 to 1048576", _whole(64, 2**20), now=True),
    "chunk-tokens": SettingKey(
        "tokens of one prompt in a step, 16 to 1048576, or 0 for no limit", _whole(16, 2**20, none=True), now=True
    ),
    "kv-tokens": SettingKey("tokens of one pod's KV cache, 1000 to 1000000000", _whole(1000, 10**9), now=True),
    "kv-dtype": SettingKey("bf16 or fp8", _one_of(("bf16", "fp8"))),
    "router": SettingKey(f"one of {', '.join(POLICIES)}", _one_of(POLICIES), now=True),
    "draft-tokens": SettingKey(f"drafted tokens of a step, 0 to {LONGEST_DRAFT}", _whole(0, LONGEST_DRAFT)),
    "accepted": SettingKey("shares of 0 to 1 by position, none above the one before: 0.8,0.6,0.42", _shares, now=True),
    "traffic": SettingKey(TRAFFIC, _factor),
    "prompts": SettingKey(f"{TRAFFIC} on the length of prompts", _factor),
    "answers": SettingKey(f"{TRAFFIC} on the length of answers", _factor),
}


def side_of(key: str) -> tuple[str | None, str]:
    """prefill.replicas -> (prefill, replicas); the side is None where the key names none."""
    side, dot, own = key.partition(".")
    return (side, own) if dot and side in SIDES else (None, key)


def refuse_sides(settings: Mapping[str, Any], flag: str, pool: str) -> None:
    """Raises InferdocError where settings name a side of a pool that has none."""
    for key in settings:
        side, own = side_of(key)
        if side is not None:
            raise InferdocError(
                f"{flag} {key}: the pods of {pool} do both phases, so it has no {side} side: {flag} {own}=...; whether "
                "parting them would pay says `inferdoc headroom`"
            )


def of_side(settings: Mapping[str, Any], side: str) -> dict[str, Any]:
    """Settings of one side, by key without it: its own and those of both."""
    found = {}
    for key, value in settings.items():
        named, own = side_of(key)
        if named == side or (named is None and not (own in DECODE_ONLY and side != "decode")):
            found[own] = value
    return found


def settings_for_request(texts: Iterable[str], flag: str, of_now: bool = False) -> dict[str, Any]:
    """Key -> value of `KEY=VALUE` texts. flag: the option they came with; of_now: only keys of the pool as it is.
    Raises InferdocError."""
    known: Mapping[str, SettingKey] = {key: each for key, each in KEYS.items() if (each.now if of_now else each.set)}
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not value:
            raise InferdocError(f"{flag} {text}: expected KEY=VALUE, KEY one of {', '.join(known)}")
        side, own = side_of(key)
        if own not in known or (side is not None and own in BOTH_SIDES):
            raise InferdocError(f'{flag} {text}: no setting "{key}"{nearest(own, known)}; known: {", ".join(known)}')
        if key in found:
            raise InferdocError(f"{flag} {key}: given twice")
        try:
            read = known[own].read(value)
        except ValueError:
            read = None
        if read is None:
            raise InferdocError(f"{flag} {text}: expected {known[own].expected}")
        found[key] = read
    return found
