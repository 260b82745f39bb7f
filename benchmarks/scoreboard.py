"""How well `inferdoc diagnose` finds causes: labelled incidents and controls from the fleet simulator in surroundings
drawn by chance, and labelled recordings, diagnosed one by one: in time, late, and when the fault is long there.

    python benchmarks/scoreboard.py                      the published page, into docs/measurements/scoreboard.md
    python benchmarks/scoreboard.py --quick              every third cause, fewer controls, the page on standard output
    python benchmarks/scoreboard.py --tuning --each 3    seeds that may be looked at while recipes are changed
    python benchmarks/scoreboard.py --only slow-gpu --plain         without surroundings
    python benchmarks/scoreboard.py FOLDER...            these recordings besides (labels.json and OpenMetrics files)

Incidents are drawn with random tier, model, fleet shape, load, lengths, severity and moment, and with everything that
inferdoc_dev/incidents/randomisation.py declares. An incident whose fault affects nobody (no latency of the pods it hits
grows by HARM, nothing is lost) calls for silence and is counted apart. Progress goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from looks import OVERLAY, catalogue
from measured import measured_line
from scoreboard_draw import run
from scoreboard_harm import HARM
from scoreboard_sources import judge, outcomes_of
from scoreboard_tables import (
    Outcome,
    causes_table,
    controls_table,
    missed_list,
    pairs_table,
    ranks_table,
    table,
    together_table,
)
from scoreboard_trust import (
    certainty_table,
    claims,
    innocent_table,
    left_out_table,
    looks_table,
    reliability_table,
    sources_table,
    traits_table,
)
from workers import results_within

from inferdoc_dev.incidents import CAUSES, CONTROLS, PAIRS
from inferdoc_dev.incidents.randomisation import RANDOMISATION

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = tuple(ROOT / "fixtures" / name for name in ("recordings", "heldout", "fleets"))
"""Recordings that come with inferdoc, where they are there."""
PUBLISHED_SEEDS = 9000
TUNING_SEEDS = 100
QUICK = 3
"""Of the causes and controls every so manieth in a quick run."""


ABOUT = f"""
An incident counts if its fault has impact: a mean latency of the pods it hits grows by a factor of {HARM} or more
(and by more than the signal's floor; a time to the first token that stays below 0.1 s is instantaneous, and a limit on
admission costs only that time), over the time after the onset, for impact that passes by itself over its worst
two minutes against the worst two of the baseline, or work or sight is lost. Each has a label: what may come first, the
preferred one first. Top-1: the first finding is one of these (as with the labels of the recordings); preferred
first: it is the preferred one, and the cause is named. A change of the load (longer prompts, endless answers,
more demand) is the root only where nothing local explains the impact; where the draw makes a limit of the engine
bind, the label prefers that limit, with the load change as its change. Recall: the cause is named, as a finding or as
the change of one that the label accepts. Precision: of the findings with this id the share that the label accepts,
and of the load changes behind findings the share that the scenario did set going, over incidents and controls together.
Scope: pods named and pods hit, intersection over union. Onset error: absolute, median, against the moment at which
the mechanism changed (a cache takes minutes to fill, so some symptoms come later). Detected: minutes after the
onset at which the diagnosis of the data so far first names the cause. Spoke on harmless: any finding on a fault
that affected nobody.
"""


RANKS_ABOUT = """
P: metrics show all of it; P+: all of it with a named opt-in; L: its likelihood; X: no more than that it is possible.
"""


LOOKS_ABOUT = """
In time: the window begins 3 to 12 minutes before the onset and holds it. Late: it begins 60 to 180 s after the onset,
with the data before it still in the source. Old: it begins 7 to 15 minutes after the onset, where the draw lasts so
long. Users are affected in every counted row. With all witnesses: the recording holds series for every mechanism
signal among the cause's symptoms; where it does not, `unexplained-anomaly` is right, too, and what the cause is without
that witness (a throttled GPU is a slow one, a lost device a hung engine).
"""
TRUST_ABOUT = """
Of the findings called proven, likely or possible the share that is right by the label; in a control every finding is
wrong. `first`: the first finding of an answer; `any`: all of them, where further ones may be effects that the label
does not list.
"""
LEFT_ABOUT = """
What a certainty is worth on every other source, and on the source that is left out. The Brier score is that of the
other sources' share taken as the probability (0 is perfect, 0.25 a coin).
"""


def trusted(outcomes: Sequence[Outcome]) -> list[str]:
    """The sections that say how far an answer may be trusted."""
    simulated = [o for o in outcomes if o.source == "simulator"]
    every = claims(outcomes)
    parts = ["## Looks", LOOKS_ABOUT, *looks_table(simulated)]
    parts += ["## Surroundings", "", *traits_table(simulated)]
    parts += ["## Sources", "", *sources_table(outcomes)]
    parts += ["## Certainty", TRUST_ABOUT, *certainty_table(every)]
    parts += ["## One source left out", LEFT_ABOUT, *left_out_table(every)]
    return [*parts, "## Reliability", "", *reliability_table(every)]


def page(outcomes: list[Outcome], seeds: str, cost: str) -> str:
    own = [o for o in outcomes if o.source == "simulator"]
    incidents, controls, pairs = ([o for o in own if o.group == group] for group in ("cause", "control", "pair"))
    how = "How well `inferdoc diagnose` finds causes on simulated fleets ([how they are simulated](../simulator.md))."
    what = f"{len(incidents)} incidents, {len(controls)} controls, {len(pairs)} incidents with two faults, "
    what += f"{len(outcomes) - len(own)} recordings; {seeds}."
    parts = ["# Scoreboard", "", how, what, cost, "Weak rows stand as measured.", ""]
    parts += ["## By rank", RANKS_ABOUT, *ranks_table(own, catalogue())]
    parts += trusted(outcomes)
    parts += ["## Causes", ABOUT, *causes_table(own, CAUSES)]
    parts += ["## Controls", "", *controls_table(controls, CONTROLS)]
    parts += ["## Innocent events", "", *innocent_table(controls)]
    parts += ["## Look-alikes", "", *pairs_table(own, catalogue())]
    parts += ["## Two faults at once", "", *together_table(pairs, PAIRS)]
    parts += ["## Called otherwise", "", *missed_list([o for o in outcomes if o.group == "cause"])]
    parts += ["## What is drawn", "", *table(["what", "range", "because"], RANDOMISATION.rows())]
    return "\n".join(parts)


def work(task: tuple[str, Any]) -> Outcome:
    """One draw or one recording."""
    kind, what = task
    return run(what) if kind == "draw" else judge(what)


def tasks_of(args: argparse.Namespace, first: int) -> Iterator[tuple[str, Any]]:
    """What there is to do: draws first, then recordings."""
    step = QUICK if args.quick else 1
    pairs = sorted(PAIRS)
    np.random.default_rng(first).shuffle(pairs)
    groups = (
        ("cause", list(CAUSES)[::step], args.each),
        ("control", list(CONTROLS)[::step], args.controls),
        ("pair", pairs[: args.pairs // step], 1),
    )
    for group, kinds, each in groups:
        for seed in range(first, first + each):
            for kind in kinds:
                if not args.only or kind in args.only:
                    yield "draw", (group, kind, seed, args.plain, args.walk)
    if not args.only:
        for folder in dict.fromkeys((*(f for f in FOLDERS if f.is_dir()), *args.folders)):
            for recording in outcomes_of(folder)[::step]:
                yield "recording", recording


def progress(outcome: Outcome) -> str:
    """A line about an outcome while the rest is under way."""
    right = outcome.first_right and outcome.named()
    wanted = {"pair": set(outcome.accepts) <= set(outcome.found), "cause": right}
    good = wanted.get(outcome.group, not set(outcome.found) - set(outcome.accepts))
    mark = "ok" if good else "harmless" if outcome.cause and not outcome.harmful else "WRONG"
    behind = ", ".join(str(d) for d in outcome.load_changes if d)
    late = outcome.late
    more = [f"behind: {behind}"] if behind else []
    more += [] if late is None else [f"late: {late.causes or late.verdict}"]
    more += [f"label: {outcome.root}"] if outcome.root else []
    return f"{outcome.source} {outcome.kind} {outcome.seed} {mark} {outcome.found} {' '.join((*more, outcome.where))}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folders", nargs="*", type=Path, help="folders of labelled recordings besides those in fixtures"
    )
    parser.add_argument("--each", type=int, default=1, help="incidents per cause (default 1)")
    parser.add_argument("--controls", type=int, default=2, help="runs per kind of control (default 2)")
    parser.add_argument("--pairs", type=int, default=12, help="incidents with two faults (default 12)")
    parser.add_argument("--only", nargs="*", default=[], help="causes or kinds of control")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument(
        "--minutes", type=float, default=15.0, help="the page is made of what is done by then (default 15)"
    )
    parser.add_argument("--quick", action="store_true", help=f"every {QUICK}rd of all; prints the page")
    parser.add_argument("--plain", action="store_true", help="bare recordings, no surroundings; prints the page")
    parser.add_argument("--walk", action="store_true", help="also after how many minutes a cause is first named")
    parser.add_argument("--tuning", action="store_true", help="seeds for tuning; prints the page instead of writing it")
    parser.add_argument("--seed", type=int, help="first seed (default: as published, or for tuning)")
    parser.add_argument("--catalogue", type=Path, help="overlay folder with changed recipes, to compare")
    parser.add_argument("--json", type=Path, help="the outcomes as JSON, to look at single runs")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "measurements" / "scoreboard.md")
    args = parser.parse_args()
    if args.catalogue is not None:
        os.environ[OVERLAY] = str(args.catalogue)
    first = args.seed if args.seed is not None else TUNING_SEEDS if args.tuning else PUBLISHED_SEEDS
    tasks = list(tasks_of(args, first))
    # Whatever is done when the time is up is a fair sample of all.
    tasks = [tasks[i] for i in np.random.default_rng(first).permutation(len(tasks))]
    began = time.perf_counter()
    outcomes: list[Outcome] = []
    for outcome in results_within(work, tasks, args.jobs, args.minutes):
        outcomes.append(outcome)
        passed = time.perf_counter() - began
        print(f"[{len(outcomes)}/{len(tasks)} {passed:.0f} s] {progress(outcome)}", file=sys.stderr, flush=True)
    minutes = (time.perf_counter() - began) / 60
    cost = f"{measured_line()} {minutes:.0f} minutes with {args.jobs} processes, load {os.getloadavg()[0]:.0f}."
    if len(outcomes) < len(tasks):
        cost += f" {len(outcomes)} of {len(tasks)} runs, in an order drawn by the seed: the time was up (`--minutes`)."
    outcomes.sort(key=lambda o: (o.source != "simulator", o.source, o.seed, o.kind))
    last = first + max(args.each, args.controls) - 1
    kind = "tuning" if args.tuning else "published; seeds below 9000 were looked at while rules were made"
    if args.json is not None:
        args.json.write_text(json.dumps([asdict(o) for o in outcomes]), "utf-8")
    text = page(outcomes, f"seeds {first} to {last} ({kind})", cost)
    if not (args.tuning or args.quick or args.plain or args.only):
        args.out.parent.mkdir(exist_ok=True)
        args.out.write_text(text + "\n", "utf-8")
    print(text)


if __name__ == "__main__":
    main()
