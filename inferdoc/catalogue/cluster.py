"""`collectors/cluster.yaml`: what Kubernetes or a probe shows of a pod, and the causes it supports or contradicts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from inferdoc.catalogue.document import decode_file
from inferdoc.catalogue.validate import Problem, check_known, check_pattern

CLUSTER = "cluster.yaml"
Outcome = Literal["alive", "slow", "hung", "refused", "down"]
"""Of a request of one token with a deadline (`inferdoc.collect.probe`)."""


class Sign(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """says: the fact as a sentence; terminated, waiting, events: reasons, of which any is enough; message: a regular
    expression for the words of such an event; log: one for a line of the container before; probe: outcomes of a
    request; speaks_for, speaks_against: causes."""

    says: str
    speaks_for: tuple[str, ...] = ()
    speaks_against: tuple[str, ...] = ()
    terminated: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    message: str = ""
    log: str | None = None
    probe: tuple[Outcome, ...] = ()


class Signs(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Signs by name."""

    signs: dict[str, Sign] = {}

    def problems(self, causes: Collection[str]) -> Iterator[Problem]:
        """Causes that are none, and expressions that do not compile."""
        for name, sign in self.signs.items():
            at = ("signs", name)
            for key, named in (("speaks_for", sign.speaks_for), ("speaks_against", sign.speaks_against)):
                for cause in named:
                    yield from check_known(cause, causes, (*at, key), "cause")
            for key, text in (("message", sign.message), ("log", sign.log or "")):
                yield from check_pattern(text, (*at, key))


def load_signs(overlays: tuple[Path, ...]) -> Mapping[str, Sign]:
    """The signs of the last overlay that has the file, else the shipped ones."""
    return decode_file("collectors", CLUSTER, Signs, overlays).signs
