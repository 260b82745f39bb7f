"""labels.json beside recordings: what was done in each, and what an answer may call it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from inferdoc.errors import NOT_JSON, InferdocError

FILE = "labels.json"


class Told(msgspec.Struct, frozen=True):
    """One recording.

    expected: causes that are right, the preferred one first; edge_accepts: others that may be named; healthy_pods:
    pods that nothing may be said of; onset: of the mechanism; onset_latest: when its harm is first seen, where that is
    later; both seconds since the epoch.
    """

    file: str
    control: bool
    expected: tuple[str, ...] = ()
    healthy_pods: tuple[str, ...] = ()
    onset: float | None = None
    onset_latest: float | None = None
    end: float | None = None
    severity: str | None = None
    edge_accepts: tuple[str, ...] | None = None
    also_expected: tuple[str, ...] | None = None

    @property
    def accepted(self) -> frozenset[str]:
        """Causes that may be named."""
        return frozenset((*self.expected, *(self.edge_accepts or ()), *(self.also_expected or ()))) - {"none"}

    @property
    def impact(self) -> float | None:
        """When users first feel it."""
        return self.onset if self.onset_latest is None else self.onset_latest


class _Labels(msgspec.Struct):
    recordings: tuple[Told, ...]


def read_labels(folder: Path) -> tuple[Told, ...]:
    """The labels of a folder of recordings. Raises InferdocError where they cannot be read."""
    path = folder / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Labels).recordings
    except OSError as error:
        raise InferdocError(f"{path}: cannot be read: {error.strerror}") from None
    except NOT_JSON as error:
        raise InferdocError(f"{path}: {error}") from None
