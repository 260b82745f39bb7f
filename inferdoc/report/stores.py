"""What a store holds and what retention takes from it, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inferdoc.times import moment_text
from inferdoc.words import how_many

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
