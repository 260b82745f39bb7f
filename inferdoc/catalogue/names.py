"""`collectors/names.yaml`: how names of series change between an exporter and a source."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import msgspec

from inferdoc.catalogue.content import content_file
from inferdoc.catalogue.document import decode
from inferdoc.errors import CatalogueError

NAMES = "names.yaml"
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


class NameForms(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """separators: characters between words; counters: endings in the place of `_total`; page_families: declared
    families that make an undeclared prefix a page; engine_like: what follows the first word of an engine's names;
    engine_families: families of that shape that make a word an engine."""

    separators: str
    prefixes: tuple[Prefix, ...]
    rewrites: tuple[Rewrite, ...]
    counters: tuple[str, ...]
    units: tuple[UnitForm, ...]
    page_families: int
    engine_like: str
    engine_families: int

    def spelled(self, name: str) -> tuple[str, ...]:
        """A declared name under every prefix and with every separator that PromQL takes without quotes: for questions
        to a server of which nobody has seen the names."""
        forms = dict.fromkeys(name.replace(":", each) for each in (":", *self.separators))
        words = ("", *(f"{each.prefix}_" for each in self.prefixes))
        return tuple(full for word in words for form in forms if LEGACY.fullmatch(full := word + form))


def load_name_forms(overlays: Iterable[str | Path] = ()) -> NameForms:
    """The declared transformations, those of the last overlay that has the file. Raises CatalogueError."""
    return _load(tuple(Path(overlay) for overlay in overlays))


@lru_cache(maxsize=8)
def _load(overlays: tuple[Path, ...]) -> NameForms:
    path = content_file("collectors", NAMES, overlays)
    if path is None:
        raise CatalogueError(f"collectors/{NAMES}: not found; it says how names of series are read")
    forms = decode(path, NameForms)
    for where, pattern in (("engine_like", forms.engine_like), *((each.title, each.find) for each in forms.rewrites)):
        try:
            re.compile(pattern)
        except re.error as error:
            raise CatalogueError(f"{path}: {where}: not a regular expression: {error}; correct it") from None
    return forms
