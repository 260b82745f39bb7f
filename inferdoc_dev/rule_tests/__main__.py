"""`python -m inferdoc_dev.rule_tests --out FOLDER`: the rules of a catalogue with their promtool unit tests."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from inferdoc.catalogue.load import load_catalogue
from inferdoc.errors import InferdocError
from inferdoc.generate.links import GeneratedLinks
from inferdoc_dev.rule_tests.pack_tests import build_with_tests


def main(arguments: list[str] | None = None) -> int:
    """Exit code 2 for a wrong declaration or a folder that cannot be written."""
    parser = argparse.ArgumentParser(prog="python -m inferdoc_dev.rule_tests", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="folder to write to")
    parser.add_argument(
        "--catalogue", type=Path, action="append", default=[], metavar="DIR", help="your own catalogue; may be repeated"
    )
    given = parser.parse_args(arguments)
    try:
        changed, remarks = build_with_tests(load_catalogue(tuple(given.catalogue)), GeneratedLinks(), given.out)
    except InferdocError as error:
        print(f"inferdoc: {error}", file=sys.stderr)
        return error.exit_code
    for line in remarks:
        print(line, file=sys.stderr)
    for line in changed:
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
