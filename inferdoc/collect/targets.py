"""Whoever says what to scrape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from inferdoc.collect.discovery import Target


class TargetProvider(Protocol):
    """Says what to scrape; `inferdoc.collect.discovery.Discovery` is one."""

    @property
    def problems(self) -> Sequence[str]:
        """What is wrong with the sources of targets now, one line each."""

    def targets(self) -> Sequence[Target]:
        """The targets as they stand now. Asked every few seconds."""
