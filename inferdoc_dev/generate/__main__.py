"""`python -m inferdoc_dev.generate [--check]`: everything that is generated into the checkout. `mutate`: which mistakes
in the rules their unit tests notice."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from inferdoc.catalogue.content import content_root
from inferdoc.catalogue.load import load_catalogue
from inferdoc.errors import InferdocError
from inferdoc.generate.alerts import set_objects
from inferdoc.generate.boards import board_files
from inferdoc.generate.document import FileChange, apply_changes, folder_changes
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.runbook_sections import runbook_changes
from inferdoc_dev.generate.boards_page import board_page_changes
from inferdoc_dev.generate.coverage_page import coverage_changes
from inferdoc_dev.generate.editor_schema import schema_changes
from inferdoc_dev.generate.family_pages import family_page_changes
from inferdoc_dev.generate.versions_page import version_changes
from inferdoc_dev.rule_tests.mutation_report import main as mutate
from inferdoc_dev.rule_tests.pack_tests import files_with_tests


def changes(root: Path) -> tuple[list[FileChange], list[str]]:
    """What differs under a root: alerts/generated, dashboards/generated, the runbook pages, docs/boards.md, the tables
    of docs/coverage.md and docs/versions.md and the schemas of diagnostics/. And the rules without a test.

    Raises CatalogueError or InferdocError for a declaration or a page that is wrong.
    """
    catalogue, links = load_catalogue(), GeneratedLinks()
    alerts, remarks = files_with_tests(catalogue, links)
    found = [
        *folder_changes({**alerts, **set_objects(catalogue, links)}, root / "alerts" / "generated"),
        *folder_changes(board_files(catalogue, links), root / "dashboards" / "generated"),
        *runbook_changes(root / "runbooks", catalogue),
        *family_page_changes(root / "runbooks", catalogue),
        *board_page_changes(root / "docs" / "boards.md", catalogue),
        *coverage_changes(root / "docs" / "coverage.md", root / "fixtures" / "pages", catalogue),
        *version_changes(root / "docs" / "versions.md", catalogue),
        *schema_changes(root / "diagnostics", catalogue),
    ]
    return found, remarks


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 where --check finds something out of date, 2 where a declaration is wrong."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["mutate"]:
        return mutate(given[1:])
    parser = argparse.ArgumentParser(prog="python -m inferdoc_dev.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where something is out of date")
    options = parser.parse_args(given)
    try:
        found, remarks = changes(content_root())
        changed = apply_changes(found, check=options.check)
    except InferdocError as error:
        print(f"inferdoc: {error}", file=sys.stderr)
        return error.exit_code
    for line in remarks:
        print(line, file=sys.stderr)
    for line in changed:
        print(line)
    return 1 if options.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
