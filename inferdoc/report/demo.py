"""Run the demo: simulate the scenario of a cause, diagnose it, and explain the report."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from inferdoc.catalogue.content import PACKAGE
from inferdoc.catalogue.document import nearest
from inferdoc.catalogue.load import Catalogue
from inferdoc.errors import InferdocError
from inferdoc.judging.api import Options, diagnose
from inferdoc.judging.model import Diagnosis, stamp
from inferdoc.report.brief import clock
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scenario_files import load_scenario, scenario_files, scenarios
from inferdoc.words import figure

RECORDINGS = PACKAGE.parent / "fixtures" / "recordings"
"""The recordings of a checkout; the package has none."""
LABELS = "labels.json"


def _labels() -> list[dict[str, Any]]:
    if not (RECORDINGS / LABELS).is_file():
        raise InferdocError("recordings come with a checkout of inferdoc; use --fault to simulate a fault instead")
    found: list[dict[str, Any]] = json.loads((RECORDINGS / LABELS).read_text("utf-8"))["recordings"]
    return found


def _name(label: dict[str, Any]) -> str:
    return str(label["file"]).removesuffix(".om.gz")


def _label(name: str) -> dict[str, Any]:
    labels = _labels()
    found = next((entry for entry in labels if name in (_name(entry), entry.get("cause"))), None)
    if found is None:
        near = nearest(name, [_name(entry) for entry in labels])
        raise InferdocError(f'no recording is called "{name}"{near}; inferdoc demo --list names them')
    return found


def recorded() -> Iterator[tuple[str, str]]:
    """Name and description of every recording of a checkout; nothing in an installation."""
    for label in _labels() if (RECORDINGS / LABELS).is_file() else ():
        yield _name(label), str(label.get("load_after") or label.get("load_before") or label.get("note") or "")


def cause_of(name: str) -> str | None:
    """The fault under which a recording was made; None for a control. Raises InferdocError for an unknown name."""
    cause: str | None = _label(name).get("cause")
    return cause


def replay_recording(name: str, catalogue: Catalogue) -> Diagnosis:
    """Diagnose a recording, named as its file or by its cause, from a fresh embedded store. Raises InferdocError for an
    unknown name."""
    from inferdoc.source.open import open_source
    from inferdoc.store import Store, import_file

    label = _label(name)
    with tempfile.TemporaryDirectory(prefix="inferdoc-demo-") as folder:
        path = Path(folder) / "demo.db"
        with Store.open(path, "w") as store:
            import_file(store, str(RECORDINGS / label["file"]))
        answer = diagnose(open_source(store=path), since="10m", until="latest", options=Options(catalogue=catalogue))
    answer.source.location = label["file"]
    return answer


COLUMN = 70


def what_was_done(demo: DemoResult) -> list[str]:
    """The fault, time and place of its injection, and whether the diagnosis finds it."""
    scenario, expect = demo.scenario, demo.scenario.expect
    lines = [f"scenario       {scenario.title}: {fleet(scenario)}"]
    if expect.onset is not None:
        where = f" on {', '.join(expect.pods)}" if expect.pods else ""
        lines.append(f"               fault injected at {clock(stamp(scenario.start + expect.onset))}{where}")
    return [*lines, f"verdict        {verdict(demo)}"]


def verdict(demo: DemoResult) -> str:
    """One sentence: named, named too late in the list, not visible, or missed."""
    hidden = demo.scenario.expect.not_visible
    if hidden is not None:
        found = f" The first finding is {demo.first}." if demo.first else ""
        return f"metrics cannot show {demo.fault}: {' '.join(hidden.split()).rstrip('.')}.{found}"
    if demo.right:
        return f"right: {demo.fault} is the first finding{_off(demo)}"
    found = ", ".join(f.id for f in demo.answer.findings) or "nothing"
    if demo.beside == "change":
        return f"accepted: {demo.first}, which this fault brings about, is first; {demo.fault} is named as its change"
    if demo.beside == "finding":
        return f"accepted: {demo.first}, which is right too, is first; found: {found}"
    return f"WRONG: {demo.fault} should be the first finding; found: {found}"


def _off(demo: DemoResult) -> str:
    """How far the onset named lies from the moment at which the mechanism changed."""
    named, injected = demo.answer.findings[0].onset, demo.scenario.expect.onset
    if not named or injected is None:
        return ""
    off = datetime.fromisoformat(named).timestamp() - (demo.scenario.start + injected)
    return f", its onset {figure(abs(off), 's')} {'after' if off >= 0 else 'before'} the injection"


def fleet(scenario: Scenario) -> str:
    """Pools with tier and model, and how long: `2 x h100-80 (prefill), 3 x a100-80 (decode), llama-3.1-8b, 20 min`."""
    pools = [f"{p.pods} x {p.tier}{f' ({p.role})' if p.role != 'both' else ''}" for p in scenario.pools]
    models = dict.fromkeys(p.model for p in scenario.pools)
    return ", ".join([*pools, *models, f"{scenario.duration / 60:.0f} min"])


def how_to_read(answer: Diagnosis) -> list[str]:
    """The words at the left of the text form that this answer uses."""
    lines = [
        "how to read it",
        "  first line   the verdict of the window: HEALTHY, DEGRADED, CRITICAL, or UNKNOWN where data is missing",
    ]
    if answer.findings:
        lines += [
            "  cause        the root of most impact: its id, how certain it is, how often such findings were right",
            "  impact       what users notice, the worst first; without impact there is no finding",
            "  symptom      the mechanism, with the limit it crossed; all symptoms of a cause must hold",
            "  do           the first step; -v shows the others, what was ruled out and what changed",
        ]
    return [*lines, "  -vv          all evidence, why and undo of each step, and causes whose signals are not exported"]


def next_commands(demo: DemoResult) -> list[str]:
    """Commands to go on with, each with what it shows."""
    fault, scenario = demo.fault, demo.scenario.id
    commands = [
        (f"inferdoc runbook {fault}", "the page: confirm, act, undo"),
        (f"inferdoc recipes show {fault}", "the rule: symptoms, impact, what rules it out"),
        (f"inferdoc demo{_named(scenario)} -o html > demo.html", "the same answer with its curves, for the ticket"),
        (f"inferdoc simulate --scenario {scenario} --store fleet.db", "keep the fleet, then:"),
        ("inferdoc diagnose --store fleet.db --since 1h --until latest -v", "all evidence"),
        (f"inferdoc simulate --scenario {scenario} --live --speed 10", "the fleet as live /metrics pages"),
        ("inferdoc demo --list", "other faults"),
        ("inferdoc diagnose --prometheus http://YOUR-PROMETHEUS:9090 --since 1h", "your own fleet"),
    ]
    return ["next steps", *(f"  {command:<{COLUMN}}  {words}" for command, words in commands)]


def _named(scenario: str) -> str:
    return "" if scenario == FIRST else f" --fault {scenario}"


FIRST = "demo-two-tiers"
"""The scenario that is shown where no fault is named."""


@dataclass(frozen=True)
class DemoResult:
    """A simulated fault and its diagnosis. fault, title: of the injected cause."""

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
        """Whether the injected cause is the first finding."""
        return self.first == self.fault

    @property
    def beside(self) -> str | None:
        """Where the cause is listed if another accepted one is first: "finding", "change" (a load change
        is listed as the change of its root), or None."""
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
    """Simulate a scenario into a store of its own and diagnose it. progress: called with the simulated share."""
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
