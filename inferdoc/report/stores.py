"""Stored data for a terminal: the embedded store and the baselines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from inferdoc.catalogue.load import Catalogue
from inferdoc.errors import InferdocError
from inferdoc.escaping import one_line, page
from inferdoc.judging.model import stamp
from inferdoc.judging.references.stored import Header, StoredBaseline, StoredPool, place, read_header, stored_names
from inferdoc.report.printable import indented_json
from inferdoc.times import moment_text
from inferdoc.words import figure, how_many

if TYPE_CHECKING:
    from inferdoc.store import Inventory, Pruned
    from inferdoc.store.info import Holding


def inventory_lines(found: Inventory) -> list[str]:
    """An inventory as text."""
    sizes = f"{megabytes(found.bytes)} of data, {megabytes(found.free_bytes)} free, {megabytes(found.log_bytes)} of log"
    lines = [
        f"{found.path}: format {found.format}, {sizes}",
        f"  {how_many(found.targets, 'target')}, {found.series:,} series, {how_many(found.samples, 'sample')}",
    ]
    for origin, share in (("collected", found.collected), ("imported", found.imported)):
        lines.append(f"  {origin}: {_share(share)}")
    if found.format < 3:
        lines.append("  (this store format does not record imports; all samples count as imported)")
    return lines


def pruned_line(done: Pruned, dry_run: bool = False) -> str | None:
    """What retention dropped, or would drop; None where that is nothing and the store fits its limit."""
    verb = "would drop" if dry_run else "dropped"
    parts = []
    if done.scrapes and done.first_ms is not None and done.last_ms is not None:
        parts.append(
            f"{verb} {how_many(done.scrapes, 'scrape')} of {how_many(done.targets, 'target')} from"
            f" {moment_text(done.first_ms)} to {moment_text(done.last_ms)}, about {megabytes(done.freed)}"
        )
    if done.over:
        parts.append(
            f"{megabytes(done.over)} more than the limit stay: they are imported or the newest; `inferdoc store info`"
            " lists them, `inferdoc store prune --imported` drops imported ones too"
        )
    return f"retention: {'; '.join(parts)}" if parts else None


def megabytes(size: int) -> str:
    """Bytes for people: "12.3 MB"."""
    return f"{size / 1e6:,.1f} MB"


def _share(share: Holding) -> str:
    if share.first_ms is None or share.last_ms is None:
        return "nothing"
    return (
        f"{how_many(share.scrapes, 'scrape')} of {how_many(share.targets, 'target')}, {megabytes(share.bytes)},"
        f" {moment_text(share.first_ms)} to {moment_text(share.last_ms)}"
    )


SHOWN = ("ttft_mean", "ttft_p99", "itl_mean", "e2e_mean", "request_rate")
"""What users wait for, and how much there was to do."""

POOL_HEADINGS = ("model", "namespace", "role", "tier", "pods")


@dataclass(frozen=True)
class Listed:
    """A file of the folder: header is None where it cannot be read, and problem says why."""

    name: str
    header: Header | None
    problem: str = ""


def listed(folder: Path) -> list[Listed]:
    """Every baseline of a folder, also those that cannot be read."""
    rows = []
    for name in stored_names(folder):
        try:
            rows.append(Listed(name, read_header(place(folder, name))))
        except InferdocError as error:
            rows.append(Listed(name, None, str(error)))
    return rows


def list_text(rows: Sequence[Listed], folder: Path) -> str:
    """One line for each baseline and pool."""
    if not rows:
        return one_line(f"No baseline is stored in {folder}. inferdoc baseline save makes one.")
    lines: list[tuple[str, ...]] = [("name", "from", "until", *POOL_HEADINGS, "engines")]
    for row in rows:
        if row.header is None:
            lines.append((row.name, f"cannot be read: {row.problem}"))
            continue
        span = stamp(row.header.start_ms / 1000), stamp(row.header.grid.end_ms / 1000)
        for place_in_list, pool in enumerate(row.header.pools):
            first = (row.name, *span) if place_in_list == 0 else ("", "", "")
            lines.append((*first, *_pool(pool), _release(row.header)))
    return _table(lines)


def list_json(rows: Sequence[Listed]) -> str:
    """The same as JSON."""
    heads = [_head(row.header) if row.header else {} for row in rows]
    return indented_json(
        [{"name": r.name, "problem": r.problem or None, **head} for r, head in zip(rows, heads, strict=True)]
    )


def text(stored: StoredBaseline, catalogue: Catalogue) -> str:
    """One baseline: span, source, and per pool the medians of what users waited for."""
    head = stored.header
    lines: list[tuple[str, ...]] = [(*POOL_HEADINGS, *SHOWN)]
    for pool in head.pools:
        medians = _medians(stored, pool)
        values = [figure(medians[name], catalogue.signals[name].unit) if name in medians else "-" for name in SHOWN]
        lines.append((*_pool(pool), *values))
    kept = f"{head.count} steps of {figure(head.step_ms / 1000, 's')}, {len(stored.signals)} signals"
    head_lines = page(
        (
            f"{stored.name}  {stamp(head.start_ms / 1000)} to {stamp(head.grid.end_ms / 1000)}",
            f"  read from {head.source} by inferdoc {head.inferdoc_version}",
            f"  {kept}, scraped every {figure(head.interval_ms / 1000, 's')}, {_release(head)}",
        )
    )
    return f"{head_lines}\n\n{_table(lines)}\n\nMedians of a pod."


def as_json(stored: StoredBaseline) -> str:
    """The same as JSON; medians in the units of the signals."""
    pools = [{**msgspec.to_builtins(pool), "medians": _medians(stored, pool)} for pool in stored.header.pools]
    return indented_json(
        {"name": stored.name, **_head(stored.header), "pools": pools, "signals": sorted(stored.signals)}
    )


def _pool(pool: StoredPool) -> tuple[str, ...]:
    return pool.model or "-", pool.namespace or "-", pool.role, pool.tier, str(len(pool.pods))


def _release(head: Header) -> str:
    return f"vLLM before {head.older_than}" if head.older_than else "vLLM of a current release"


def _head(head: Header) -> dict[str, Any]:
    span = {"from": stamp(head.start_ms / 1000), "until": stamp(head.grid.end_ms / 1000)}
    rest = {
        "step_seconds": head.step_ms / 1000,
        "scrape_seconds": head.interval_ms / 1000,
        "source": head.source,
        "inferdoc_version": head.inferdoc_version,
        "older_than": head.older_than,
        "pools": msgspec.to_builtins(head.pools),
    }
    return span | rest


def _medians(stored: StoredBaseline, pool: StoredPool) -> dict[str, float]:
    """The median over pods and steps, by signal."""
    keys = {(pool.cluster, pool.namespace, pod) for pod in pool.pods}
    medians = {}
    for name in SHOWN:
        matrix = stored.signals.get(name)
        own = [] if matrix is None else [row for row, e in enumerate(matrix.entities) if e.member in keys]
        if matrix is not None and own and np.isfinite(matrix.values[own]).any():
            medians[name] = float(np.nanmedian(matrix.values[own]))
    return medians


def _table(lines: Sequence[Sequence[str]]) -> str:
    """Columns two spaces apart; a line with fewer cells ends in free text."""
    full = [line for line in lines if len(line) == len(lines[0])]
    widths = [max(len(line[column]) for line in full) for column in range(len(lines[0]))]
    widths[0] = max(len(line[0]) for line in lines)
    return page("  ".join(f"{c:<{width}}" for c, width in zip(line, widths, strict=False)).rstrip() for line in lines)
