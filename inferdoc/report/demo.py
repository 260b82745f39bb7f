"""Faults to practise on: the scenario of a cause, simulated into a fresh store and diagnosed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from inferdoc.catalogue.document import nearest
from inferdoc.catalogue.load import Catalogue
from inferdoc.errors import InferdocError
from inferdoc.judging.api import Options, diagnose
from inferdoc.judging.model import Diagnosis
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scenario_files import load_scenario, scenario_files, scenarios

FIRST = "demo-two-tiers"
"""The scenario that is shown where no fault is named."""


@dataclass(frozen=True)
class DemoResult:
    """A simulated fault and what the diagnosis says. fault, title: of the cause that struck."""

    fault: str
    title: str
    scenario: Scenario
    answer: Diagnosis

    @property
    def first(self) -> str | None:
        """The id of the first finding."""
        return self.answer.findings[0].id if self.answer.findings else None

    @property
    def right(self) -> bool:
        """Whether the cause that struck is the first finding."""
        return self.first == self.fault

    @property
    def beside(self) -> str | None:
        """Where the cause stands when another one that its label accepts is first: "finding", "change" (a load change
        stands as the change of the root that it brings about), or None."""
        if self.right or self.first not in self.scenario.expect.accepts:
            return None
        if any(f.id == self.fault for f in self.answer.findings):
            return "finding"
        change = self.answer.findings[0].change
        return "change" if change is not None and change.cause == self.fault else None

    @property
    def good(self) -> bool:
        """Right, or named beside one that is right too, or a fault that metrics cannot show."""
        return self.right or self.beside is not None or self.scenario.expect.not_visible is not None


def faults(catalogue: Catalogue) -> Iterator[Scenario]:
    """The scenario of every fault by id: those named as the cause that they show, or that say why nothing shows it."""
    for scenario in scenarios(catalogue.overlays):
        if scenario.expect.cause == scenario.id or scenario.expect.not_visible is not None:
            yield scenario


def find(fault: str, catalogue: Catalogue) -> Scenario:
    """The scenario of a fault. Raises InferdocError with near ids for one that has none."""
    if fault in scenario_files(catalogue.overlays):
        scenario = load_scenario(fault, catalogue.overlays)
        if scenario.expect.cause is None and scenario.expect.not_visible is None:
            raise InferdocError(
                f"{fault} is a control: nothing strikes it; inferdoc simulate --scenario {fault} runs it"
            )
        return scenario
    if fault in catalogue.recipes:
        raise InferdocError(f"no scenario shows {fault} yet; inferdoc demo --list names those that exist")
    near = nearest(fault, [s.id for s in faults(catalogue)])
    raise InferdocError(f'no fault is called "{fault}"{near}; inferdoc demo --list names them')


def run_demo(scenario: Scenario, catalogue: Catalogue, progress: Callable[[float], None] | None = None) -> DemoResult:
    """Simulate a scenario into a store of its own and diagnose it. progress: told the share that is simulated."""
    from inferdoc.simulate.output import write_store
    from inferdoc.simulate.scrape import simulate
    from inferdoc.source.open import open_source
    from inferdoc.store import Store

    targets = simulate(scenario, progress)
    with tempfile.TemporaryDirectory(prefix="inferdoc-demo-") as folder:
        path = Path(folder) / "fleet.db"
        with Store.open(path, "w") as store:
            write_store(targets, store)
        end = scenario.start + scenario.duration
        answer = diagnose(
            open_source(store=path), from_=scenario.start, until=end, options=Options(catalogue=catalogue)
        )
    answer.source.location = f"simulated fleet {scenario.id}"
    fault = scenario.expect.cause or scenario.id
    recipe = catalogue.recipes.get(fault)
    return DemoResult(fault, recipe.title if recipe else scenario.title, scenario, answer)


def listing(catalogue: Catalogue) -> list[str]:
    """One line a fault: id, whether metrics show it, title or the reason why they do not. Causes that no scenario shows
    come last."""
    lines, named = [], set()
    for scenario in faults(catalogue):
        hidden = scenario.expect.not_visible
        words = f"{scenario.title} (not visible: {hidden})" if hidden else scenario.title
        lines.append(f"{scenario.id:<28} {'no' if hidden else 'yes':<8} {' '.join(words.split())}")
        named.add(scenario.expect.cause or scenario.id)
    lines += [
        f"{r.id:<28} {'-':<8} {r.title} (no scenario yet)" for r in catalogue.recipes.values() if r.id not in named
    ]
    return [f"{'fault':<28} {'visible':<8} what happens", *lines]
