"""The table of releases in docs/versions.md, from what `collectors/*.yaml` declares of every exporter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.signal import Exporter
from inferdoc.generate.document import FileChange, section_changes
from inferdoc.judging.visibility import ADDED
from inferdoc_dev.generate.read_metrics import read_names, unread

BEGIN = "<!-- versions: generated from collectors/*.yaml -->\n"
END = "<!-- /versions -->"


def version_changes(page: Path, catalogue: Catalogue) -> list[FileChange]:
    """The page, if it differs. Nothing where there is no page, as in an installation.
    Raises InferdocError for a page without its markers."""
    return section_changes(page, BEGIN, END, lambda: table(catalogue))


def table(catalogue: Catalogue) -> Iterator[str]:
    """A Markdown table: a row per exporter."""
    yield "| exporter | metrics declared | read by signals | names read from | releases in which names came or went |"
    yield "| --- | ---: | ---: | --- | --- |"
    named = read_names(catalogue)
    for name, exporter in catalogue.exporters.items():
        if name not in ADDED:
            declared = len(exporter.metrics)
            read = declared - len(list(unread(exporter, named)))
            cells = (exporter.title, str(declared), str(read), "; ".join(exporter.sources), _changes(exporter))
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _changes(exporter: Exporter) -> str:
    """Releases in order; `0.10` and `0.10.0` are one."""
    releases: dict[str, str] = {}
    for metric in exporter.metrics.values():
        for release in (metric.since, metric.until, *(former.until for former in metric.formerly)):
            if release is not None:
                key = str(release_order(release))
                releases[key] = min(release, releases.get(key, release), key=len)
    return ", ".join(_words(release) for release in sorted(releases.values(), key=release_order)) or "none declared"


def release_order(release: str) -> tuple[list[int], bool]:
    """The key that sorts releases: `0.10` as `0.10.0`, before main after it."""
    parts = [int(part) for part in re.findall(r"\d+", release)]
    while parts[1:] and not parts[-1]:
        parts.pop()
    return parts, release.startswith(">")


def _words(release: str) -> str:
    return f"main after {release[1:]}" if release.startswith(">") else release
