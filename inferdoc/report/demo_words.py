"""What stands below the diagnosis of a demo: what was done, how to read the answer, what to look at next."""

from __future__ import annotations

from datetime import datetime

from inferdoc.judging.model import Diagnosis, stamp
from inferdoc.report.brief import clock
from inferdoc.report.demo import FIRST, DemoResult
from inferdoc.simulate.scenario import Scenario
from inferdoc.words import figure

COLUMN = 70


def what_was_done(demo: DemoResult) -> list[str]:
    """The fault, when and where it struck, and whether the diagnosis names it."""
    scenario, expect = demo.scenario, demo.scenario.expect
    lines = [f"what was done  {scenario.title}: {fleet(scenario)}"]
    if expect.onset is not None:
        where = f" on {', '.join(expect.pods)}" if expect.pods else ""
        lines.append(f"               it struck at {clock(stamp(scenario.start + expect.onset))}{where}")
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
    return f", its onset {figure(abs(off), 's')} {'after' if off >= 0 else 'before'} the fault struck"


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
    return ["look at next", *(f"  {command:<{COLUMN}}  {words}" for command, words in commands)]


def _named(scenario: str) -> str:
    return "" if scenario == FIRST else f" --fault {scenario}"
