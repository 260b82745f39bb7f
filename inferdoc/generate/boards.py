"""Building and checking the boards on disk."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from inferdoc.catalogue.load import Catalogue
from inferdoc.errors import NOT_JSON, InferdocError
from inferdoc.generate import promtool
from inferdoc.generate.board import panels
from inferdoc.generate.board_lint import problems, queries
from inferdoc.generate.board_spec import load_boards
from inferdoc.generate.document import write, yaml_text
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.provisioning import KUSTOMIZATION, beside, kustomized
from inferdoc.words import how_many

SETTINGS = "vllm:cache_config_info"
VARIABLE = re.compile(r"(?<![\w\\])\$[a-z]\w*")
VARIABLES = (("$__rate_interval", "5m"), ("$__interval", "1m"), ("$__range", "1h"))


def board_files(catalogue: Catalogue, links: GeneratedLinks, *, provisioned: bool = False) -> dict[Path, str]:
    """Text by path of all dashboards. provisioned: with the ConfigMaps and the provider beside them.

    Raises CatalogueError for a board file that is wrong.
    """
    from inferdoc.generate.grafana import dashboard, text

    settings = [label for marker in catalogue.markers if marker.info == SETTINGS for label in marker.labels]
    made = {
        name: dashboard(board, panels(board, path, catalogue, links), links, settings)
        for name, (board, path) in load_boards(catalogue.overlays).items()
    }
    files = {Path(f"{name}.json"): text(board) for name, board in made.items()}
    files[KUSTOMIZATION] = kustomized(made)
    if provisioned:
        files |= beside(made)
    return files


def build_boards(
    catalogue: Catalogue, links: GeneratedLinks, folder: Path, *, check: bool = False, provisioned: bool = False
) -> list[str]:
    """Bring a folder up to date; returns what differed (with `check` it still does). provisioned: as in `board_files`.

    Raises CatalogueError for a board file that is wrong, InferdocError for a folder that cannot be written.
    """
    return write(board_files(catalogue, links, provisioned=provisioned), folder, check=check)


def check_boards(folder: Path) -> tuple[list[str], str]:
    """Problems, one line each, and a summary. Raises InferdocError where there is no dashboard to check."""
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise InferdocError(
            f"{folder}: no dashboards there; run inferdoc dashboards build, or name the folder with --out"
        )
    found: list[str] = []
    for path in paths:
        board = _load(path)
        found += [f"{path}: {line}" for line in problems(board)]
        if shutil.which("promtool"):
            found += [f"{path}: {line}" for line in _unparsed(board)]
    boards = f"{how_many(len(paths), 'dashboard')} checked, {how_many(len(found), 'problem')}"
    without = "" if shutil.which("promtool") else " (queries not parsed: promtool is not on the PATH)"
    return found, boards + without


def expanded(expr: str, rate_interval: str = "5m") -> str:
    """A query with the variables that Grafana fills in: everything chosen, a fixed window."""
    for name, value in (("$__rate_interval", rate_interval), *VARIABLES[1:]):
        expr = expr.replace(name, value)
    return VARIABLE.sub(".*", expr)


def _unparsed(board: dict[str, Any]) -> list[str]:
    """Queries that Prometheus cannot parse."""
    named = {f"panel:{number}": (panel, expr) for number, (panel, expr) in enumerate(queries(board))}
    rules = [{"record": name, "expr": expanded(expr)} for name, (_, expr) in named.items()]
    with tempfile.TemporaryDirectory(prefix="inferdoc-") as folder:
        path = Path(folder) / "queries.yaml"
        path.write_text(yaml_text({"groups": [{"name": "queries", "rules": rules}]}, "queries"), "utf-8")
        answer = promtool.check([path])
    problems = []
    for line in answer.problems:
        panel = next((each for name, (each, _) in named.items() if f'"{name}"' in line), None)
        problems.append(f"panel {panel['title']}: {line}" if panel else line)
    return problems


def _load(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InferdocError(f"{path}: cannot be read: {error.strerror}") from None
    except NOT_JSON as error:
        raise InferdocError(f"{path}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InferdocError(f"{path}: a dashboard is an object")
    return found
