"""Pages that somebody saved with curl: a file, or a folder of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from inferdoc.collect.discovery import DEFAULT_JOB
from inferdoc.collect.exposition import parse
from inferdoc.collect.samples import Layout, Page, ParseError, Series
from inferdoc.collect.scrape_series import join_pages
from inferdoc.errors import InferdocError
from inferdoc.judging.lifetime import Lifetime
from inferdoc.judging.look import PAST
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store

DATED = re.compile(r"(?P<name>.+)@(?P<seconds>\d{9,11}(\.\d+)?)$")
"""`vllm-0@1795000000.prom`: the page of vllm-0 at that time, Unix seconds. Without it the time is that of the file."""
WITH_TIMES = re.compile(rb"(?m)^[a-zA-Z_:][\w:]*(\{.*\})? \S+ \d{9,}")
HEAD_BYTES = 1 << 16
UP = Layout([Series("up", ())], {"up": "gauge"})
"""Who saved a page had an answer."""


@dataclass(frozen=True)
class SavedPage:
    """pod: as the file is called; at_ms: when it was saved, milliseconds since 1970."""

    pod: str
    at_ms: int
    path: Path


def put_into(store: Store, paths: Sequence[Path]) -> Lifetime | None:
    """Store saved pages; what the first of each pod tells of the time before, or None where the files hold times of
    their own (OpenMetrics as `inferdoc export` writes it), and so a past. Raises InferdocError for a folder without
    pages, ParseError for a file that is none."""
    pages = []
    for path in paths:
        files = sorted(f for f in path.iterdir() if f.is_file() and f.name[0] != ".") if path.is_dir() else [path]
        if not files:
            raise InferdocError(f"{path}: no files in this folder; save pages there (curl URL/metrics > vllm-0.prom)")
        for file in files:
            if _has_times(file):
                import_file(store, file)
            else:
                pages.append(_saved(file))
    for saved in sorted(pages, key=lambda one: (one.at_ms, one.pod)):
        labels = {"job": DEFAULT_JOB, "instance": saved.pod, "pod": saved.pod}
        page = join_pages(Page(UP, np.ones(1)), _parsed(saved.path))
        store.writer.append(labels, saved.at_ms, page)
    return PAST if pages else None


def _parsed(path: Path) -> Page:
    try:
        return parse(path.read_bytes(), strict=False)
    except ParseError as error:
        raise ParseError(
            f"{path}: {error}; it is no saved page of metrics: name pages alone, or their folder"
        ) from error


def _has_times(path: Path) -> bool:
    with path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    return head.startswith(b"\x1f\x8b") or WITH_TIMES.search(head) is not None


def _saved(path: Path) -> SavedPage:
    dated = DATED.match(path.stem)
    if dated:
        return SavedPage(dated["name"], round(1000 * float(dated["seconds"])), path)
    return SavedPage(path.stem, round(1000 * path.stat().st_mtime), path)
