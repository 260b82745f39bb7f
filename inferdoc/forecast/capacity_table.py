"""What replicas serve, as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from inferdoc.escaping import page
from inferdoc.forecast.capacity import PoolCapacity, Served


def to_table(found: Sequence[PoolCapacity]) -> str:
    """A few lines per pool: what a replica serves of each kind of load, what marks the number, what must be known."""
    lines: list[str] = []
    for each in found:
        replicas = f"{each.replicas} replica{'s' if each.replicas > 1 else ''} seen"
        lines += [f"{each.pool} ({each.role}, tier {each.tier}, {replicas})"]
        for served in each.served:
            lines += [f"  {line}" for line in _told(each, served)]
        lines += [f"  {note}" for note in each.notes()]
        lines.append("")
    return page(lines[:-1]) + "\n"


def _told(pool: PoolCapacity, served: Served) -> list[str]:
    if served.rate is None:
        unit = served.unit.value
        return [f"{unit}: not known: {served.basis}", f"  give it to a plan: --capacity '{pool.pool}=NUMBER {unit}'"]
    least = "at least " if served.verdict == "at least" else ""
    band = (
        "" if served.low is None or served.high is None else f" (10 % to 90 %: {served.low:.4g} to {served.high:.4g})"
    )
    return [
        f"{least}{served.rate} per replica{band}",
        f"  {served.basis}",
        f"  highest seen {served.highest:.4g}, {served.samples} readings",
    ]
