"""Building, checking and testing the alert pack on disk."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from inferdoc.catalogue.load import Catalogue
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Assignment
from inferdoc.generate import promtool
from inferdoc.generate.alertmanager import configuration, effect_inhibitions, load_routing
from inferdoc.generate.document import write, yaml_text
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.operator import RULES_FOLDER, prometheus_rules
from inferdoc.generate.pack import RECORDING, RULES, TESTS, build_pack
from inferdoc.generate.pack_lint import alerts_of, pack_problems

ALERTMANAGER = Path("alertmanager.yml")
AMTOOL_SECONDS = 60


def build_alerts(
    catalogue: Catalogue,
    links: GeneratedLinks,
    folder: Path,
    assignments: Sequence[Assignment] = (),
    *,
    check: bool = False,
) -> tuple[list[str], list[str]]:
    """Bring a folder up to date. Returns what differed (with `check` it still does), and remarks: the causes without a
    rule and why.

    Raises CatalogueError where a declaration is wrong, InferdocError where the folder cannot be written.
    """
    pack = build_pack(catalogue, links, assignments)
    inhibitions = effect_inhibitions(pack.rules, catalogue.recipes)
    routes = yaml_text(configuration(load_routing(catalogue.overlays), inhibitions), "amtool check-config reads it.")
    objects = {RULES_FOLDER / path: text for path, text in prometheus_rules(pack.groups).items()}
    changed = write({**pack.files, **objects, ALERTMANAGER: routes}, folder, check=check)
    remarks = [f"no rule for {name}: {why}" for name, why in pack.none.items()]
    remarks += [f"no series test {', '.join(limits)} of {name}" for name, limits in pack.untested.items()]
    return changed, [f"{len(pack.rules)} alert rules", *remarks]


def check_alerts(folder: Path) -> tuple[list[str], str]:
    """Problems, one line each, and a summary. Raises InferdocError where there is nothing to check or no promtool."""
    answer = promtool.check(_existing(folder, RECORDING, RULES))
    problems, routes = list(answer.problems), folder / ALERTMANAGER
    if not problems:
        problems += [
            f"{folder / RULES}: {line}" for line in pack_problems(alerts_of((folder / RULES).read_text("utf-8")))
        ]
    if routes.is_file() and shutil.which("amtool"):
        problems += _check_routes(routes)
    return problems, f"{answer.count} rules checked, {len(problems)} problems"


def run_alert_tests(folder: Path, names: tuple[str, ...] = ()) -> tuple[list[str], str]:
    """Failures, one line each, and a summary. Raises InferdocError for a name without a test, or without promtool."""
    _existing(folder, RECORDING, RULES)
    tests = [folder / TESTS / f"{name}_test.yaml" for name in names] or sorted((folder / TESTS).glob("*_test.yaml"))
    for path in tests:
        if not path.is_file():
            raise InferdocError(f"{path}: no such test; without names all are run")
    if not tests:
        raise InferdocError(f"{folder / TESTS}: no tests there; run inferdoc alerts build first")
    answer = promtool.test(tests)
    failed = len({line.partition(":")[0] for line in answer.problems})
    return answer.problems, f"{answer.count} test files, {failed} failed"


def _existing(folder: Path, *names: Path) -> list[Path]:
    for name in names:
        if not (folder / name).is_file():
            raise InferdocError(
                f"{folder / name}: not there; run inferdoc alerts build first, or name the folder with --out"
            )
    return [folder / name for name in names]


def _check_routes(path: Path) -> list[str]:
    done = subprocess.run(
        ["amtool", "check-config", str(path)], capture_output=True, text=True, timeout=AMTOOL_SECONDS, check=False
    )
    if done.returncode == 0:
        return []
    told = [line.partition("FAILED:")[2].strip() for line in done.stdout.splitlines() if "FAILED:" in line]
    return [f"{path}: {line}" for line in told or [" ".join(done.stderr.split())]]
