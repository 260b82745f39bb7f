"""List the recipes and print the template of a new cause."""

from __future__ import annotations

import re
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

from inferdoc.catalogue.conditions import Condition
from inferdoc.catalogue.content import content_root
from inferdoc.catalogue.document import nearest
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.catalogue.recipe import Phase, ScopeLevel, Severity
from inferdoc.errors import InferdocError
from inferdoc.escaping import page
from inferdoc.generate.alerts import alert_files
from inferdoc.generate.boards import board_files
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.runbook_sections import BEGIN, END, runbook_changes
from inferdoc.judging.advice import NUMBERS
from inferdoc.judging.conditions import explain
from inferdoc.judging.places import PLACES, in_general
from inferdoc.judging.settings import PREVIOUS
from inferdoc.simulate.scenario_files import load_scenario

OPEN = "TODO"
_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

RECIPE = """\
# yaml-language-server: $schema=recipe.schema.json
id: {id}
title: "TODO: what is wrong, as one short sentence"
phase: queue            # {phases}
scope: pod              # {scopes}
severity: warning       # {severities}
# Facts that observations.yaml does not hold yet. Every number is here, with its reason; below are only names.
observations:
  my_signal_rises: {{signal: waiting, rises: 2, by: 3, share_of: 0.5, because: "TODO: why this number"}}
needs: [my_signal_rises]              # all of them, on one unit, at one time
impact: [first_tokens_late]           # at least one of them: what users feel
supported_by: []                      # makes it surer
excluded_by: []                       # an observation, or {{cause: ID}}; `when: before` for what it brings about itself
effects: []                           # causes that follow from this one
look_alikes: []                       # causes to distinguish
next_steps:                           # a name of steps.yaml, or:
  - do: "TODO: what to do first"
    why: "TODO: what that does about the cause"
    cost: "TODO: what it costs"
    undo: "TODO: how to take it back"
alert: {{for: 5m, keep_firing_for: 5m}}
sources: ["TODO: where this is written down"]
"""

PAGE = """\
# TODO: the title of {id}

## Meaning

TODO: the mechanism, in a few sentences.

## Impact

TODO: what users feel, and how it goes on if nobody acts.
{fires_when}
## First five minutes

TODO: the two or three commands that decide.

## Mitigation

TODO: what to do, with cost and undo.

## Verify

TODO: what shows that it is over.
"""

FIRES_WHEN = f"""
## Fires when

{BEGIN}
{END}
"""
"""For the page of a shipped cause: `make generate` writes what is between the markers."""

SCENARIO = """\
# TODO: a fleet of the simulator in which the cause happens; `inferdoc simulate --list` shows others.
id: {id}
title: "TODO: what happens in it"
expect: {{cause: {id}, pods: [vllm-0], onset: 8m}}
pools:
  - {{name: vllm, pods: 1, tier: h100-80, model: llama-3.1-8b}}
traffic:
  - rate: 2
    prompt: {{median: 200, sigma: 0.3, max: 1000}}
    output: {{median: 80, sigma: 0.3, max: 2000}}
faults:
  - {{kind: traffic, at: 8m, rate: 5}}
duration: 15m
seed: 1
"""


def write_new(folder: Path, cause: str, catalogue: Catalogue) -> list[Path]:
    """Write the three files of a new cause into a catalogue folder. Raises InferdocError for an id that is none or is
    taken, and where one of the files is there already."""
    if not _ID.fullmatch(cause):
        raise InferdocError(f"{cause!r} is no id; small letters and digits with hyphens, as in kv-preemption-thrash")
    if cause in catalogue.recipes:
        raise InferdocError(f"{cause} is declared in {catalogue.origin['recipe', cause]} already; choose another id")
    recipe, page, scenario = files_of(folder / "diagnostics" / f"{cause}.yaml")
    taken = [path for path in (recipe, page, scenario) if path.exists()]
    if taken:
        raise InferdocError(f"{taken[0]}: is there already; nothing was written")
    words = {
        "phases": " | ".join(get_args(Phase)),
        "scopes": " | ".join(get_args(ScopeLevel)),
        "severities": " | ".join(get_args(Severity)),
    }
    words["fires_when"] = FIRES_WHEN.format(id=cause) if _in_checkout(folder) else ""
    for path, text in ((recipe, RECIPE), (page, PAGE), (scenario, SCENARIO)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(id=cause, **words), "utf-8")
    return [recipe, page, scenario]


def files_of(recipe: Path) -> tuple[Path, Path, Path]:
    """The files of a cause by its YAML: that, its page and its scenario (in a checkout among the fixtures)."""
    root = recipe.parent.parent
    scenarios = root / "fixtures" / "incidents" if _in_checkout(root) else root / "incidents"
    return recipe, root / "runbooks" / f"{recipe.stem}.md", scenarios / recipe.name


def _in_checkout(root: Path) -> bool:
    return (root / "fixtures" / "incidents").is_dir()


def problems(catalogue: Catalogue, path: Path) -> list[str]:
    """What is wrong with, or still missing from, a cause: its file, and its page and scenario where the file lies in
    the `diagnostics` folder of a catalogue. If these are complete: why it cannot become rules. One line each."""
    found = _file_problems(catalogue, path)
    if found:
        return found
    if path.parent.name == "diagnostics":
        return generation_problems(catalogue, path.resolve().parent.parent)
    with tempfile.TemporaryDirectory(prefix="inferdoc-") as folder:
        alone = Path(folder) / "diagnostics" / path.name
        alone.parent.mkdir()
        shutil.copy(path, alone)
        return generation_problems(catalogue, Path(folder))


def catalogue_problems(catalogue: Catalogue) -> list[str]:
    """What is wrong with the whole catalogue; if nothing is, why rules, dashboards or pages cannot be generated."""
    return catalogue.problems() or generation_problems(catalogue, content_root())


def generation_problems(catalogue: Catalogue, root: Path) -> list[str]:
    """Why rules, dashboards or runbook pages cannot be generated from a catalogue with the folder `root` beside it: the
    first reason. Dashboards are left out without the extra that makes them."""
    links = GeneratedLinks()
    known = {content_root(), *catalogue.overlays}
    try:
        whole = catalogue if root in known else load_catalogue((*catalogue.overlays, root))
        alert_files(whole, links)
        if find_spec("grafanalib"):
            board_files(whole, links)
        if _in_checkout(root):
            runbook_changes(root / "runbooks", whole)
    except InferdocError as error:
        return [str(error)]
    return []


def _file_problems(catalogue: Catalogue, path: Path) -> list[str]:
    lines = catalogue.check_recipe_file(path, {*NUMBERS, *PLACES, PREVIOUS})
    together = files_of(path) if path.parent.name == "diagnostics" else (path,)
    for each in together:
        lines += [f"{each}: is missing"] if not each.is_file() else _open_places(each)
    return lines if len(together) < 3 else [*lines, *_scenario_problems(together[-1])]


def _open_places(path: Path) -> list[str]:
    """The lines that still say TODO."""
    lines = enumerate(path.read_text("utf-8", errors="replace").splitlines(), start=1)
    return [f"{path}:{number}: still to be filled in: {line.strip()}" for number, line in lines if OPEN in line]


def _scenario_problems(path: Path) -> list[str]:
    """Why a scenario is none, or does not expect the cause that it is named after."""
    if not path.is_file():
        return []
    try:
        scenario = load_scenario(str(path))
    except InferdocError as error:
        return [str(error)]
    expected = scenario.expect.cause
    return [] if expected == path.stem else [f'{path}: expect.cause: expected "{path.stem}", got "{expected}"']


def listing(catalogue: Catalogue) -> str:
    """One line a cause."""
    rows = sorted(catalogue.recipes.values(), key=lambda r: (r.phase, r.id))
    return page(f"{r.id:<26} {r.severity:<9} {r.phase:<10} {r.title}" for r in rows)


def details(catalogue: Catalogue, cause: str) -> str:
    """A cause in words. Raises InferdocError for an unknown id."""
    recipe = catalogue.recipes.get(cause)
    if recipe is None:
        raise InferdocError(
            f'no cause is called "{cause}"{nearest(cause, catalogue.recipes)}; inferdoc recipes list names them'
        )
    lines = [
        recipe.title,
        f"{recipe.id}  {recipe.severity}, at most {recipe.most_certain}, phase {recipe.phase}, scope {recipe.scope}",
    ]
    sections: tuple[tuple[str, tuple[Condition, ...]], ...] = (
        ("symptoms (all)", recipe.symptoms),
        ("impact (one)", recipe.harm),
        ("support", recipe.support),
        ("proof", recipe.proof),
    )
    for title, conditions in sections:
        if conditions:
            lines += ["", title, *(f"  {explain(c)}" for c in conditions)]
    if recipe.unless:
        lines += ["", "ruled out when", *(f"  {explain(c)}: {c.because}{_early(c)}" for c in recipe.unless)]
    if recipe.effects:
        lines += ["", f"effects      {', '.join(recipe.effects)}"]
    if recipe.look_alikes:
        lines += [f"look-alikes  {', '.join(recipe.look_alikes)}"]
    lines += ["", "next steps"]
    lines += [
        in_general(f"  {i}) {step.do} (cost: {step.cost}; undo: {step.undo})")
        for i, step in enumerate(recipe.next_steps, start=1)
    ]
    lines += ["", "sources", *(f"  {source}" for source in recipe.sources)]
    lines += ["", f"declared in {catalogue.origin[('recipe', cause)]}"]
    return page(lines)


def _early(condition: Condition) -> str:
    """Note for evidence that rules out a cause only if it started earlier."""
    return " (only where it was so before)" if condition.when == "before" else ""
