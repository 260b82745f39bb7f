"""What of a store is damaged and was left out of an answer: of which target, from when to when, and how it shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from inferdoc.store.codec import DamagedError
from inferdoc.store.seal import Owner
from inferdoc.times import moment_text


@dataclass(frozen=True)
class Damage:
    """target: pod or instance; span_ms: times of the first and last scrape that are left out; scrapes: how many; both
    None if unknown; what: is damaged, and how it shows."""

    target: str
    span_ms: tuple[int, int] | None
    scrapes: int | None
    what: str

    def line(self) -> str:
        """For people: `vllm-0 from 2026-11-22T13:00:05Z to 2026-11-22T13:04:50Z (20 scrapes): the page ...`."""
        count = "" if self.scrapes is None else f" ({self.scrapes} scrape{'s' * (self.scrapes != 1)})"
        times = (
            "" if self.span_ms is None else f" from {moment_text(self.span_ms[0])} to {moment_text(self.span_ms[1])}"
        )
        return f"{self.target}{times}{count}: {self.what}"


class DamageLog:
    """What reads came across, each thing once. found: by target, what is damaged of it, and the hour it is part of."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, str, int | None], Damage] = {}

    def note(
        self,
        owner: Owner,
        labels: Mapping[str, str],
        span_ms: tuple[int, int] | None,
        scrapes: int | None,
        error: DamagedError,
        segment: int | None = None,
    ) -> None:
        """Take down what a read left out. segment: the one that it is part of, None for pages. A later read that looks
        further sees more of the same."""
        name = labels.get("pod") or labels.get("instance") or f"target {owner.id}"
        key = owner.id, str(error), segment
        known = self.found.get(key)
        if known is not None and known.span_ms and span_ms:
            span_ms = min(span_ms[0], known.span_ms[0]), max(span_ms[1], known.span_ms[1])
            scrapes = max((each for each in (scrapes, known.scrapes) if each is not None), default=None)
        self.found[key] = Damage(name, span_ms, scrapes, str(error))
