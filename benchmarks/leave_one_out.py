"""What a diagnosis says about a cause it has never heard of: incidents of every cause, judged without its recipe.

    python benchmarks/leave_one_out.py                 the published table, into docs/anomaly.md
    python benchmarks/leave_one_out.py --tuning        seeds that may be looked at while the ranking is changed

Incidents are those of the scoreboard. Of each cause the recipe is taken out of the catalogue, then the diagnosis should
say that users are hurt and nothing known fits (`unexplained-anomaly`), or name a cause that the label accepts, and the
signals that it calls unusual should be those of the recipe that was taken out.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from absent import mechanism_signals
from measured import measured_line
from scoreboard_harm import HARM, growth
from stores import temporary_store
from user_harm import lost_work
from workers import results

from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.judging.api import Options
from inferdoc.judging.fold import reach
from inferdoc.simulate.scrape import simulate
from inferdoc_dev.incidents import CAUSES
from inferdoc_dev.incidents.generator import draw

PUBLISHED_SEEDS = 9000
TUNING_SEEDS = 100
NAMED = 3
SIGHT = ("scrape-gap", "duplicate-target", "drop-series")
"""Faults of the simulator that touch the scrapes and pages alone."""
UNEXPLAINED = "unexplained-anomaly"


@dataclass
class Answer:
    """One incident judged without its recipe. found: causes, first the best; ranked: unusual signals, most first;
    own: mechanism signals of the recipe that was taken out; near: causes that it brings about, or that bring it
    about."""

    cause: str
    seed: int
    accepts: tuple[str, ...]
    harmful: bool
    found: list[str] = field(default_factory=list)
    ranked: list[str] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    near: set[str] = field(default_factory=set, repr=False)

    @property
    def surfaces(self) -> bool:
        """Whether it says that nothing known fits."""
        return UNEXPLAINED in self.found

    @property
    def accepted(self) -> bool:
        """Whether the first cause is one that the label accepts."""
        return bool(self.found) and self.found[0] in self.accepts

    @property
    def column(self) -> str:
        """The column it counts in."""
        if not self.harmful:
            return "spoke" if self.found else "nobody hurt"
        if self.surfaces:
            return "unexplained"
        if not self.found:
            return "silent"
        if self.accepted:
            return "accepted"
        return "near" if self.found[0] in self.near else "another"

    @property
    def hit(self) -> bool:
        """Whether one of the first unusual signals is one of the recipe's own."""
        return bool(set(self.ranked[:NAMED]) & set(self.own))


def without(catalogue: Catalogue, cause: str) -> Catalogue:
    """The catalogue as if the cause had never been written down."""
    less = Catalogue(catalogue.overlays)
    less.__dict__["recipes"] = {name: recipe for name, recipe in catalogue.recipes.items() if name != cause}
    return less


def run(task: tuple[str, int]) -> Answer:
    """Simulate an incident and judge it without its recipe."""
    cause, seed = task
    whole = load_catalogue()
    scenario = draw(cause, seed, CAUSES)
    targets = simulate(scenario)
    recipe = whole.recipes[cause]
    load_changes = {name for name, other in whole.recipes.items() if cause in other.effects}
    near = reach(cause, whole.recipes) | load_changes
    onset_ms = 1000 * (scenario.start + (scenario.expect.onset or 0.0))
    answer = Answer(cause, seed, scenario.expect.accepts, False, own=mechanism_signals(recipe), near=near)
    with temporary_store(targets) as path:
        # A fault of the measurement changes pages, not the service, whatever its pages seem to say.
        hurts = growth(targets, scenario.expect.pods, onset_ms) >= HARM or lost_work(path, scenario)
        answer.harmful = hurts and not all(fault.kind in SIGHT for fault in scenario.faults)
        said = diagnose(
            open_source(store=path),
            from_=scenario.start,
            until=scenario.start + scenario.duration,
            options=Options(catalogue=without(whole, cause)),
        )
    answer.found = [finding.id for finding in said.findings]
    for finding in said.findings:
        if finding.id == UNEXPLAINED:
            answer.ranked = [e.signal for e in finding.evidence if e.role == "support"]
    return answer


COLUMNS = ("nobody hurt", "spoke", "unexplained", "accepted", "near", "another", "silent")
TITLES = (
    "nobody affected, silent | nobody affected, spoke | "
    "unexplained | accepted | its effect or load change | another cause"
)


def table(answers: list[Answer]) -> list[str]:
    """One row per cause, and one for all."""
    rows = [f"| cause taken out | affected | {TITLES} | silent | own in three |"]
    rows.append(f"| --- | {'---: | ' * (len(COLUMNS) + 1)}---: |")
    causes = sorted({a.cause for a in answers})
    for cause in [*causes, None]:
        mine = [a for a in answers if cause in (a.cause, None)]
        surfaces = [a for a in mine if a.column == "unexplained"]
        counts = " | ".join(str(sum(a.column == name for a in mine)) for name in COLUMNS)
        hits = f"{sum(a.hit for a in surfaces)} of {len(surfaces)}" if surfaces else "-"
        title = f"`{cause}`" if cause else "**all**"
        rows.append(f"| {title} | {sum(a.harmful for a in mine)} | {counts} | {hits} |")
    return rows


ABOUT = """# Impact without a known cause

If users are affected and no recipe matches, the diagnosis is `unexplained-anomaly`. Its evidence (`support`) lists
the signals that deviate most from their baseline, each with baseline, current value and start. Mechanisms are
ranked before latency and throughput, which show the impact and not its reason.

To turn the signals into a recipe: add those that changed first as `symptoms` (`rises`, `falls`, `above`) and keep
the impact. Check a healthy week for other reasons for the same change (`unless`). Then run `inferdoc recipes check
PATH` and `inferdoc --catalogue DIR diagnose`.

These count as impact: a latency that rose without more traffic, at the pods or at the router; requests that fail,
are refused, cancelled, corrupted or computed without use, at either; no progress with work present; a pod that is
gone. Impact at a pod is reported for that pod; impact that shows only above the pods, for the pods behind that
router.

Method: every signal of the catalogue, also those that no recipe uses, is measured in robust standard deviations of
its own baseline, beyond the change of its peers, and compared with its peers and peer GPUs. An isolation forest
learns the baseline of the pool, including the same hours of yesterday and of a week ago if the source has them. The
score of a signal is its deviation times the anomaly score of a baseline sample in which only this signal has its
current value. Of several signals for one quantity only one is listed. Each step from a mechanism towards the user
(load, time, user-facing latency) halves the score. Differences between the GPUs of one pod count as a mechanism,
whatever they measure. The seed is fixed: the same data give the same ranking.

## Measured

Each recipe is removed from the catalogue in turn, and incidents of its cause are diagnosed (`python
benchmarks/leave_one_out.py`). Columns:

- *Affected*: a latency grew by a factor of 1.3, requests were lost, or a pod made no progress
  (`benchmarks/user_harm.py`, without recipes). A fault of the scrapes alone affects nobody.
- *Unexplained*: the finding is `unexplained-anomaly`.
- *Accepted*: a remaining recipe that the label of the incident accepts.
- *Its effect or load change*: a remaining recipe that, by the catalogue, is an effect of the removed one, directly
  or indirectly, or its trigger.
- *Another cause*: wrong.
- *Own in three*: incidents with `unexplained-anomaly` for which one of the three most unusual signals is a
  mechanism signal of the removed recipe.
"""


def main() -> None:
    """Print the table, and write the page unless it is for tuning."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--each", type=int, default=2)
    ask.add_argument("--only", nargs="*", default=[])
    ask.add_argument("--jobs", type=int, default=2)
    ask.add_argument("--tuning", action="store_true")
    ask.add_argument("--seed", type=int)
    ask.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "docs" / "anomaly.md")
    args = ask.parse_args()
    first = args.seed if args.seed is not None else TUNING_SEEDS if args.tuning else PUBLISHED_SEEDS
    causes = [
        c for c in CAUSES if c != UNEXPLAINED and c in load_catalogue().recipes and (not args.only or c in args.only)
    ]
    tasks = [(cause, first + n) for n in range(args.each) for cause in causes]
    began, answers = time.perf_counter(), []
    for answer in results(run, tasks, args.jobs):
        answers.append(answer)
        print(answer, file=sys.stderr, flush=True)
    minutes = (time.perf_counter() - began) / 60
    lines = table(answers)
    print("\n".join(lines))
    if not args.tuning:
        how = f"{len(tasks)} incidents, seeds {first} to {first + args.each - 1} (tuning uses seeds below 5000), "
        how += f"{minutes:.0f} minutes with {args.jobs} processes, load {os.getloadavg()[0]:.0f}."
        args.out.write_text("\n".join([ABOUT, how, measured_line(), "", *lines, ""]), "utf-8")


if __name__ == "__main__":
    main()
