"""Compare the metric names that collectors/*.yaml declares with those in the source of releases, by hand.

python -m tools.check_releases vllm 0.32.0 0.33.0 ~/src/vllm

A release is downloaded as a wheel from PyPI with pip, into --into; a folder is a checkout. Names are the string
constants of Python files outside tests that begin with the engine's prefix, so names that are put together are missed.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.recognise_names import base_name
from inferdoc.catalogue.signal import Exporter, Metric
from inferdoc_dev.generate.versions_page import release_order

PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_34_x86_64", "manylinux_2_35_x86_64", "manylinux1_x86_64")
TESTS = re.compile(r"(^|/)(tests?|benchmarks?|examples?)/|(^|/)test_")


@dataclass(frozen=True)
class Difference:
    """Families without `_total`. undeclared: in the source and not declared; gone: declared for the release and not in
    its source; early: in its source and declared for later releases only."""

    undeclared: tuple[str, ...]
    gone: tuple[str, ...]
    early: tuple[str, ...]


def names_in_source(place: Path, prefix: str) -> set[str]:
    """The families that Python files of a wheel or a folder name. Raises OSError and zipfile.BadZipFile."""
    name = re.compile(re.escape(prefix) + r":[A-Za-z0-9_]+")
    found: set[str] = set()
    for path, text in _python_files(place):
        if prefix + ":" in text and not TESTS.search(path):
            constants = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
            found |= {_family(each) for each in constants if isinstance(each, str) and name.fullmatch(each)}
    return found


def _python_files(place: Path) -> Iterator[tuple[str, str]]:
    if place.is_dir():
        for path in sorted(place.rglob("*.py")):
            yield path.relative_to(place).as_posix(), path.read_text("utf-8", "replace")
    else:
        with zipfile.ZipFile(place) as wheel:
            for inside in sorted(wheel.namelist()):
                if inside.endswith(".py"):
                    yield inside, wheel.read(inside).decode("utf-8", "replace")


def _family(name: str) -> str:
    return base_name(name).removesuffix("_total")


def compare(exporter: Exporter, source: set[str], release: str | None) -> Difference:
    """What differs between the declarations and the source of a release; None is the newest source of all."""
    known = {_family(n) for name, m in exporter.metrics.items() for n in (name, *(f.name for f in m.formerly))}
    own = {name: metric for name, metric in exporter.metrics.items() if name.startswith(f"{exporter.exporter}:")}
    there = {_family(spelling) for name, metric in own.items() for spelling in _spellings(name, metric, release)}
    later = {_family(name) for name, metric in own.items() if not _came(metric, release)}
    undeclared = (n for n in source - known if exporter.why_unneeded(n) is None)
    undeclared = (n for n in undeclared if exporter.why_unneeded(n + "_total") is None)
    return Difference(tuple(sorted(undeclared)), tuple(sorted(there - source)), tuple(sorted(later & source)))


def _came(metric: Metric, release: str | None) -> bool:
    return release is None or metric.since is None or release_order(metric.since) <= release_order(release)


def _spellings(name: str, metric: Metric, release: str | None) -> Iterator[str]:
    """The names that a metric has in a release."""
    until = [(former.until, former.name) for former in metric.formerly] if release is not None else []
    if _came(metric, release) and not (metric.until and _after(release, metric.until)):
        yield name
    else:
        yield from (former for last, former in until if last is not None and not _after(release, last))


def _after(release: str | None, last: str) -> bool:
    """Whether a release comes after the last one of a name, which may be a minor one: 0.15.2 is of 0.15."""
    if release is None:
        return True
    parts = release_order(last)[0]
    return release_order(release)[0][: len(parts)] > parts


def wheel(package: str, release: str, into: Path) -> Path:
    """The wheel of a release, downloaded if it is not there. Raises subprocess.CalledProcessError."""
    if not (found := sorted(into.glob(f"{package}-{release}-*.whl"))):
        platforms = [word for each in PLATFORMS for word in ("--platform", each)]
        words = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--python-version=3.12", *platforms]
        subprocess.run([sys.executable, "-m", "pip", *words, "--dest", into, f"{package}=={release}"], check=True)
        found = sorted(into.glob(f"{package}-{release}-*.whl"))
    return found[0]


def main() -> None:
    """Print a Markdown table, a row per release."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=("vllm", "sglang"))
    parser.add_argument("releases", nargs="+", help="releases on PyPI, or folders with a checkout")
    parser.add_argument("--into", type=Path, default=Path("build/wheels"), help="folder for wheels")
    asked = parser.parse_args()
    exporter = load_catalogue().exporters[asked.engine]
    print("| source | families | undeclared | declared, not in the source | declared for later releases |")
    print("| --- | ---: | --- | --- | --- |")
    for each in asked.releases:
        folder = Path(each)
        place = folder if folder.is_dir() else wheel(asked.engine, each, asked.into)
        source = names_in_source(place, asked.engine)
        found = compare(exporter, source, None if folder.is_dir() else each)
        lists = (", ".join(f"`{n}`" for n in names) or "none" for names in (found.undeclared, found.gone, found.early))
        print(f"| {asked.engine} {folder.name} | {len(source)} | {' | '.join(lists)} |")


if __name__ == "__main__":
    main()
