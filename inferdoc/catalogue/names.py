"""How series and labels are named: `collectors/identity.yaml`, which labels name what a series is about, and
`collectors/names.yaml`, how names of series change between an exporter and a source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec

from inferdoc.catalogue.content import content_file
from inferdoc.catalogue.document import decode_file
from inferdoc.catalogue.validate import check_pattern
from inferdoc.errors import CatalogueError

NAMES, IDENTITY = "names.yaml", "identity.yaml"
LEGACY = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
"""A name that PromQL takes without quotes."""


class Prefix(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A word in front of the names of an engine. title: who puts it there."""

    prefix: str
    title: str
    source: str


class Rewrite(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """find: a regular expression over a whole name; put: the name that it stands for."""

    title: str
    find: str
    put: str
    source: str


class UnitForm(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A unit as it is written in a name, the declared one, and the factor from the first to the second."""

    written: str
    declared: str
    factor: float


class UnreadEngine(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A server of models that nobody declared. find: a regular expression for the beginning of its names."""

    title: str
    find: str
    source: str


class NameForms(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """separators: characters between words; counters: endings in the place of `_total`; page_families: declared
    families that make an undeclared prefix a page; engine_like, engine_queue, engine_tokens: what follows the first
    word of an engine's names: its state, a queue, and tokens; engine_families: states that make a word an engine;
    unread_engines: those of which nothing is read."""

    separators: str
    prefixes: tuple[Prefix, ...]
    rewrites: tuple[Rewrite, ...]
    counters: tuple[str, ...]
    units: tuple[UnitForm, ...]
    page_families: int
    engine_like: str
    engine_families: int
    engine_queue: str
    engine_tokens: str
    unread_engines: tuple[UnreadEngine, ...]

    def spelled(self, name: str) -> tuple[str, ...]:
        """A declared name under every prefix and with every separator that PromQL takes without quotes: for questions
        to a server of which nobody has seen the names."""
        forms = dict.fromkeys(name.replace(":", each) for each in (":", *self.separators))
        words = ("", *(f"{each.prefix}_" for each in self.prefixes))
        return tuple(full for word in words for form in forms if LEGACY.fullmatch(full := word + form))


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
    """pods: sets of labels that name a pod; subjects: labels of the namespace that a page describes; cluster, node,
    host (of GPUs), job, instance: labels that name these, in the order in which they are tried; replica: labels of the
    server that stored a series. engines, gpus, totals: groups of series names, the best first; started: the time at
    which a process started; pod_info, target_info: info series of kube-state-metrics and of OTLP; containers: the info
    series of the image that a container runs; engine_images: a regular expression for the images of engines;
    engine_names, router_names, companion_names: those for names of pods and jobs."""

    pods: tuple[PodLabels, ...]
    subjects: tuple[str, ...]
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
    companion_names: str

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
    """The declared labels, those of the last overlay that has the file. Raises CatalogueError."""
    return _identity(tuple(map(Path, overlays)))


@lru_cache(maxsize=8)
def _identity(overlays: tuple[Path, ...]) -> IdentityLabels:
    return decode_file("collectors", IDENTITY, IdentityLabels, overlays, says="it says which labels name a pod")


def load_name_forms(overlays: Iterable[str | Path] = ()) -> NameForms:
    """The declared transformations, those of the last overlay that has the file. Raises CatalogueError."""
    return _name_forms(tuple(map(Path, overlays)))


@lru_cache(maxsize=8)
def _name_forms(overlays: tuple[Path, ...]) -> NameForms:
    forms = decode_file("collectors", NAMES, NameForms, overlays, says="it says how names of series are read")
    patterns = {name: getattr(forms, name) for name in ("engine_like", "engine_queue", "engine_tokens")}
    patterns |= {each.title: each.find for each in forms.rewrites}
    patterns |= {each.title: each.find for each in forms.unread_engines}
    for problem in (problem for where, one in patterns.items() for problem in check_pattern(one, (where,))):
        raise CatalogueError(f"{content_file('collectors', NAMES, overlays)}: {problem}; correct it")
    return forms
