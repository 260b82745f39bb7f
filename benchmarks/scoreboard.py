"""How well `inferdoc diagnose` finds causes: labelled incidents and controls from the fleet simulator, diagnosed one
by one.

    python benchmarks/scoreboard.py                      the published table, into docs/scoreboard.md
    python benchmarks/scoreboard.py --tuning --each 3    seeds that may be looked at while recipes are changed

Incidents are drawn with random tier, model, fleet shape, load, lengths, scrape interval, severity and moment. An
incident whose fault hurts nobody (no latency of the pods it hits grows by HARM, nothing is lost) calls for silence
and is counted apart. Progress goes to standard error.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

import numpy as np
from scoreboard_tables import (
    Outcome,
    causes_table,
    controls_table,
    missed_list,
    pairs_table,
    ranks_table,
    together_table,
)

from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.diagnose.api import Options
from inferdoc.diagnose.model import Diagnosis, Finding
from inferdoc.simulate.generator import Drawing, draw
from inferdoc.simulate.incidents import CAUSES, CONTROLS, PAIRS
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario import Expect, Scenario
from inferdoc.simulate.scrape import Scraped, simulate
from inferdoc.store import Store

OVERLAY = "INFERDOC_SCOREBOARD_CATALOGUE"
PUBLISHED_SEEDS = 9000
TUNING_SEEDS = 100
HARM = 1.3  # growth of a mean latency below which a fault counts as harmless
PASSING = frozenset({"prefix-cold-start", "cold-start-lag", "autoscaler-oscillation"})
"""Causes whose harm passes by itself: a cache fills, replicas come."""
MANY = 20
"""Observations that a mean over two minutes needs to count."""
LOSS = frozenset(
    {
        "client-retry-storm",
        "engine-down",
        "gpu-ecc-degradation",
        "gpu-lost",
        "engine-hung",
        "engine-crash-loop",
        "engine-oom",
        "kv-handshake-failure",
        "kv-lease-expiry",
        "kv-load-failure",
        "admission-shedding",
        "no-ready-endpoints",
        "flow-control-stall",
        "router-overloaded",
        "priority-starvation",
        "gateway-timeout-mismatch",
        "scale-down-abort",
        "silent-output-corruption",
        "metric-absent-or-renamed",
        "telemetry-artifact",
        "tool-parse-failure",
    }
)
"""Causes whose harm is what they are: work or sight is lost, or waits outside the engines."""
STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12)
"""Minutes after the onset at which the walk asks again."""
LATENCIES = {
    "time_to_first_token": "ttft_mean",
    "inter_token_latency": "itl_mean",
    "e2e_request_latency": "e2e_mean",
    "request_queue_time": "queue_time_mean",
}
"""Histograms of an engine, and the signals whose floors say which change of them can matter at all."""


@lru_cache(maxsize=1)
def catalogue() -> Catalogue:
    overlay = os.environ.get(OVERLAY)
    return load_catalogue([overlay] if overlay else [])


def judge(path: Path, from_: float, until: float) -> Diagnosis:
    """The diagnosis of a window, in Unix seconds."""
    return diagnose(open_source(store=path), from_=from_, until=until, options=Options(catalogue=catalogue()))


def growth(targets: Iterable[Scraped], pods: Collection[str], onset_ms: float, passes: bool = False) -> float:
    """The largest growth of a mean latency of the pods, from the calm part to what came a minute after the onset. Of
    harm that passes also from the worst two minutes of the calm part to the worst two after the onset (of other harm
    not: one healthy fleet in twelve has two minutes that are worse by half)."""
    calm: dict[str, list[np.ndarray]] = defaultdict(list)
    later: dict[str, list[np.ndarray]] = defaultdict(list)
    for target in targets:
        if target.labels.get("pod") in pods and target.labels["job"] == "vllm":
            for name, rows in _grown(target).items():
                calm[name].append(rows[rows[:, 0] < onset_ms])
                later[name].append(rows[rows[:, 0] > onset_ms + 60_000])
    ratios = [1.0]
    for name, signal in LATENCIES.items():
        floor = catalogue().signals[signal].floor
        for mean in (_mean, _worst) if passes else (_mean,):
            was, became = mean(calm[name]), mean(later[name])
            if became - was >= floor:
                ratios.append(became / max(was, floor / 2))
    return max(ratios)


def _grown(target: Scraped) -> dict[str, np.ndarray]:
    """Per latency: float64[n, 3], ms of a page and what sum and count grew by since the one before."""
    pages = [(t, p) for t, p in target.pages if len(p) > 5]
    found: dict[str, np.ndarray] = {}
    if len(pages) < 2:
        return found
    for name in LATENCIES:
        rows = np.zeros((len(pages) - 1, 3))
        rows[:, 0] = [t for t, _ in pages[1:]]
        for place, series in enumerate(pages[-1][1].layout.series):
            for column, ending in ((1, "sum"), (2, "count")):
                if series.name == f"vllm:{name}_seconds_{ending}":
                    seen = np.array([p.values[place] if place < len(p) else 0.0 for _, p in pages])
                    steps = np.diff(seen)
                    # A counter that fell was set back: what it shows now came since.
                    rows[:, column] += np.where(steps < 0, seen[1:], steps)
        found[name] = rows
    return found


def _mean(pods: list[np.ndarray]) -> float:
    """Mean latency of all pods, s; NaN on too few observations."""
    total = sum((rows[:, 1:].sum(axis=0) for rows in pods), np.zeros(2))
    return float(total[0] / total[1]) if total[1] > 5 else float("nan")


def _worst(pods: list[np.ndarray]) -> float:
    """The largest mean latency of one pod over two minutes, s, on at least MANY observations; NaN without."""
    worst = float("nan")
    for rows in pods:
        until = np.searchsorted(rows[:, 0], rows[:, 0] + 120_000, side="right")
        sums = np.vstack((np.zeros(2), rows[:, 1:].cumsum(axis=0)))
        over = sums[until] - sums[np.arange(len(rows))]
        enough = over[:, 1] >= MANY
        if enough.any():
            worst = float(np.nanmax([worst, (over[enough, 0] / over[enough, 1]).max()]))
    return worst


def run(task: tuple[str, str, int]) -> Outcome:
    """Simulate one incident and diagnose it: at its end, and walking forward from its onset."""
    group, kind, seed = task
    recipes: dict[str, Drawing] = {"cause": CAUSES, "control": CONTROLS, "pair": PAIRS}[group]
    scenario = draw(kind, seed, recipes, group == "control")
    targets = simulate(scenario)
    with tempfile.TemporaryDirectory(prefix="inferdoc-scoreboard-") as folder:
        path = Path(folder) / "fleet.db"
        with Store.open(path, "w") as store:
            write_store(targets, store)
        return _score(scenario, group, kind, targets, path)


def _score(scenario: Scenario, group: str, kind: str, targets: list[Scraped], path: Path) -> Outcome:
    start, end = scenario.start, scenario.start + scenario.duration
    expect, pool = scenario.expect, scenario.pools[0]
    answer = judge(path, start, end)
    found = [finding.id for finding in answer.findings]
    onset = expect.onset
    harmful = onset is not None and (
        kind in LOSS
        or group == "pair"
        or growth(targets, hit(expect, targets, start + onset), 1000 * (start + onset), kind in PASSING) >= HARM
    )
    outcome = Outcome(
        kind,
        scenario.seed,
        expect.cause,
        expect.accepts,
        found,
        bool(harmful),
        scenario.duration / 3600,
        scenario.scrape,
        [finding.certainty for finding in answer.findings],
        group=group,
        not_visible=expect.not_visible is not None,
        root=expect.root,
        traffic=tuple(set_going(scenario)),
        drivers=[finding.change.cause if finding.change else None for finding in answer.findings],
        where=f"{pool.tier} {pool.model}, {sum(p.pods for p in scenario.pools)} pods, {scenario.title.split(', ')[-1]}",
    )
    if group != "cause" or onset is None:
        return outcome
    wanted = naming(answer, outcome)
    if wanted is not None:
        named, true = set(wanted.scope.pods), hit(expect, targets, start + onset)
        outcome.scope = len(named & true) / max(len(named | true), 1)
        if wanted.onset:
            moment = datetime.datetime.fromisoformat(wanted.onset.replace("Z", "+00:00")).timestamp()
            outcome.onset_error = moment - (start + onset)
        for minutes in STEPS:
            until = start + onset + 60 * minutes
            if until >= end or naming(judge(path, start, until), outcome):
                outcome.detected = float(minutes)
                break
    return outcome


def set_going(scenario: Scenario) -> Iterator[str]:
    """The workload drivers that a scenario has, whatever its cause: a finding may name them as its change."""
    usual = [stream for stream in scenario.traffic if stream.start <= 0]
    more = [stream for stream in scenario.traffic if stream.start > 0]
    faults = [fault for fault in scenario.faults if fault.kind == "traffic"]
    if more or any((f.rate or 1.0) > 1.0 for f in faults):
        yield "demand-beyond-capacity"
    if any((f.prompt or 1.0) > 1.0 for f in faults) or any(
        late.prompt.mean() > first.prompt.mean() for late in more for first in usual
    ):
        yield "prompt-growth"
    if any((f.output or 1.0) > 1.0 for f in faults) or any(
        late.output.mean() > first.output.mean() for late in more for first in usual
    ):
        yield "runaway-generation"


def hit(expect: Expect, targets: list[Scraped], onset: float) -> set[str]:
    """The pods that the fault hits; of a pool that it hits as a whole, all that served after the onset (Unix s). Where
    the simulation decides which pod gets a popular prefix, the one that began most requests after the onset."""
    engines = [t for t in targets if t.labels["job"] == "vllm"]
    if expect.pool is not None:
        served = {t.labels["pod"] for t in engines if any(at > 1000 * onset for at, _ in t.pages)}
        return {pod for pod in served if pod.rsplit("-", 1)[0] == expect.pool}
    if expect.pods or expect.cause is None:
        return set(expect.pods)
    began = {}
    for target in engines:
        rows = _grown(target).get("time_to_first_token")
        began[target.labels["pod"]] = 0.0 if rows is None else float(rows[rows[:, 0] > 1000 * onset, 2].sum())
    return {max(began, key=lambda pod: began[pod])}


def naming(answer: Diagnosis, label: Outcome) -> Finding | None:
    """The finding that names the cause: its own, or an accepted one that has it as its change."""
    own = next((f for f in answer.findings if f.id == label.cause), None)
    behind = (f for f in answer.findings if f.id in label.expected and f.change and f.change.cause == label.cause)
    return own or next(behind, None)


ABOUT = f"""
An incident counts where its fault hurts: a mean latency of the pods it hits grows by a factor of {HARM} or more
(and by more than the signal's floor), over the time after the onset, for harm that passes by itself over its worst
two minutes against the worst two of the calm, or work or sight is lost. Each has a label: what may come first, the
preferred one first. Top-1: the first finding is one of these (as with the labels of the recordings); preferred
first: it is the preferred one, and the cause is named. A driver of the workload (longer prompts, endless answers,
more demand) is the root only where nothing local explains the harm; where the draw makes a limit of the engine
bind, the label prefers that limit, with the driver as its change. Recall: the cause is named, as a finding or as
the change of one that the label accepts. Precision: of the findings with this id the share that the label accepts,
and of the drivers behind findings the share that the scenario did set going, over incidents and controls together.
Scope: pods named and pods hit, intersection over union. Onset error: absolute, median, against the moment at which
the mechanism changed (a cache takes minutes to fill, so some symptoms come later). Detected: minutes after the
onset at which the diagnosis of the data so far first names the cause. Spoke on harmless: any finding on a fault
that hurt nobody.
"""


RANKS_ABOUT = """
P: metrics show all of it; P+: all of it with a named opt-in; L: its likelihood; X: no more than that it is possible.
"""


def page(outcomes: list[Outcome], seeds: str, seconds: float, jobs: int) -> str:
    incidents = [o for o in outcomes if o.group == "cause"]
    controls = [o for o in outcomes if o.group == "control"]
    pairs = [o for o in outcomes if o.group == "pair"]
    how = "How well `inferdoc diagnose` finds causes on simulated fleets ([how they are simulated](simulator.md))."
    what = f"{len(incidents)} incidents, {len(controls)} controls, {len(pairs)} incidents with two faults; {seeds}."
    cost = f"Made by `python benchmarks/scoreboard.py` in {seconds / 60:.0f} minutes with {jobs} processes."
    parts = ["# Scoreboard", "", how, what, cost, "Weak rows stand as measured.", ""]
    parts += ["## By rank", RANKS_ABOUT, *ranks_table(outcomes, catalogue())]
    parts += ["## Causes", ABOUT, *causes_table(outcomes, CAUSES)]
    parts += ["## Controls", "", *controls_table(controls, CONTROLS)]
    parts += ["## Look-alikes", "", *pairs_table(outcomes, catalogue())]
    parts += ["## Two faults at once", "", *together_table(pairs, PAIRS)]
    parts += ["## Called otherwise", "", *missed_list(incidents)]
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=6, help="incidents per cause (default 6)")
    parser.add_argument("--controls", type=int, default=4, help="runs per kind of control (default 4)")
    parser.add_argument("--pairs", type=int, default=1, help="runs per pair of faults (default 1)")
    parser.add_argument("--only", nargs="*", default=[], help="causes or kinds of control")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--tuning", action="store_true", help="seeds for tuning; prints the page instead of writing it")
    parser.add_argument("--seed", type=int, help="first seed (default: as published, or for tuning)")
    parser.add_argument("--catalogue", type=Path, help="overlay folder with changed recipes, to compare")
    parser.add_argument("--json", type=Path, help="the outcomes as JSON, to look at single runs")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "docs" / "scoreboard.md")
    args = parser.parse_args()
    if args.catalogue is not None:
        os.environ[OVERLAY] = str(args.catalogue)
    first = args.seed if args.seed is not None else TUNING_SEEDS if args.tuning else PUBLISHED_SEEDS
    tasks = [("cause", c, first + n) for n in range(args.each) for c in CAUSES]
    tasks += [("control", c, first + n) for n in range(args.controls) for c in CONTROLS]
    tasks += [("pair", c, first + n) for n in range(args.pairs) for c in PAIRS]
    if args.only:
        tasks = [t for t in tasks if t[1] in args.only]
    began = time.perf_counter()
    outcomes: list[Outcome] = []
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        for number, outcome in enumerate(pool.imap_unordered(run, tasks), start=1):
            outcomes.append(outcome)
            right = outcome.first_right and outcome.named()
            wanted = {"pair": set(outcome.accepts) <= set(outcome.found), "cause": right}
            good = wanted.get(outcome.group, not set(outcome.found) - set(outcome.accepts))
            mark = "ok" if good else "harmless" if outcome.cause and not outcome.harmful else "WRONG"
            behind = ", ".join(str(d) for d in outcome.drivers if d)
            print(
                f"[{number}/{len(tasks)} {time.perf_counter() - began:.0f} s] {outcome.kind} {outcome.seed} {mark} "
                f"{outcome.found} {f'behind: {behind} ' if behind else ''}"
                f"{f'label: {outcome.root} ' if outcome.root else ''}{outcome.where}",
                file=sys.stderr,
                flush=True,
            )
    outcomes.sort(key=lambda o: (o.seed, o.kind))
    last = first + max(args.each, args.controls, args.pairs) - 1
    kind = "tuning" if args.tuning else "published; seeds below 9000 were looked at while rules were made"
    if args.json is not None:
        args.json.write_text(json.dumps([asdict(o) for o in outcomes]), "utf-8")
    text = page(outcomes, f"seeds {first} to {last} ({kind})", time.perf_counter() - began, args.jobs)
    if args.tuning:
        print(text)
    else:
        args.out.parent.mkdir(exist_ok=True)
        args.out.write_text(text + "\n", "utf-8")
        print(text)


if __name__ == "__main__":
    main()
