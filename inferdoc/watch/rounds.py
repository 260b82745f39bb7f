"""Looks at a fleet, one after the other: shown in place on a terminal, told as changes everywhere else."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NoReturn, TextIO

from inferdoc.errors import ExitCode
from inferdoc.escaping import one_line
from inferdoc.watch.keys import leaving
from inferdoc.watch.news import clock, news
from inferdoc.watch.screen import Screen
from inferdoc.watch.watched import Glance, Watch

MOST_NEWS = 5
"""The latest changes that stay on a terminal beside the report."""
LEAST_REPORT = 8
"""Lines that the report keeps, however low the terminal is."""


@dataclass
class Looks:
    """What came of the looks so far. said: the changes, latest last, each with its time; fault: what the last look said
    where it failed."""

    watch: Watch
    last: Glance | None = None
    said: list[str] = field(default_factory=list)
    fault: str | None = None

    def again(self) -> list[str]:
        """Look once more; what changed. Raises what no later look can cure: a request that makes no sense."""
        try:
            look = self.watch.look()
        except BrokenPipeError:
            raise
        except Exception as error:  # one that passes, such as a server that restarts, does not end a watch
            line, code = self.watch.fault(error)
            if code == ExitCode.USAGE:
                raise
            told = [] if line == self.fault else [f"failed   {one_line(' '.join(line.split()))}"]
            self.fault = line
            return self._dated(told)
        told = ["readable again"] if self.fault is not None else []
        told += news(self.last.answer if self.last else None, look.answer)
        self.last, self.fault = look, None
        return self._dated(told)

    def _dated(self, told: list[str]) -> list[str]:
        self.said += [f"{clock(self.watch.now())}  {line}" for line in told]
        return self.said[len(self.said) - len(told) :]


def print_changes(
    watch: Watch, say: Callable[[str], None], fail: Callable[[str], None], *, whole: bool = False
) -> NoReturn:
    """Look until interrupted, and say what changed, a block each; nothing where nothing did. say: writes text; fail:
    says why a look failed. whole: the whole report in place of the changes."""
    rounds = Looks(watch)
    while True:
        is_first, failed_before = rounds.last is None, rounds.fault
        changed = rounds.again()
        if rounds.fault is not None:
            if rounds.fault != failed_before:
                fail(rounds.fault)
        elif rounds.last is not None and (changed or is_first):
            answer = rounds.last.answer
            head = f"{clock(watch.now())}  {answer.verdict.upper()}  {one_line(answer.summary)}"
            said = [f"  {line.partition('  ')[2]}" for line in changed]
            say(rounds.last.shown if whole else "\n".join([head, *said, ""]))
        time.sleep(watch.seconds)


def show_in_place(watch: Watch, terminal: TextIO, place: str) -> Looks:
    """Look until somebody leaves, with the latest report on the terminal; what came of it. place: what is looked at.
    Raises KeyboardInterrupt where it was interrupted, with the rounds as its argument."""
    rounds, screen = Looks(watch), Screen(terminal)

    def paint(doing: str) -> None:
        screen.show(_lines(rounds, f"{one_line(place)}  {doing}  q leaves", screen.rows))

    try:
        with screen.entered(), leaving(screen.fit) as pause:
            while True:
                paint("looking ...")
                rounds.again()
                at = watch.now()
                paint(f"looked at {clock(at)}, next at {clock(at + timedelta(seconds=watch.seconds))}")
                pause(watch.seconds)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(rounds) from None
    return rounds


def _lines(rounds: Looks, head: str, rows: int) -> list[str]:
    """The lines of a terminal of so many rows: what is being done, the latest changes, what fits of the report."""
    room = max(0, min(MOST_NEWS, rows - LEAST_REPORT))
    latest = rounds.said[-room:][::-1] if room else []
    failed = [] if rounds.fault is None else [f"could not look: {one_line(' '.join(rounds.fault.split()))}"]
    above = [head, *failed, *latest, ""]
    report = left_on_screen(rounds).splitlines()
    fits = rows - len(above)
    if len(report) > fits:
        report = [*report[: fits - 1], f"... {len(report) - fits + 1} more lines; q leaves the whole report"]
    return [*above, *report]


def left_on_screen(rounds: Looks) -> str:
    """The report of the last look, with its warnings."""
    if rounds.last is None:
        return ""
    warnings = [f"warning: {one_line(warning)}" for warning in rounds.last.answer.source.warnings]
    return "\n".join([rounds.last.shown, *warnings])
