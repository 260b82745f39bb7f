"""`python -m inferdoc.generate [--check]`: everything that is generated into the checkout. `mutate`: how well its unit
tests hold the rules."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from inferdoc.catalogue.content import content_root
from inferdoc.catalogue.editor_schema import update_schemas
from inferdoc.catalogue.load import load_catalogue
from inferdoc.errors import InferdocError
from inferdoc.generate.alerts import build_alerts, build_set_objects
from inferdoc.generate.boards import build_boards
from inferdoc.generate.boards_page import update_boards
from inferdoc.generate.coverage_page import update_coverage
from inferdoc.generate.family_pages import update_family_pages
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.mutation_report import main as mutate
from inferdoc.generate.runbook_sections import update_pages
from inferdoc.generate.versions_page import update_versions


def generate(root: Path, *, check: bool = False) -> list[str]:
    """Bring alerts/generated, dashboards/generated, the runbook pages, docs/boards.md, the tables of
    docs/coverage.md and docs/versions.md and the schemas of diagnostics/ up to date under a root; what differed."""
    catalogue, links = load_catalogue(), GeneratedLinks()
    changed, _ = build_alerts(catalogue, links, root / "alerts" / "generated", tests=True, check=check)
    changed += build_set_objects(catalogue, links, root / "alerts" / "generated" / "sets", check=check)
    changed += build_boards(catalogue, links, root / "dashboards" / "generated", check=check)
    changed += update_pages(root / "runbooks", check, catalogue)
    changed += update_family_pages(root / "runbooks", check, catalogue)
    changed += update_boards(root / "docs" / "boards.md", catalogue, check)
    changed += update_coverage(root / "docs" / "coverage.md", root / "fixtures" / "pages", catalogue, check)
    changed += update_versions(root / "docs" / "versions.md", catalogue, check)
    return changed + update_schemas(root / "diagnostics", catalogue, check=check)


def main(arguments: list[str] | None = None) -> int:
    """Exit code 1 where --check finds something out of date, 2 where a declaration is wrong."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["mutate"]:
        return mutate(given[1:])
    parser = argparse.ArgumentParser(prog="python -m inferdoc.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where something is out of date")
    asked = parser.parse_args(given)
    try:
        changed = generate(content_root(), check=asked.check)
    except InferdocError as error:
        print(f"inferdoc: {error}", file=sys.stderr)
        return error.exit_code
    for line in changed:
        print(line)
    return 1 if asked.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
