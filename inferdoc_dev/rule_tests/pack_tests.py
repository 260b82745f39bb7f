"""promtool unit tests of an alert pack, as texts by path: beside the rules in alerts/generated/tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferdoc.catalogue.content import content_file
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recipe import Recipe
from inferdoc.errors import InferdocError
from inferdoc.generate import promtool
from inferdoc.generate.alerts import TESTS, alert_files
from inferdoc.generate.cause_rules import alert_name
from inferdoc.generate.document import MARK, write, yaml_text
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.operational import load_operational
from inferdoc.generate.pack import GROUPS, RECORDING, RULES, Pack
from inferdoc.generate.rule_sets import RuleSetName
from inferdoc.generate.slo import slo_rules, watched
from inferdoc_dev.rule_tests.burn_tests import burn_test
from inferdoc_dev.rule_tests.cases import Case, cases
from inferdoc_dev.rule_tests.cause_tests import cause_test
from inferdoc_dev.rule_tests.observation_tests import observation_tests
from inferdoc_dev.rule_tests.operational_tests import operational_test
from inferdoc_dev.rule_tests.slo_tests import slo_test, waiting_tests
from inferdoc_dev.rule_tests.timing_tests import timing_test

RULE_FILES = [f"../{RECORDING}", f"../{RULES}"]
ABOUT_PARTS = "promtool test rules on what alerts are made of: each observation for itself, and how rules join them."


@dataclass(frozen=True)
class PackTests:
    """files: text by path; untested: limits of a record that no input series can test, by record; unsolved: why a rule
    has no test."""

    files: dict[Path, str]
    untested: dict[str, tuple[str, ...]]
    unsolved: tuple[str, ...] = ()


def build_tests(pack: Pack, catalogue: Catalogue, links: GeneratedLinks) -> PackTests:
    """The unit tests of a pack that `build_pack` made of the same catalogue and links. The set `full` also has tests of
    observations, of limits and of waits.

    Raises CatalogueError or InferdocError for an observation or objective that cannot become a test. A cause that
    cannot is in `unsolved`.
    """
    rules = {rule.name: rule for rule in pack.rules}
    files: dict[Path, str] = {}
    untested: dict[str, tuple[str, ...]] = {}
    unsolved = []

    def add(name: str, test: dict[str, Any], about: str) -> None:
        files[TESTS / f"{name}_test.yaml"] = yaml_text(test, about)

    generated = []
    for name, recipe in catalogue.recipes.items():
        rule = rules.get(alert_name(name))
        if rule is None:
            continue
        written = content_file("alerts", f"tests/{name}_test.yaml", catalogue.overlays)
        if written is not None:
            files[TESTS / f"{name}_test.yaml"] = MARK + written.read_text("utf-8")
            continue
        try:
            found = _cases(recipe, catalogue)
        except InferdocError as error:
            unsolved.append(f"{error}; write alerts/tests/{name}_test.yaml")
            continue
        generated.append(recipe)
        test = cause_test(recipe, rule, catalogue, found, RULE_FILES, list(GROUPS))
        add(name, test, f"promtool test rules on {rule.name}.")
        if pack.rule_set != "pages":  # it reads observations by the names of their records
            timing = timing_test(recipe, rule, found, RULE_FILES, list(GROUPS))
            add(f"{name}-timing", timing, f"When {rule.name} waits, fires and clears.")
    if pack.rule_set == "full":
        exprs = {promtool.name_of(rule): str(rule["expr"]) for group in pack.groups for rule in group["rules"]}
        parts = observation_tests(exprs, generated, pack.rendering, catalogue, RULE_FILES, list(GROUPS))
        untested = parts.none
        for kind, test in parts.files.items():
            add(kind, test, ABOUT_PARTS)
    for slo in watched(catalogue):
        own = [rule for rule in slo_rules(slo, catalogue, links) if rule.name in rules]
        add(
            f"slo-{slo.id}",
            slo_test(slo, catalogue, own, RULE_FILES, list(GROUPS)),
            f"promtool test rules on the objective {slo.id}.",
        )
        if pack.rule_set == "full":
            waits = waiting_tests(slo, catalogue, own)
            burns = burn_test(slo, own, catalogue.objectives.min_events, RULE_FILES, list(GROUPS), waits)
            add(f"slo-{slo.id}-limits", burns, f"The limits and waits of {slo.id}.")
    for each in load_operational(catalogue.overlays).alerts:
        if each.alert in rules:
            test = operational_test(each, rules[each.alert], RULE_FILES, list(GROUPS))
            add(each.alert, test, f"promtool test rules on {each.alert}.")
    return PackTests(files, untested, tuple(unsolved))


def files_with_tests(
    catalogue: Catalogue, links: GeneratedLinks, rule_set: RuleSetName = "full"
) -> tuple[dict[Path, str], list[str]]:
    """The files of the alert pack with its unit tests; a line for each rule or limit that has no test.

    Raises CatalogueError or InferdocError for a declaration that cannot become rules or tests.
    """
    made = alert_files(catalogue, links, rule_set=rule_set)
    tests = build_tests(made.pack, catalogue, links)
    remarks = [f"no series test {', '.join(limits)} of {name}" for name, limits in tests.untested.items()]
    return made.files | tests.files, [*remarks, *tests.unsolved]


def build_with_tests(
    catalogue: Catalogue, links: GeneratedLinks, folder: Path, rule_set: RuleSetName = "full"
) -> tuple[list[str], list[str]]:
    """Bring a folder up to date; what changed, and remarks. Raises what `files_with_tests` raises, and
    InferdocError for a folder that cannot be written."""
    files, remarks = files_with_tests(catalogue, links, rule_set)
    return write(files, folder), remarks


def _cases(recipe: Recipe, catalogue: Catalogue) -> tuple[Case, ...]:
    """Raises InferdocError for a cause whose expression was written by hand, or that no series can test."""
    if recipe.alert and recipe.alert.expr:
        raise InferdocError(f"{recipe.id}: no test follows from an `expr`")
    return cases(recipe, catalogue)
