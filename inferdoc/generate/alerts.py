"""Building, checking and testing the alert pack on disk."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from inferdoc.catalogue.load import Catalogue
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Assignment
from inferdoc.generate import promtool
from inferdoc.generate.alertmanager import (
    Inhibition,
    Routing,
    configuration,
    effect_inhibitions,
    load_routing,
    merged,
    routing_of,
)
from inferdoc.generate.document import plain_yaml, write, yaml_text
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.pack import RECORDING, RULES, Pack, alerts_of, build_pack, pack_problems
from inferdoc.generate.provisioning import RULES_FOLDER, prometheus_rules
from inferdoc.generate.rule_sets import RuleSetName, cost_of_set
from inferdoc.replacing import replace_file

ALERTMANAGER = Path("alertmanager.yml")
TESTS = Path("tests")
WRITE_TESTS = "python -m inferdoc_dev.rule_tests --out FOLDER"
SMALL_SETS: tuple[RuleSetName, ...] = ("pages", "standard")
AMTOOL_SECONDS = 60


@dataclass(frozen=True)
class AlertFiles:
    """pack: the rules; files: text by path; remarks: the size and the cost of the set, links that have no base, and the
    causes without a rule and why."""

    pack: Pack
    files: dict[Path, str]
    remarks: list[str]


def alert_files(
    catalogue: Catalogue,
    links: GeneratedLinks,
    assignments: Sequence[Assignment] = (),
    rule_set: RuleSetName = "full",
) -> AlertFiles:
    """The rules, the objects of the operator and the Alertmanager configuration. Raises CatalogueError or InferdocError
    for a declaration that cannot become rules."""
    pack = build_pack(catalogue, links, assignments, rule_set)
    routes = yaml_text(configuration(*_routes(catalogue, pack)), "amtool check-config reads it.")
    objects = {RULES_FOLDER / path: text for path, text in prometheus_rules(pack.groups).items()}
    records = sum("record" in rule for group in pack.groups for rule in group["rules"])
    remarks = [
        f"rule set {rule_set}: {len(pack.rules)} alerts, {records} recording rules",
        cost_of_set(rule_set, catalogue.overlays),
        *links.missing,
    ]
    if rule_set == "full":
        remarks += [f"no rule for {name}: {why}" for name, why in pack.none.items()]
    return AlertFiles(pack, {**pack.files, **objects, ALERTMANAGER: routes}, remarks)


def build_alerts(
    catalogue: Catalogue,
    links: GeneratedLinks,
    folder: Path,
    assignments: Sequence[Assignment] = (),
    *,
    rule_set: RuleSetName = "full",
    check: bool = False,
) -> tuple[list[str], list[str]]:
    """Bring a folder up to date. Returns what differed (with `check` it still does), and remarks.

    Raises CatalogueError for a wrong declaration, InferdocError for a folder that cannot be written.
    """
    made = alert_files(catalogue, links, assignments, rule_set)
    return write(made.files, folder, check=check), made.remarks


def set_objects(catalogue: Catalogue, links: GeneratedLinks) -> dict[Path, str]:
    """PrometheusRules of the rule sets smaller than `full`, for the chart: text by path, one folder for each set."""
    return {
        Path("sets") / name / path: text
        for name in SMALL_SETS
        for path, text in prometheus_rules(build_pack(catalogue, links, (), name).groups).items()
    }


def merge_alerts(
    catalogue: Catalogue, path: Path, receivers: Mapping[str, str], rule_set: RuleSetName = "full"
) -> list[str]:
    """Put our routes and inhibit rules for a rule set into an Alertmanager configuration; returns remarks. receivers:
    name of ours -> name of one that is there.

    Raises InferdocError where that is not possible; the file is then as it was.
    """
    routing, inhibitions = _routes(catalogue, build_pack(catalogue, GeneratedLinks(), (), rule_set))
    try:
        text, remarks = merged(path.read_text("utf-8"), path, routing, inhibitions, receivers)
        problems = check_text(text)
        if problems:
            raise InferdocError(f"{path}: not written: amtool refuses the result: {problems}")
        replace_file(path, text.encode())
    except OSError as error:
        raise InferdocError(f"{path}: cannot be read or written: {error.strerror}") from None
    empty = [str(each["name"]) for each in routing.receivers if len(each) == 1 and each["name"] not in receivers]
    return [*remarks, *(f"receiver {name} has no integration: its alerts are not delivered" for name in empty)]


def route_fragments(catalogue: Catalogue, rule_set: RuleSetName = "full") -> str:
    """Our routes, receivers and inhibit rules for a rule set as a configuration of their own."""
    return plain_yaml(configuration(*_routes(catalogue, build_pack(catalogue, GeneratedLinks(), (), rule_set))))


def _routes(catalogue: Catalogue, pack: Pack) -> tuple[Routing, list[Inhibition]]:
    routing = routing_of(load_routing(catalogue.overlays), pack.rules)
    return routing, effect_inhibitions(pack.rules, catalogue.recipes)


def check_alerts(folder: Path) -> tuple[list[str], str]:
    """Problems, one line each, and a summary. Raises InferdocError where there is nothing to check or no promtool."""
    answer = promtool.check(_existing(folder, RECORDING, RULES))
    problems, routes = list(answer.problems), folder / ALERTMANAGER
    if not problems:
        problems += [
            f"{folder / RULES}: {line}" for line in pack_problems(alerts_of((folder / RULES).read_text("utf-8")))
        ]
    if routes.is_file() and shutil.which("amtool"):
        problems += check_routes(routes)
    return problems, f"{answer.count} rules checked, {len(problems)} problems"


def run_alert_tests(folder: Path, names: tuple[str, ...] = ()) -> tuple[list[str], str]:
    """Failures, one line each, and a summary. Raises InferdocError for a name without a test, or without promtool."""
    _existing(folder, RECORDING, RULES)
    tests = [folder / TESTS / f"{name}_test.yaml" for name in names] or sorted((folder / TESTS).glob("*_test.yaml"))
    for path in tests:
        if not path.is_file():
            raise InferdocError(f"{path}: no such test; without names all are run")
    if not tests:
        raise InferdocError(f"{folder / TESTS}: no tests; write them in a checkout of inferdoc: {WRITE_TESTS}")
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


def check_routes(path: Path) -> list[str]:
    """What amtool finds wrong with an Alertmanager configuration, one line each."""
    done = subprocess.run(
        ["amtool", "check-config", str(path)],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=AMTOOL_SECONDS,
        check=False,
    )
    if done.returncode == 0:
        return []
    failures = [line.partition("FAILED:")[2].strip() for line in done.stdout.splitlines() if "FAILED:" in line]
    return [f"{path}: {line}" for line in failures or [" ".join(done.stderr.split())]]


def check_text(text: str) -> str:
    """What amtool finds wrong with the text of a configuration; "" without a problem, or without amtool."""
    if shutil.which("amtool") is None:
        return ""
    with tempfile.TemporaryDirectory(prefix="inferdoc-") as folder:
        place = Path(folder) / ALERTMANAGER
        place.write_text(text, "utf-8")
        return "; ".join(line.removeprefix(f"{place}: ") for line in check_routes(place))
