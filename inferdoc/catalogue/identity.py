"""`collectors/identity.yaml`: which labels name what a series is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec

from inferdoc.catalogue.content import content_file
from inferdoc.catalogue.document import decode
from inferdoc.errors import CatalogueError

IDENTITY = "identity.yaml"


class PodLabels(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Labels that name a pod and its namespace. only: they mean this on pages of GPUs alone; unless: not beside this
    label."""

    pod: str
    namespace: str
    only: Literal["gpu"] | None = None
    unless: str | None = None

    def name(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels name a pod so."""
        return bool(labels.get(self.pod)) and self.counts(labels)

    def counts(self, labels: Mapping[str, str]) -> bool:
        """Whether they mean a pod in these labels."""
        return self.unless is None or not labels.get(self.unless)


class IdentityLabels(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """pods: sets of labels that name a pod; cluster, node, host (of GPUs), job, instance: labels that name these, in
    the order in which they are tried; replica: labels of the server that stored a series. engines, gpus, totals: groups
    of series names, the best first; started: the time at which a process started; pod_info, target_info: info series of
    kube-state-metrics and of OTLP; containers: the info series of the image that a container runs; engine_images: a
    regular expression for the images of engines; engine_names, router_names: those for names of pods and jobs."""

    pods: tuple[PodLabels, ...]
    cluster: tuple[str, ...]
    node: tuple[str, ...]
    host: tuple[str, ...]
    job: tuple[str, ...]
    instance: tuple[str, ...]
    replica: tuple[str, ...]
    engines: tuple[tuple[str, ...], ...]
    gpus: tuple[tuple[str, ...], ...]
    totals: tuple[tuple[str, ...], ...]
    started: str
    pod_info: str
    target_info: str
    containers: str
    engine_images: str
    engine_names: str
    router_names: str

    @property
    def markers(self) -> tuple[str, ...]:
        """Gauges by which an inference fleet is recognised if `up` does not show it."""
        return (*self.engines[-1], self.gpus[0][0])

    @property
    def series(self) -> set[str]:
        """Every series name."""
        groups = (*self.engines, *self.gpus, *self.totals)
        return {self.started, self.pod_info, self.target_info}.union(*groups)


def load_identity(overlays: Iterable[str | Path] = ()) -> IdentityLabels:
    """The declared labels, those of the last overlay that has the file."""
    return _load(tuple(Path(overlay) for overlay in overlays))


@lru_cache(maxsize=8)
def _load(overlays: tuple[Path, ...]) -> IdentityLabels:
    path = content_file("collectors", IDENTITY, overlays)
    if path is None:
        raise CatalogueError(f"collectors/{IDENTITY}: not found; it says which labels name a pod")
    return decode(path, IdentityLabels)
