"""How fast a metrics page is parsed, beside prometheus-client, on real exporter pages.

    .venv/bin/python benchmarks/parse.py [FILE or FOLDER]... [--rounds 7]

Prints a Markdown table. Each round times, one after the other on the same texts: prometheus-client
(text_string_to_metric_families, consumed to its samples), parse() with nothing remembered (cold), parse() of a
known layout (warm), and warm with samples() consumed, so that both sides end in Python objects. Every text
within a round has other values, drawn anew, so nothing but the layout can be remembered. A ratio is that of one
round; the table gives the median and the range over the rounds. Before timing, the samples of every page are
compared one by one with prometheus-client's: name, labels, value (bit for bit) and timestamp.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time

from measured import measured_line
from prometheus_client.parser import text_string_to_metric_families

from inferdoc.collect import LayoutCache, parse

DEFAULT_PAGES = Path(__file__).parents[1] / "fixtures" / "pages"
TEXTS_PER_ROUND = 5
REPEATS = {"client": 1, "cold": 2, "warm": 12, "objects": 4}


def with_other_values(page: str, chance: random.Random) -> str:
    """The page as a later scrape would show it: values that are not 0 or 1 are scaled, all else stays."""
    lines = page.split("\n")
    for row, line in enumerate(lines):
        if line and not line.startswith("#"):
            head, _, value = line.rpartition(" ")
            number = float(value)
            if number not in (0.0, 1.0):
                number *= 1 + chance.random()
                lines[row] = f"{head} {float(round(number)) if number.is_integer() or number > 10 else number!r}"
    return "\n".join(lines)


def assert_identical(page: str, cache: LayoutCache) -> int:
    """Compare every sample with prometheus-client's; returns how many there are."""
    expected = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    parsed = parse(page.encode(), layouts=cache)
    got = list(parsed.samples())
    assert len(got) == len(expected), f"{len(got)} samples, prometheus-client has {len(expected)}"
    for ours, theirs in zip(got, expected, strict=True):
        same_value = struct.pack("d", ours.value) == struct.pack("d", float(theirs.value))
        assert same_value and ours[:2] == theirs[:2] and ours.timestamp == theirs.timestamp, f"{ours} is not {theirs}"
    assert not parsed.problems, parsed.problems
    return len(got)


def client(body: bytes) -> object:
    """A page read by prometheus-client."""
    return [sample for family in text_string_to_metric_families(body.decode()) for sample in family.samples]


def cold(body: bytes) -> object:
    """A page read without a remembered layout."""
    return parse(body, layouts=LayoutCache())


def milliseconds(read: Callable[[bytes], object], bodies: Sequence[bytes], repeats: int) -> float:
    """Mean CPU time for one page: both sides are one thread, and a busy machine shifts it least."""
    start = process_time()
    for _ in range(repeats):
        for body in bodies:
            read(body)
    return (process_time() - start) * 1000 / (repeats * len(bodies))


def measure(page: str, rounds: int) -> tuple[int, list[dict[str, float]]]:
    """Number of samples, and for each round the milliseconds per page of each reader."""
    chance = random.Random(20260101)
    cache = LayoutCache()
    samples = assert_identical(page, cache)
    readers: dict[str, Callable[[bytes], object]] = {
        "client": client,
        "cold": cold,
        "warm": lambda body: parse(body, layouts=cache),
        "objects": lambda body: list(parse(body, layouts=cache).samples()),
    }
    results = []
    for _ in range(rounds):
        texts = [with_other_values(page, chance) for _ in range(TEXTS_PER_ROUND)]
        for text in texts:
            assert_identical(text, cache)
            assert_identical(text, LayoutCache())
        bodies = [text.encode() for text in texts]
        results.append({name: milliseconds(read, bodies, REPEATS[name]) for name, read in readers.items()})
    assert len(cache) == 1, "the page was not read by its remembered layout"
    return samples, results


def ratio(results: Sequence[dict[str, float]], name: str) -> str:
    """How many times as long prometheus-client takes: median of the rounds (lowest-highest)."""
    ratios = sorted(result["client"] / result[name] for result in results)
    return f"{statistics.median(ratios):.1f} ({ratios[0]:.1f}-{ratios[-1]:.1f})"


def table_row(name: str, samples: int, results: Sequence[dict[str, float]]) -> str:
    """One page as a row of the table; times in milliseconds."""
    times = {key: statistics.median(result[key] for result in results) for key in REPEATS}
    cells = [name, str(samples), f"{times['client']:.2f}", f"{times['cold']:.2f}", f"{times['warm']:.3f}"]
    return f"| {' | '.join([*cells, *(ratio(results, key) for key in ('cold', 'warm', 'objects'))])} |"


def page_files(paths: Sequence[Path]) -> list[Path]:
    """The pages named, folders opened; ends the program where there is none."""
    found = [file for path in paths for file in (sorted(path.glob("*.txt")) if path.is_dir() else [path])]
    if not found:
        sys.exit(f"no pages (*.txt) in {', '.join(map(str, paths))}")
    return found


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    arguments.add_argument("paths", nargs="*", type=Path, default=[DEFAULT_PAGES], metavar="FILE or FOLDER")
    arguments.add_argument("--rounds", type=int, default=7, help="rounds of alternating runs, at least 5 (default 7)")
    chosen = arguments.parse_args()
    files = page_files(chosen.paths)
    print(f"Python {platform.python_version()}, {platform.machine()}, {max(5, chosen.rounds)} rounds.")
    print("CPU time in ms per page (median); ratios to prometheus-client: median of the rounds (lowest-highest).\n")
    print("| page | samples | prometheus-client | cold | warm | ratio cold | ratio warm | ratio warm, as objects |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for number, file in enumerate(files, 1):
        print(f"[{number}/{len(files)}] {file.name}", file=sys.stderr)
        samples, results = measure(file.read_text(), max(5, chosen.rounds))
        print(table_row(file.stem, samples, results), flush=True)
    print("\nAll samples identical to prometheus-client's, on every text of every round.")
    print(measured_line())


if __name__ == "__main__":
    main()
