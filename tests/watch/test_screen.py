"""A screen that is rewritten in place."""

from __future__ import annotations

import os

import pytest

from inferdoc.watch.screen import Screen
from tests.watch.terminal import terminal


@pytest.fixture
def drawn(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    with terminal(rows=6, columns=40) as there, os.fdopen(os.dup(there.inside), "w") as stream:
        yield there, Screen(stream)


def test_only_lines_that_changed_are_written(drawn):
    there, screen = drawn
    screen.show(["one", "two", "three"])
    written = there.written()
    assert all(word in written for word in ("one", "two", "three"))
    screen.show(["one", "2", "three"])
    written = there.written()
    assert "2" in written and "one" not in written and "three" not in written


def test_nothing_is_written_where_nothing_changed(drawn):
    there, screen = drawn
    screen.show(["one", "two"])
    there.written()
    screen.show(["one", "two"])
    screen.fit()
    assert there.written() == ""


def test_lines_that_are_gone_are_wiped(drawn):
    there, screen = drawn
    screen.show(["one", "two", "three"])
    there.written()
    screen.show(["one"])
    assert there.written().count("\x1b[2K") == 2


def test_what_does_not_fit_is_cut(drawn):
    there, screen = drawn
    screen.show([f"line {number} " + "x" * 60 for number in range(9)])
    written = there.written()
    assert "line 5" in written and "line 6" not in written
    assert "x" * 33 not in written


def test_wide_characters_take_two_columns_and_colours_none(drawn):
    there, screen = drawn
    screen.show(["\x1b[31m" + "\u65e5" * 30 + "\x1b[0m"])
    written = there.written()
    assert written.count("\u65e5") == 19 and written.endswith("\x1b[0m")


def test_another_size_draws_all_again(drawn):
    there, screen = drawn
    screen.show([f"line {number}" for number in range(9)])
    there.written()
    there.resize(rows=8, columns=40)
    screen.fit()
    written = there.written()
    assert "line 0" in written and "line 7" in written


def test_colours_of_our_own_pass(drawn):
    there, screen = drawn
    screen.show(["\x1b[31mred\x1b[0m"])
    assert "\x1b[31mred" in there.written()


def test_the_screen_of_before_comes_back(drawn):
    there, screen = drawn
    with pytest.raises(KeyboardInterrupt), screen.entered():
        screen.show(["one"])
        raise KeyboardInterrupt
    written = there.written()
    assert written.index("\x1b[?1049h") < written.index("one") < written.index("\x1b[?1049l")
    assert written.index("\x1b[?25l") < written.index("\x1b[?25h")
