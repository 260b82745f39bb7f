"""What was scraped, as OpenMetrics text with timestamps or straight into a store."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO

from inferdoc.collect.samples import Labels, Layout
from inferdoc.simulate.scrape import Scraped
from inferdoc.store import Store


def _family(name: str, kind: str) -> str:
    return name.removesuffix("_total") if kind == "counter" else name


def _kind(name: str, kind: str) -> str:
    """The type in OpenMetrics: there a counter's samples end in _total, which those of dcgm-exporter do not."""
    bare = kind == "counter" and not name.endswith("_total")
    return "unknown" if bare or kind == "untyped" else kind


def _prefix(name: str, target: Mapping[str, str], own: Labels) -> str:
    """A label that the target has too is kept as `exported_<name>`, as Prometheus does."""
    named = ((f"exported_{k}" if k in target else k, v) for k, v in own)
    pairs = ",".join(f'{k}="{v}"' for k, v in (*target.items(), *named))
    return f"{name}{{{pairs}}} "


def _places(layout: Layout) -> dict[str, list[int]]:
    """Places of each family's samples in a page."""
    families: dict[str, list[int]] = {}
    heads = {_family(name, kind): name for name, kind in layout.types.items()}
    for place, series in enumerate(layout.series):
        name = series.name
        for suffix in ("", "_bucket", "_count", "_sum", "_created", "_total"):
            head = name.removesuffix(suffix) if suffix else name
            if head in heads:
                families.setdefault(head, []).append(place)
                break
    return families


def write_openmetrics(targets: Iterable[Scraped], stream: TextIO) -> int:
    """Write every sample, family by family as OpenMetrics demands. Returns the number of samples."""
    listed = list(targets)
    kinds: dict[str, str] = {}
    places: dict[bytes, dict[str, list[int]]] = {}
    for target in listed:
        for _, page in target.pages:
            if page.layout.digest not in places:
                places[page.layout.digest] = _places(page.layout)
                kinds.update({_family(n, k): _kind(n, k) for n, k in page.layout.types.items()})
    samples = 0
    for family in sorted(kinds):
        stream.write(f"# TYPE {family} {kinds[family]}\n")
        for target in listed:
            samples += _write_family(target, family, places, stream)
    stream.write("# EOF\n")
    return samples


def _write_family(target: Scraped, family: str, places: dict[bytes, dict[str, list[int]]], stream: TextIO) -> int:
    count = 0
    prefixes: dict[bytes, list[tuple[int, str]]] = {}
    for stamp, page in target.pages:
        digest = page.layout.digest
        known = prefixes.get(digest)
        if known is None:
            found = places[digest].get(family, [])
            series = page.layout.series
            known = prefixes[digest] = [(p, _prefix(series[p].name, target.labels, series[p].labels)) for p in found]
        if not known:
            continue
        when = f" {stamp / 1000:.3f}\n"
        values = page.values
        stream.write("".join([f"{prefix}{float(values[p])!r}{when}" for p, prefix in known]))
        count += len(known)
    return count


def write_file(targets: Iterable[Scraped], path: Path) -> int:
    """Write an OpenMetrics file, compressed where its name ends in .gz. Returns the number of samples."""
    if path.suffix == ".gz":
        with gzip.open(path, "wb", compresslevel=5) as raw, io.TextIOWrapper(raw, "utf-8", newline="\n") as text:
            return write_openmetrics(targets, text)
    with path.open("w", encoding="utf-8", newline="\n") as text:
        return write_openmetrics(targets, text)


def write_store(targets: Iterable[Scraped], store: Store) -> int:
    """Append every scrape to a store in one transaction. Returns the number of samples."""
    count = 0
    with store.writer.round():
        for target in targets:
            for stamp, page in target.pages:
                store.writer.append(target.labels, stamp, page)
                count += len(page)
    return count
