"""Which pages the strict parser refuses, against the corpora of the formats.

    .venv/bin/python benchmarks/conformance.py OPENMETRICS [COMMON]

OPENMETRICS: a checkout of github.com/prometheus/OpenMetrics (its tests/testdata/parsers say what should parse).
COMMON: one of github.com/prometheus/common (its expfmt/fuzz/corpus say it by their names). Neither is part of this
repository. Prints a Markdown table with the cases that agree, beside prometheus-client's, and below it those that do
not.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from measured import measured_line
from prometheus_client.openmetrics.parser import text_string_to_metric_families as client_openmetrics
from prometheus_client.parser import text_string_to_metric_families as client_text

from inferdoc.collect import LayoutCache, parse

Case = tuple[str, bytes, bool]


def openmetrics_cases(checkout: Path) -> Iterator[Case]:
    """Name, page, and whether it should parse."""
    for folder in sorted((checkout / "tests" / "testdata" / "parsers").iterdir()):
        wanted = json.loads((folder / "test.json").read_text("utf-8"))["shouldParse"]
        yield folder.name, (folder / "metrics").read_bytes(), bool(wanted)


def text_cases(checkout: Path) -> Iterator[Case]:
    """Seeds of the fuzzer, named after the tests of the Go parser that they come from."""
    for file in sorted((checkout / "expfmt" / "fuzz" / "corpus").iterdir()):
        yield file.name, file.read_bytes(), "error" not in file.name


def refusal(read: Callable[[], object]) -> str | None:
    """Why a page is refused; None where it is read."""
    try:
        read()
    except Exception as error:  # prometheus-client raises whatever it meets
        return str(error) or type(error).__name__
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("openmetrics", type=Path)
    parser.add_argument("common", type=Path, nargs="?")
    asked = parser.parse_args()
    corpora = [
        ("OpenMetrics", "application/openmetrics-text", client_openmetrics, list(openmetrics_cases(asked.openmetrics)))
    ]
    if asked.common is not None:
        corpora.append(("text 0.0.4", "text/plain; version=0.0.4", client_text, list(text_cases(asked.common))))
    print("| format | cases | inferdoc agrees | prometheus-client agrees |\n| --- | ---: | ---: | ---: |")
    wrong = []
    for title, content_type, client, cases in corpora:
        ours = theirs = 0
        for name, body, wanted in cases:
            why = refusal(lambda body=body, kind=content_type: parse(body, kind, layouts=LayoutCache()))
            ours += (why is None) == wanted
            if (why is None) != wanted:
                wrong.append(f"{name}: {'should parse: ' + why if why else 'should be refused'}")
            theirs += (refusal(lambda body=body, read=client: list(read(body.decode()))) is None) == wanted
        print(f"| {title} | {len(cases)} | {ours} | {theirs} |")
    print("\n".join(["", *wrong, "", measured_line()]))


if __name__ == "__main__":
    main()
