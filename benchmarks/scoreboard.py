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
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.diagnose.api import Options
from inferdoc.diagnose.model import Diagnosis
from inferdoc.simulate.generator import Recipe, draw
from inferdoc.simulate.incidents import CAUSES, CONTROLS, PAIRS
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scrape import Scraped, simulate
from inferdoc.store import Store

OVERLAY = "INFERDOC_SCOREBOARD_CATALOGUE"
PUBLISHED_SEEDS = 5000
TUNING_SEEDS = 100
HARM = 1.3  # growth of a mean latency below which a fault counts as harmless
LOSS = frozenset(
    {
        "engine-down",
        "engine-hung",
        "kv-handshake-failure",
        "kv-lease-expiry",
        "metric-absent-or-renamed",
        "telemetry-artifact",
        "client-retry-storm",
    }
)
"""Causes whose harm is what they are: work or sight is lost whatever the latency."""
STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12)
"""Minutes after the onset at which the walk asks again."""
LATENCIES = {
    "time_to_first_token": "ttft_mean",
    "inter_token_latency": "itl_mean",
    "e2e_request_latency": "e2e_mean",
    "request_queue_time": "queue_time_mean",
}
"""Histograms of an engine, and the signals whose floors say which change of them can matter at all."""
LOOK_ALIKES = (
    ("kv-preemption-thrash", "long-prefill-interference"),
    ("kv-preemption-thrash", "kv-transfer-backlog"),
    ("kv-capacity-bound", "prefix-eviction-cascade"),
    ("prefix-eviction-cascade", "demand-beyond-capacity"),
    ("prefix-eviction-cascade", "prefix-unstable-prompt"),
    ("routing-imbalance", "slow-gpu"),
    ("ep-hot-expert", "slow-gpu"),
    ("kv-transfer-backlog", "kv-transport-degraded"),
    ("kv-transfer-backlog", "lora-thrash"),
    ("engine-down", "telemetry-artifact"),
    ("client-retry-storm", "demand-beyond-capacity"),
    ("cpu-starvation", "slow-gpu"),
    ("long-prefill-interference", "prefix-eviction-cascade"),
    ("kv-handshake-failure", "kv-lease-expiry"),
)
"""Pairs whose pictures resemble each other."""


@dataclass
class Outcome:
    """One incident or control. found: ids, best first; detected: minutes after the onset, NaN where never."""

    kind: str
    seed: int
    cause: str | None
    accepts: tuple[str, ...]
    found: list[str]
    harmful: bool
    hours: float
    scope: float = float("nan")
    onset_error: float = float("nan")
    detected: float = float("nan")
    where: str = ""


@lru_cache(maxsize=1)
def catalogue() -> Catalogue:
    overlay = os.environ.get(OVERLAY)
    return load_catalogue([overlay] if overlay else [])


def judge(path: Path, from_: float, until: float) -> Diagnosis:
    """The diagnosis of a window, in Unix seconds."""
    return diagnose(open_source(store=path), from_=from_, until=until, options=Options(catalogue=catalogue()))


def growth(targets: Iterable[Scraped], pods: Sequence[str], onset_ms: float) -> float:
    """The largest growth of a mean latency of the pods, from the calm part to what came a minute after the onset."""
    calm: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    later: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for target in targets:
        if target.labels.get("pod") not in pods or target.labels["job"] != "vllm":
            continue
        before = [p for t, p in target.pages if t < onset_ms and len(p) > 5]
        after = [p for t, p in target.pages if t > onset_ms + 60_000 and len(p) > 5]
        for name in LATENCIES:
            for pages, sums in ((before, calm), (after, later)):
                for place, series in enumerate(pages[-1].layout.series if len(pages) > 1 else ()):
                    if series.name in (f"vllm:{name}_seconds_sum", f"vllm:{name}_seconds_count"):
                        first = pages[0].values[place] if place < len(pages[0]) else 0.0
                        sums[name][series.name.endswith("_count")] += max(pages[-1].values[place] - first, 0.0)
    ratios = [1.0]
    for name, signal in LATENCIES.items():
        if calm[name][1] > 5 and later[name][1] > 5:
            was, became = calm[name][0] / calm[name][1], later[name][0] / later[name][1]
            floor = catalogue().signals[signal].floor
            if became - was >= floor:
                ratios.append(became / max(was, floor / 2))
    return max(ratios)


def run(task: tuple[str, str, int]) -> Outcome:
    """Simulate one incident and diagnose it: at its end, and walking forward from its onset."""
    group, kind, seed = task
    recipes: dict[str, Recipe] = {"cause": CAUSES, "control": CONTROLS, "pair": PAIRS}[group]
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
        kind in LOSS or group == "pair" or growth(targets, expect.pods, 1000 * (start + onset)) >= HARM
    )
    outcome = Outcome(
        kind,
        scenario.seed,
        expect.cause,
        expect.accepts,
        found,
        harmful,
        scenario.duration / 3600,
        where=f"{pool.tier} {pool.model}, {sum(p.pods for p in scenario.pools)} pods, {scenario.title.split(', ')[-1]}",
    )
    if group != "cause" or onset is None:
        return outcome
    wanted = next((f for f in answer.findings if f.id == expect.cause), None)
    if wanted is not None:
        named, true = set(wanted.scope.pods), set(expect.pods)
        outcome.scope = len(named & true) / max(len(named | true), 1)
        if wanted.onset:
            moment = datetime.datetime.fromisoformat(wanted.onset.replace("Z", "+00:00")).timestamp()
            outcome.onset_error = moment - (start + onset)
        for minutes in STEPS:
            until = start + onset + 60 * minutes
            if until >= end or any(f.id == expect.cause for f in judge(path, start, until).findings):
                outcome.detected = float(minutes)
                break
    return outcome


# ---- the tables ------------------------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows), ""]


def share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "-"


def middle(values: Iterable[float], form: str = "{:.0f}") -> str:
    kept = [v for v in values if np.isfinite(v)]
    return form.format(float(np.median(kept))) if kept else "-"


def tail(values: Iterable[float], form: str = "{:.0f}") -> str:
    kept = [v for v in values if np.isfinite(v)]
    return form.format(float(np.quantile(kept, 0.9))) if kept else "-"


def causes_table(incidents: list[Outcome], everything: list[Outcome]) -> list[str]:
    named = Counter(i for o in everything for i in o.found)
    right = Counter(i for o in everything for i in o.found if i == o.cause or i in o.accepts)
    rows = []
    for cause in CAUSES:
        own = [o for o in incidents if o.kind == cause]
        bad = [o for o in own if o.harmful]
        mild = [o for o in own if not o.harmful]
        rows.append(
            [
                f"`{cause}`",
                str(len(bad)),
                share(sum(cause in o.found for o in bad), len(bad)),
                share(sum(o.found[:1] == [cause] for o in bad), len(bad)),
                share(sum(bool(o.found) and (o.found[0] == cause or o.found[0] in o.accepts) for o in bad), len(bad)),
                share(right[cause], named[cause]),
                middle([o.scope for o in bad if cause in o.found], "{:.2f}"),
                share(sum(o.scope == 1.0 for o in bad), sum(cause in o.found for o in bad)),
                middle(abs(o.onset_error) for o in bad),
                middle(o.detected for o in bad),
                tail(o.detected for o in bad),
                f"{sum(bool(o.found) for o in mild)}/{len(mild)}" if mild else "-",
            ]
        )
    harmful = [o for o in incidents if o.harmful]
    rows.append(
        [
            "**all**",
            str(len(harmful)),
            share(sum(o.cause in o.found for o in harmful), len(harmful)),
            share(sum(o.found[:1] == [o.cause] for o in harmful), len(harmful)),
            share(
                sum(bool(o.found) and (o.found[0] == o.cause or o.found[0] in o.accepts) for o in harmful), len(harmful)
            ),
            share(sum(right.values()), sum(named.values())),
            middle((o.scope for o in harmful), "{:.2f}"),
            share(sum(o.scope == 1.0 for o in harmful), sum(o.cause in o.found for o in harmful)),
            middle(abs(o.onset_error) for o in harmful),
            middle(o.detected for o in harmful),
            tail(o.detected for o in harmful),
            "",
        ]
    )
    head = [
        "cause",
        "incidents",
        "recall",
        "top-1",
        "top-1 or accepted",
        "precision",
        "scope (median overlap)",
        "scope exact",
        "onset error, s",
        "detected after, min",
        "p90, min",
        "spoke on harmless",
    ]
    return table(head, rows)


def controls_table(controls: list[Outcome]) -> list[str]:
    rows = []
    for kind in CONTROLS:
        own = [o for o in controls if o.kind == kind]
        wrong = [i for o in own for i in o.found if i not in o.accepts]
        tallied = ", ".join(f"`{i}` {n}" for i, n in Counter(wrong).most_common())
        rows.append([kind, str(len(own)), f"{sum(o.hours for o in own):.1f}", str(len(wrong)), tallied or "-"])
    wrong_all = sum(i not in o.accepts for o in controls for i in o.found)
    days = max(sum(o.hours for o in controls) / 24, 1e-9)
    rows.append(
        ["**all**", str(len(controls)), f"{days * 24:.1f}", str(wrong_all), f"{30 * wrong_all / days:.1f} per 30 days"]
    )
    return table(["control", "runs", "hours", "false findings", "which"], rows)


def pairs_table(incidents: list[Outcome]) -> list[str]:
    rows = []
    for a, b in LOOK_ALIKES:
        of_a = [o for o in incidents if o.kind == a and o.harmful]
        of_b = [o for o in incidents if o.kind == b and o.harmful]
        rows.append(
            [
                f"`{a}`",
                f"`{b}`",
                f"{sum(o.found[:1] == [b] for o in of_a)}/{len(of_a)}",
                f"{sum(o.found[:1] == [a] for o in of_b)}/{len(of_b)}",
            ]
        )
    return table(["A", "B", "A called B", "B called A"], rows)


def together_table(pairs: list[Outcome]) -> list[str]:
    rows = []
    for kind in PAIRS:
        own = [o for o in pairs if o.kind == kind]
        if own:
            both = sum(all(c in o.found for c in o.accepts) for o in own)
            one = sum(any(c in o.found for c in o.accepts) for o in own)
            wrong = Counter(i for o in own for i in o.found if i not in o.accepts)
            rows.append(
                [
                    f"`{kind}`",
                    str(len(own)),
                    str(both),
                    str(one),
                    ", ".join(f"`{i}` {n}" for i, n in wrong.items()) or "-",
                ]
            )
    return table(["faults", "runs", "both named", "at least one", "also named"], rows)


def missed_list(incidents: list[Outcome]) -> list[str]:
    lines = []
    for o in incidents:
        if o.harmful and o.cause not in o.found:
            lines.append(
                f"- `{o.kind}` seed {o.seed} ({o.where}): {', '.join(f'`{i}`' for i in o.found) or 'nothing found'}"
            )
    return [*(lines or ["- none"]), ""]


ABOUT = f"""
An incident counts where its fault hurts: a mean latency of the pods it hits grows by a factor of {HARM} or more (and
by more than the signal's floor), or work or sight is lost. Recall: the cause is among the findings. Top-1: it is the
first. Accepted: the first is right too (the label names such causes). Precision: of the findings with this id, over
incidents and controls together. Scope: pods named and pods hit, intersection over union. Onset error: absolute,
median, against the moment at which the mechanism changed (a cache takes minutes to fill, so some symptoms come
later). Detected: minutes after the onset at which the diagnosis of the data so far first names the cause. Spoke on
harmless: any finding on a fault that hurt nobody.
"""


def page(outcomes: list[Outcome], seeds: str, seconds: float) -> str:
    incidents = [o for o in outcomes if o.kind in CAUSES]
    controls = [o for o in outcomes if o.kind in CONTROLS]
    pairs = [o for o in outcomes if o.kind in PAIRS]
    how = "How well `inferdoc diagnose` finds causes on simulated fleets ([how they are simulated](simulator.md))."
    what = f"{len(incidents)} incidents, {len(controls)} controls, {len(pairs)} incidents with two faults; {seeds}."
    cost = f"Made by `python benchmarks/scoreboard.py` in {seconds / 60:.0f} minutes. Weak rows stand as measured."
    parts = ["# Scoreboard", "", how, what, cost, "", "## Causes", ABOUT, *causes_table(incidents, outcomes)]
    parts += ["## Controls", "", *controls_table(controls), "## Look-alikes", ""]
    parts += ["How often the first finding was the other one of a pair.", "", *pairs_table(incidents)]
    parts += ["## Two faults at once", "", *together_table(pairs), "## Missed", "", *missed_list(incidents)]
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
            good = not outcome.found if outcome.cause is None else outcome.found[:1] == [outcome.cause]
            mark = "ok" if good else "harmless" if outcome.cause and not outcome.harmful else "WRONG"
            print(
                f"[{number}/{len(tasks)} {time.perf_counter() - began:.0f} s] {outcome.kind} {outcome.seed} {mark} "
                f"{outcome.found} {outcome.where}",
                file=sys.stderr,
                flush=True,
            )
    outcomes.sort(key=lambda o: (o.seed, o.kind))
    last = first + max(args.each, args.controls, args.pairs) - 1
    kind = "tuning" if args.tuning else "published; tuning uses seeds below 5000"
    text = page(outcomes, f"seeds {first} to {last} ({kind})", time.perf_counter() - began)
    if args.tuning:
        print(text)
    else:
        args.out.parent.mkdir(exist_ok=True)
        args.out.write_text(text + "\n", "utf-8")
        print(text)


if __name__ == "__main__":
    main()
