"""Looks, one after the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from inferdoc.cli.messages import describe_error
from inferdoc.errors import ConfigError, SourceError
from inferdoc.watch import rounds
from inferdoc.watch.rounds import Glance, Watch, WatchState, print_changes
from inferdoc.watch.screen import leaving
from tests.watch.terminal import terminal
from tests.watch.test_news import finding

NEW = "  new      engine-down: critical, likely, since 11:18:52Z, on a\n"
AT = datetime(2026, 11, 18, 11, 20, tzinfo=UTC)


def run(*findings, verdict="critical", shown="the report"):
    answer = SimpleNamespace(
        findings=list(findings), verdict=verdict, summary="In a sentence.", source=SimpleNamespace(warnings=["odd"])
    )
    return Glance(answer, shown)


def watch(*runs):
    """A watch of these looks, or of what they raise."""
    left = iter(runs)

    def once():
        one = next(left)
        if isinstance(one, BaseException):
            raise one
        return one

    return Watch(once, 30.0, describe_error, lambda: AT)


@pytest.fixture
def logged(monkeypatch):
    """Runs a watch until its looks are used up: what is said on each stream, and how long it slept."""

    def run(*runs, whole=False):
        out, err, slept = [], [], []
        monkeypatch.setattr("inferdoc.watch.rounds.time.sleep", slept.append)
        with pytest.raises(KeyboardInterrupt):
            print_changes(watch(*runs, KeyboardInterrupt()), out.append, err.append, whole=whole)
        assert slept == [30.0] * len(runs)
        return out, err

    return run


def test_blocks_are_of_changes_alone(logged):
    healthy, sick = run(verdict="healthy"), run(finding())
    out, err = logged(healthy, healthy, sick, sick, healthy)
    assert out == [
        "11:20:00Z  HEALTHY  In a sentence.\n",
        "11:20:00Z  CRITICAL  In a sentence.\n  verdict  healthy -> critical\n" + NEW,
        "11:20:00Z  HEALTHY  In a sentence.\n  verdict  critical -> healthy\n  ended    engine-down, on a\n",
    ]
    assert err == []


def test_a_document_is_written_whole_where_something_changed(logged):
    out, _ = logged(run(shown="{1}"), run(shown="{2}"), run(finding(), shown="{3}"), whole=True)
    assert out == ["{1}", "{3}"]


def test_a_fault_is_printed_once_and_when_it_is_over(logged):
    gone = SourceError("cannot be reached")
    out, err = logged(run(), gone, gone, run())
    assert err == ["cannot be reached"]
    assert out[1:] == ["11:20:00Z  CRITICAL  In a sentence.\n  readable again\n"]


def test_what_no_run_can_fix_ends_it():
    with pytest.raises(ConfigError):
        print_changes(watch(ConfigError("nonsense")), print, print)


def test_a_low_terminal_keeps_the_report():
    seen = WatchState(watch(*[run(finding(str(n)), shown="\n".join(map(str, range(40)))) for n in range(9)]))
    for _ in range(9):
        seen.again()
    for rows in (6, 10, 24):
        lines = rounds._lines(seen, "head", rows)
        assert len(lines) == rows and lines[0] == "head" and lines[-1].endswith("q prints the whole report")
    assert "11:20:00Z  new      8:" in rounds._lines(seen, "head", 24)[1] + rounds._lines(seen, "head", 24)[2]


def environment():
    keep = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    return {**keep, "TERM": "xterm-256color"}


def interruptible() -> None:
    """As from a shell that somebody types into; a script that runs the tests in the background has SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


PROGRAM = [sys.executable, "-c", "from inferdoc.cli.main import main; main()"]


def test_q_ends_a_sleep_that_started_after_its_signal(monkeypatch):
    with terminal() as there, os.fdopen(os.dup(there.inside)) as keyboard:
        monkeypatch.setattr(sys, "stdin", keyboard)
        monkeypatch.setattr(signal, "pthread_kill", lambda thread, number: None)
        with leaving(lambda: None) as pause:
            there.press("q")
            assert pause(60.0)


def test_q_leaves_what_was_shown_last(store_of):
    words = [*PROGRAM, "diagnose", "--store", str(store_of("kv-preemption-thrash")), "--until", "latest", "--watch"]
    with terminal(rows=20, columns=100) as there:
        program = subprocess.Popen(
            words, stdin=there.inside, stdout=there.inside, stderr=there.inside, env=environment(), close_fds=True
        )
        shown = there.until("diagnosed at ")
        assert shown.startswith("\x1b[?1049h") or "\x1b[?1049h" in shown
        assert "kv-preemption-thrash" in shown
        there.press("x")
        there.press("q")
        there.until("\x1b[?1049l")
        left = there.until("changes and findings")
        assert program.wait(60) == 1
    assert "new      kv-preemption-thrash" in left
    assert "more lines" not in left and "runbook" in left
    assert left.count("cause     kv-preemption-thrash") == 1


def test_an_interrupt_leaves_it_too(store_of):
    words = [*PROGRAM, "diagnose", "--store", str(store_of("control-steady")), "--until", "latest", "--watch"]
    with terminal() as there:
        program = subprocess.Popen(
            words,
            stdin=there.inside,
            stdout=there.inside,
            stderr=there.inside,
            env=environment(),
            start_new_session=True,
        )
        there.until("diagnosed at ")
        program.send_signal(2)
        there.until("\x1b[?1049l")
        there.until("HEALTHY")
        assert program.wait(60) == 130


def test_a_pipe_gets_no_control_characters(store_of):
    words = [*PROGRAM, "diagnose", "--store", str(store_of("control-steady")), "--until", "latest", "--watch"]
    program = subprocess.Popen(
        words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=environment(), preexec_fn=interruptible
    )
    line = program.stdout.readline()
    program.send_signal(2)
    rest, _ = program.communicate(timeout=60)
    assert "  HEALTHY  No cause found" in line
    assert "\x1b" not in line + rest
