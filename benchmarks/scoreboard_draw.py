"""One draw of the scoreboard: simulate it, look at it in time, late and much later, and hold the answers against what
is true."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

from absent import absent_witnesses, impact_shows, right_without, series_of
from looks import Look, ask, catalogue, look_of
from scoreboard_harm import (
    AT_ONCE,
    HARM,
    IDLE_HANG,
    LEAST_LOSS,
    REFUSES,
    growth,
    hit,
    holds_work,
    loses,
    refused_share,
)
from scoreboard_tables import Outcome
from stores import temporary_store

from inferdoc.judging.model import Diagnosis, Finding
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scrape import Scraped
from inferdoc_dev.incidents import CAUSES, CONTROLS, PAIRS
from inferdoc_dev.incidents.generator import Drawing, draw, randomised
from inferdoc_dev.incidents.recording import Recording, record

STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 12)
"""Minutes after the onset at which the walk asks again."""
LATE = 180.0
"""Seconds after the onset at which the late look of a plain draw begins."""
JUST_BEFORE = 180.0
"""Seconds before the onset within which new pods show nothing yet of how they are without the fault."""
REMAP_FAILED = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
GROUPS: dict[str, dict[str, Drawing]] = {"cause": CAUSES, "control": CONTROLS, "pair": PAIRS}

Task = tuple[str, str, int, bool, bool]
"""Group, kind, seed; whether surroundings are drawn; whether the diagnosis is walked forward from the onset."""


def run(task: Task) -> Outcome:
    """Simulate one incident or control and look at it."""
    group, kind, seed, plain, walk = task
    drawings = GROUPS[group]
    make = draw if plain else randomised
    scenario = make(kind, seed, drawings, group == "control")
    recording = record(scenario)
    with temporary_store(recording.targets) as path:
        return _Truth(scenario, recording, group, kind, path).outcome(walk)


class _Truth:
    """A scenario with its recording, and what is true about it. Moments in Unix seconds."""

    def __init__(self, scenario: Scenario, recording: Recording, group: str, kind: str, path: Path) -> None:
        self.scenario, self.recording, self.group, self.kind, self.path = scenario, recording, group, kind, path
        self.end = scenario.start + scenario.duration
        self.expect = scenario.expect
        self.present = series_of(_own(recording))
        self.onset = None if self.expect.onset is None else scenario.start + self.expect.onset
        drawn = scenario.surroundings
        self.joined = drawn is None or drawn.layout != "instance"
        self.window = scenario.start + (drawn.window if drawn else 0.0)
        self.slots = {name: life.slot for life in recording.lives for name in life.shown}
        self.hit = hit(self.expect, recording, self.onset or self.window)
        own = {life.slot for life in recording.lives if not life.bystander}
        struck = self.hit if group == "cause" else own if group == "pair" else set()
        self.healthy = [name for name, slot in self.slots.items() if slot not in struck]

    def outcome(self, walk: bool) -> Outcome:
        scenario, expect = self.scenario, self.expect
        drawn = scenario.surroundings
        answer = ask(self.path, self.window, self.end)
        whole = look_of(answer, self.healthy if self.group == "cause" else ())
        absent = self._absent(expect.cause) if expect.cause else []
        pool, kinds = scenario.pools[0], traits(scenario)
        besides = right_without(expect.cause or "", rollout=self._rolled_out(kinds)) if absent else ()
        outcome = Outcome(
            self.kind,
            scenario.seed,
            expect.cause,
            (*expect.accepts, *besides),
            whole.causes,
            self._harmful(None),
            (self.end - self.window) / 3600,
            scenario.scrape,
            whole.sure,
            group=self.group,
            not_visible=expect.not_visible is not None,
            root=expect.root,
            traffic=tuple(set_going(scenario)),
            load_changes=whole.load_changes,
            where=f"{pool.tier} {pool.model}, {sum(p.pods for p in scenario.pools)} pods, "
            f"{scenario.title.split(', ')[-1]}",
            whole=whole,
            absent=absent,
            traits=kinds,
            happened=[] if drawn is None else [*drawn.happened, *(b.happens for b in drawn.bystanders)],
        )
        if self.onset is not None:
            late = self.onset + (drawn.late if drawn else LATE)
            outcome.late, outcome.late_hurts = self._look(late), self._harmful(late)
            if drawn is not None and drawn.old is not None:
                outcome.old, outcome.old_hurts = (
                    self._look(self.onset + drawn.old),
                    self._harmful(self.onset + drawn.old),
                )
        if self.group == "cause":
            self._measure(outcome, answer, walk)
        return outcome

    def _rolled_out(self, kinds: list[str]) -> bool:
        """Whether the fault began with a rollout, or all that it hits took the place of other pods shortly before: no
        metric says that it was not what they were started with."""
        own = [life for life in self.recording.lives if life.bare != life.slot and not life.bystander]
        born = {life.slot: life.born for life in own if life.born <= (self.onset or 0.0)}
        new = all((self.onset or 0.0) - born.get(slot, 0.0) <= JUST_BEFORE for slot in self.hit)
        return "rollout as trigger" in kinds or (bool(self.hit) and new)

    def _absent(self, cause: str) -> list[str]:
        return absent_witnesses(cause, self.present, catalogue(), self.joined)

    def _look(self, begin: float) -> Look:
        return look_of(ask(self.path, begin, self.end), self.healthy if self.group == "cause" else ())

    def _harmful(self, since: float | None) -> bool:
        """Whether the fault hurts anybody, or does so after a moment."""
        if self.onset is None:
            return False
        remaps_show = self.joined and REMAP_FAILED in self.present
        lasts = loses(self.kind, self.scenario, remaps_show) and not (since is not None and self.kind in AT_ONCE)
        lasts &= self.group == "pair" or impact_shows(self.kind, self.present, catalogue())
        bare = {life.bare for life in self.recording.lives if life.slot in self.hit}
        if self.kind == IDLE_HANG and not self.scenario.exporters.router:
            lasts &= holds_work(self.recording.bare, bare, 1000 * self.onset)
        if self.kind == REFUSES:
            lasts &= refused_share(self.recording.bare, bare, 1000 * (since or self.onset)) >= LEAST_LOSS
        if lasts or (self.group == "pair" and since is None):
            return True
        if self.group == "pair":
            bare = {life.bare for life in self.recording.lives if not life.bystander}
        since_ms = None if since is None else 1000 * since
        grown = growth(self.recording.bare, bare, 1000 * self.onset, self.kind, since_ms)
        return grown >= HARM

    def _measure(self, outcome: Outcome, answer: Diagnosis, walk: bool) -> None:
        """Scope and onset of the finding that names the cause, and when a diagnosis first does."""
        wanted = naming(answer, outcome)
        if wanted is None or self.onset is None:
            return
        named = {self.slots.get(pod, pod) for pod in wanted.scope.pods}
        outcome.scope = len(named & self.hit) / max(len(named | self.hit), 1)
        if wanted.onset:
            moment = datetime.datetime.fromisoformat(wanted.onset.replace("Z", "+00:00")).timestamp()
            outcome.onset_error = moment - self.onset
        for minutes in STEPS if walk else ():
            until = self.onset + 60 * minutes
            if until >= self.end or naming(ask(self.path, self.window, until), outcome):
                outcome.detected = float(minutes)
                break


def _own(recording: Recording) -> list[Scraped]:
    """The targets without the engines of other models: what those show is no witness of this one."""
    others = {name for life in recording.lives if life.bystander for name in life.shown}
    return [target for target in recording.targets if not others & set(target.labels.values())]


def naming(answer: Diagnosis, label: Outcome) -> Finding | None:
    """The finding that names the cause: its own, or an accepted one that has it as its change."""
    own = next((f for f in answer.findings if f.id == label.cause), None)
    behind = (f for f in answer.findings if f.id in label.expected and f.change and f.change.cause == label.cause)
    return own or next(behind, None)


def traits(scenario: Scenario) -> list[str]:
    """What surrounds a draw, in words for a table."""
    drawn = scenario.surroundings
    if drawn is None:
        return ["bare"]
    exporters, release = scenario.exporters, scenario.pools[0].version
    words = [f"scraped every {scenario.scrape:g} s", f"labels: {drawn.layout}", f"names: {drawn.naming}"]
    words += [f"without {name}" for name in ("dcgm", "router", "kube", "cadvisor") if not getattr(exporters, name)]
    words += ["exported labels"] if drawn.exported else []
    words += [f"allow-list: {drawn.allow}"] if drawn.allow != "all" else []
    words += ["families withheld"] if drawn.withheld else []
    words += [f"vLLM {release}"] if release != "0.32" else []
    words += [f"router {scenario.router.version}"] if scenario.router.version != "0.11" else []
    words += ["other models beside"] if drawn.bystanders else []
    words += ["window over 1 h"] if scenario.duration - drawn.window > 3600 else []
    return [*words, *dict.fromkeys(drawn.happened)]


def set_going(scenario: Scenario) -> Iterator[str]:
    """The load changes that a scenario has, whatever its cause: a finding may name them as its change."""
    usual = [stream for stream in scenario.traffic if stream.start <= 0]
    more = [stream for stream in scenario.traffic if stream.start > 0]
    onset = scenario.expect.onset or 0.0
    faults = [fault for fault in scenario.faults if fault.kind == "traffic" and fault.at >= onset]
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
