"""Errors of `inferdoc size` on served results that neither the fit nor the formulas have seen.

    python benchmarks/size_outside.py RESULTS.csv            both halves, by metric, engine and series
    python benchmarks/size_outside.py RESULTS.csv --half 2   one of them
    python benchmarks/size_outside.py RESULTS.csv --rows     each result with its prediction

The results have the columns of fixtures/sizing/points.csv and `half`, 1 or 2 (1 if it is missing). Those of
docs/capacity.md are of the SGLang cookbook (docs.sglang.io/cookbook), GPUStack's performance lab
(docs.gpustack.ai/latest/performance-lab) and Vultr's inference cookbook; they stay with their publishers. The time to
the first token of a single stream is the median, since the mean of ten requests holds the first compilation. A series
(model, tier, layout and engine of a page) is in one half. Formulas were changed with the first half in view; the second
was looked at once, after that.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from measured import measured_line
from size_points import POINTS, Point, points_of, shown

from inferdoc.catalogue.load import load_catalogue

MODELS = POINTS.parents[1] / "models"
CONFIGURATIONS = json.loads(POINTS.with_name("configurations.json").read_text("utf-8"))


def model_of(name: str, folder: Path) -> str:
    """What --model takes: a name of the catalogue, or a folder with the configuration."""
    if name not in CONFIGURATIONS:
        return str(MODELS / name) if (MODELS / name).exists() else name
    own = folder / name
    own.mkdir(exist_ok=True)
    (own / "config.json").write_text(json.dumps(CONFIGURATIONS[name]["config"]), "utf-8")
    return str(own)


def points(results: Path, half: str) -> Iterator[tuple[Mapping[str, str], Point]]:
    """The results of one half; without those whose requests the KV cache cannot hold."""
    with tempfile.TemporaryDirectory() as folder:
        for row in csv.DictReader(results.read_text("utf-8").splitlines()):
            if row.get("half", "1") == half:
                closed = not row["metric"].startswith("tok")
                for point in points_of([{**row, "model": model_of(row["model"], Path(folder))}], skip=closed):
                    yield row, point


def table(results: Path, half: str, rows: bool) -> str:
    """Median error, median of predicted over measured, and the share inside the range."""
    efficiency = load_catalogue().efficiency
    groups: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    lines = []
    for row, point in points(results, half):
        value, low, high = point.answer(efficiency)
        metric, ratio, inside = row["metric"], value / point.measured, low <= point.measured <= high
        series = f"{metric}, {row['engine']}: {row['model']} {row['dtype']}, {row['tier']} TP {row['tp']}"
        for name in (f"**{metric}, all**", f"**{metric}, {row['engine']}**", series):
            groups[name].append((ratio, inside))
        if rows:
            load = f"{row['prompt_tokens']}/{row['output_tokens']}, {row['max_num_seqs']} requests"
            lines.append(
                f"| {series}, {load} | {shown(point.measured)} | {shown(value)} | {shown(low)} to {shown(high)} |"
            )
    if rows:
        return "\n".join(["| result | measured | predicted | range |", "| --- | ---: | ---: | ---: |", *lines])
    lines = [f"| half {half} | number | median error | predicted / measured | inside the range |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    for name, found in sorted(groups.items()):
        error = statistics.median(abs(ratio - 1.0) for ratio, _ in found)
        middle = math.exp(statistics.median(math.log(ratio) for ratio, _ in found))
        held = statistics.mean(inside for _, inside in found)
        lines.append(f"| {name} | {len(found)} | {error:.0%} | {middle:.2f} | {held:.0%} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="CSV of results")
    parser.add_argument("--half", choices=["1", "2"], help="one half alone")
    parser.add_argument("--rows", action="store_true", help="each result with its prediction")
    options = parser.parse_args()
    for half in [options.half] if options.half else ["1", "2"]:
        print(table(options.results, half, options.rows))
        print()
    print(measured_line())


if __name__ == "__main__":
    main()
