"""docs/coverage.md: what is read of each system, family by family, and which share of real pages that is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recognise_names import base_name
from inferdoc.catalogue.signal import Exporter
from inferdoc.generate.document import FileChange, section_changes
from inferdoc.judging.visibility import ADDED
from inferdoc_dev.generate.read_metrics import read_names, unread

BEGIN = "<!-- coverage: generated from collectors/*.yaml and fixtures/pages -->\n"
END = "<!-- /coverage -->"
BESIDE_SIGNALS = "releases, changes or pod identity"
SAMPLE = re.compile(r"(?m)^([a-zA-Z_:][\w:]*)[{ ]")


def coverage_changes(page: Path, pages: Path, catalogue: Catalogue) -> list[FileChange]:
    """The page, if it differs. pages: a folder of saved pages. Nothing where there is no
    page, as in an installation. Raises InferdocError for a page without its markers."""
    return section_changes(page, BEGIN, END, lambda: (*shares(pages, catalogue), "", *tables(catalogue)))


def readers(catalogue: Catalogue) -> dict[str, list[str]]:
    """The signals that read a family, by its current name."""
    found: dict[str, list[str]] = {}
    for name, signal in catalogue.signals.items():
        for reading in signal.readings:
            for series in reading.series:
                for family in dict.fromkeys((series, base_name(series))):
                    if name not in found.setdefault(family, []):
                        found[family].append(name)
    return found


def uses(exporter: Exporter, catalogue: Catalogue) -> Iterator[tuple[str, str, bool]]:
    """Every family of an exporter with the signals that read it, or with the reason why nothing does, and whether it is
    read. A family without either has an empty text."""
    by_family = readers(catalogue)
    without = set(unread(exporter, read_names(catalogue)))
    for name in exporter.metrics:
        if name in without:
            yield name, exporter.why_unneeded(name) or "", False
        else:
            yield name, ", ".join(by_family.get(name, ())) or BESIDE_SIGNALS, True


def tables(catalogue: Catalogue) -> Iterator[str]:
    """Markdown: a section with a table for each exporter."""
    for name, exporter in sorted(catalogue.exporters.items(), key=lambda each: each[1].title.lower()):
        if name in ADDED:
            continue
        yield f"## {exporter.title}\n"
        yield "| family | read as |"
        yield "| --- | --- |"
        for family, use, is_read in uses(exporter, catalogue):
            yield f"| `{family}` | {use if is_read else f'not needed: {use}'} |"
        for each in exporter.unneeded:
            names = each.names.replace("|", "\\|")
            yield f"| others like `{names}` | not needed: {each.because} |"
        yield ""


def shares(pages: Path, catalogue: Catalogue) -> Iterator[str]:
    """A Markdown table: of the families on each page, or list of names, how many are read, not needed, and unknown."""
    yield "| page | families | read | not needed | unknown | unknown, by name |"
    yield "| --- | ---: | ---: | ---: | ---: | --- |"
    for path in sorted(pages.rglob("*.txt")):
        found = families_of_page(path.read_text("utf-8"), catalogue)
        counted = Counter(found.values())
        unknown = sorted(name for name, kind in found.items() if kind == "unknown")
        share = f"{counted['unknown']} ({counted['unknown'] / max(len(found), 1):.0%})"
        names = ", ".join(f"`{name}`" for name in unknown)
        name = path.relative_to(pages).with_suffix("").as_posix()
        cells = (name, str(len(found)), str(counted["read"]), str(counted["unneeded"]), share, names)
        yield "| " + " | ".join(cells) + " |"


def families_of_page(text: str, catalogue: Catalogue) -> Mapping[str, str]:
    """The families of a page: `read`, `unneeded` or `unknown`."""
    kinds = {
        name: "read" if is_read else "unneeded" if use else "unknown"
        for exporter in catalogue.exporters.values()
        for current, use, is_read in uses(exporter, catalogue)
        for name in (current, *(former.name for former in exporter.metrics[current].formerly))
    }
    found = {}
    for series in dict.fromkeys(SAMPLE.findall(text)):
        if series.endswith("_created"):
            continue
        family = series if series in kinds else base_name(series)
        called = any(exporter.why_unneeded(family) is not None for exporter in catalogue.exporters.values())
        found[family] = kinds.get(family) or ("unneeded" if called else "unknown")
    return found
