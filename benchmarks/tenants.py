"""What it brings to forecast tenants apart: pools made of tenants, told by tenant and told as a whole.

    .venv/bin/python benchmarks/tenants.py FOLDER [--origins 12]

FOLDER as for benchmarks/forecast.py, and its protocol. Of the series whose names hold `tenant` and that begin together,
each two and all of them are added up, each scaled to the same mean. Without ARIMA, which is the same in both."""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
from forecast import Score, ours, read, score
from measured import measured_line

from inferdoc.forecast.series import LoadSeries

KINDS = ("", "_input_tokens", "_output_tokens")


def members(loads: dict[str, LoadSeries], kind: str) -> dict[str, LoadSeries]:
    """The series of tenants. kind: how their names end."""
    ends = tuple(other for other in KINDS if other)
    return {n: s for n, s in loads.items() if "tenant" in n and (n.endswith(kind) if kind else not n.endswith(ends))}


def pools(loads: dict[str, LoadSeries], kind: str) -> dict[str, LoadSeries]:
    """Sums of tenants. kind: how the names of the series end."""
    found = members(loads, kind)
    first = next(iter(found.values()))
    alike = {
        n: s for n, s in found.items() if (s.start, s.step, len(s.values)) == (first.start, 300, len(first.values))
    }
    names = sorted(alike)
    chosen = [*combinations(names, 2), *([tuple(names)] if len(names) > 2 else [])]
    return {" + ".join(n.split("_")[2] for n in group) + kind: together([alike[n] for n in group]) for group in chosen}


def together(tenants: list[LoadSeries]) -> LoadSeries:
    parts = [replace(each, values=1000 * each.values / float(np.nanmean(each.values))) for each in tenants]
    return replace(parts[0], values=np.sum([part.values for part in parts], axis=0), parts=tuple(parts))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--origins", type=int, default=12)
    asked = parser.parse_args()
    loads, zones = read(asked.folder)
    zone = next(zone for name, zone in zones.items() if "tenant" in name)
    method = ours("combination", arima_seconds=0.0)
    for kind in KINDS:
        if not members(loads, kind):
            continue
        print(
            f"\n**Pools of tenants, {kind.strip('_').replace('_', ' ') or 'requests'}: whole, then told by tenant**\n"
        )
        print("| pool | MASE | WAPE | pin95 | cover95 |\n|---|---|---|---|---|")
        means: list[tuple[float, ...]] = []
        for name, pool in pools(loads, kind).items():
            pair = [score(each, zone, method, asked.origins) for each in (replace(pool, parts=()), pool)]
            print(f"| {name} | {' | '.join(cells(pair))} |", flush=True)
            means.append(tuple(figure for each in pair for figure in each.row()[:4]))
        mean = np.mean(means, axis=0)
        shown = [f"{mean[i]:.3f}, {mean[i + 4]:.3f}" for i in (0, 1)]
        print(
            f"| **mean** | {' | '.join(shown)} | {mean[2]:.4f}, {mean[6]:.4f} | {mean[3]:.3f}, {mean[7]:.3f} |",
            flush=True,
        )
    print(f"\n{measured_line()}")


def cells(pair: list[Score]) -> list[str]:
    rows = [each.row() for each in pair]
    return [", ".join(f"{row[i]:.{digits}f}" for row in rows) for i, digits in enumerate((3, 3, 4, 3))]


if __name__ == "__main__":
    main()
