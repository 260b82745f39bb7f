"""Repeat a diagnosis and show the report or only its changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NoReturn, TextIO

from inferdoc.errors import ExitCode
from inferdoc.escaping import one_line
from inferdoc.incidents.model import placed
from inferdoc.judging.model import Diagnosis, Finding
from inferdoc.times import rfc3339
from inferdoc.words import how_many


@dataclass(frozen=True)
class Glance:
    """One run: what was found, and how it is written."""

    answer: Diagnosis
    shown: str


@dataclass(frozen=True)
class Watch:
    """A repeated diagnosis. run: runs it once; seconds: pause between runs; fault: text and exit code of an error; now:
    the time."""

    run: Callable[[], Glance]
    seconds: float
    fault: Callable[[Exception], tuple[str, int]]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


MOST_PODS = 4
"""So many are named; of more the number."""


def news(before: Diagnosis | None, after: Diagnosis) -> list[str]:
    """One printable line per change. before: the last diagnosis, None at first."""
    return [one_line(line) for line in _news(before, after)]


def clock(moment: datetime) -> str:
    """Time of day in UTC: 20:57:30Z."""
    return rfc3339(moment, "seconds")[11:]


def _news(before: Diagnosis | None, after: Diagnosis) -> Iterator[str]:
    if before is not None and before.verdict != after.verdict:
        yield f"verdict  {before.verdict} -> {after.verdict}"
    known, there = _going_on(before), _going_on(after)
    for place, finding in there.items():
        if place not in known:
            yield f"new      {finding.id}: {_words(finding)}, since {_at(finding.onset)}, on {_pods(_where(finding))}"
    for place, finding in there.items():
        if place in known:
            changes = "; ".join(_moves(known[place], finding))
            if changes:
                yield f"changed  {finding.id}: {changes}"
    over = {place: finding for place, finding in placed(after).items() if not finding.ongoing}
    for place, finding in known.items():
        if place not in there:
            ended = over[place].ended if place in over else None
            yield f"ended    {finding.id}{f' at {_at(ended)}' if ended else ''}, on {_pods(_where(finding))}"


def _going_on(answer: Diagnosis | None) -> dict[str, Finding]:
    return {} if answer is None else {place: one for place, one in placed(answer).items() if one.ongoing}


def _moves(before: Finding, after: Finding) -> Iterator[str]:
    """Differences of a finding to the last run."""
    for name in ("severity", "certainty"):
        was, is_now = getattr(before, name), getattr(after, name)
        if was != is_now:
            yield f"{was} -> {is_now}"
    came = [pod for pod in _where(after) if pod not in _where(before)]
    left = [pod for pod in _where(before) if pod not in _where(after)]
    if came:
        yield f"also on {_pods(came)}"
    if left:
        yield f"no longer on {_pods(left)}"


def _words(finding: Finding) -> str:
    return f"{finding.severity}, {finding.certainty}{', ahead' if finding.imminent else ''}"


def _where(finding: Finding) -> list[str]:
    return finding.scope.pods


def _pods(pods: Sequence[str]) -> str:
    if not pods:
        return "the whole fleet"
    more = len(pods) - MOST_PODS
    return ", ".join(pods[:MOST_PODS]) + (f" and {how_many(more, 'more pod')}" if more > 0 else "")


def _at(stamp: str) -> str:
    """The time of day of an RFC 3339 time."""
    return f"{stamp[11:19]}Z"


MOST_NEWS = 5
"""The latest changes that stay on a terminal beside the report."""
LEAST_REPORT = 8
"""Lines that the report keeps, however low the terminal is."""


@dataclass
class WatchState:
    """State of a watch. changes: lines with their time, the latest last; fault: error of the last run, None if it
    succeeded."""

    watch: Watch
    last: Glance | None = None
    changes: list[str] = field(default_factory=list)
    fault: str | None = None

    def again(self) -> list[str]:
        """Run once more; the changes. Raises usage errors, which no later run can fix."""
        try:
            run = self.watch.run()
        except BrokenPipeError:
            raise
        except Exception as error:  # one that passes, such as a server that restarts, does not end a watch
            line, code = self.watch.fault(error)
            if code == ExitCode.USAGE:
                raise
            lines = [] if line == self.fault else [f"failed   {one_line(' '.join(line.split()))}"]
            self.fault = line
            return self._dated(lines)
        lines = ["readable again"] if self.fault is not None else []
        lines += news(self.last.answer if self.last else None, run.answer)
        self.last, self.fault = run, None
        return self._dated(lines)

    def _dated(self, lines: list[str]) -> list[str]:
        self.changes += [f"{clock(self.watch.now())}  {line}" for line in lines]
        return self.changes[len(self.changes) - len(lines) :]


def print_changes(
    watch: Watch, write: Callable[[str], None], fail: Callable[[str], None], *, whole: bool = False
) -> NoReturn:
    """Run until interrupted and print the changes, one block per run; nothing if nothing changed. write: prints text;
    fail: prints an error. whole: print the whole report instead of the changes."""
    rounds = WatchState(watch)
    while True:
        is_first, failed_before = rounds.last is None, rounds.fault
        changed = rounds.again()
        if rounds.fault is not None:
            if rounds.fault != failed_before:
                fail(rounds.fault)
        elif rounds.last is not None and (changed or is_first):
            answer = rounds.last.answer
            head = f"{clock(watch.now())}  {answer.verdict.upper()}  {one_line(answer.summary)}"
            changes = [f"  {line.partition('  ')[2]}" for line in changed]
            write(rounds.last.shown if whole else "\n".join([head, *changes, ""]))
        time.sleep(watch.seconds)


def show_in_place(watch: Watch, terminal: TextIO, place: str) -> WatchState:
    """Run until the user quits, with the latest report on the terminal; the final state. place: name of the source.
    Raises KeyboardInterrupt with the state as its argument."""
    from inferdoc.watch.screen import Screen, leaving

    rounds, screen = WatchState(watch), Screen(terminal)

    def paint(doing: str) -> None:
        screen.show(_lines(rounds, f"{one_line(place)}  {doing}  q quits", screen.rows))

    try:
        with screen.entered(), leaving(screen.fit) as pause:
            while True:
                paint("diagnosing ...")
                rounds.again()
                at = watch.now()
                paint(f"diagnosed at {clock(at)}, next at {clock(at + timedelta(seconds=watch.seconds))}")
                pause(watch.seconds)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(rounds) from None
    return rounds


def _lines(rounds: WatchState, head: str, rows: int) -> list[str]:
    """The lines of a terminal of so many rows: what is being done, the latest changes, what fits of the report."""
    room = max(0, min(MOST_NEWS, rows - LEAST_REPORT))
    latest = rounds.changes[-room:][::-1] if room else []
    failed = [] if rounds.fault is None else [f"diagnosis failed: {one_line(' '.join(rounds.fault.split()))}"]
    above = [head, *failed, *latest, ""]
    report = left_on_screen(rounds).splitlines()
    fits = rows - len(above)
    if len(report) > fits:
        report = [*report[: fits - 1], f"... {len(report) - fits + 1} more lines; q prints the whole report"]
    return [*above, *report]


def left_on_screen(rounds: WatchState) -> str:
    """The last report with its warnings."""
    if rounds.last is None:
        return ""
    warnings = [f"warning: {one_line(warning)}" for warning in rounds.last.answer.source.warnings]
    return "\n".join([rounds.last.shown, *warnings])
