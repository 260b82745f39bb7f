"""Redraw a terminal in place and read its keys."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from inferdoc.escaping import cut

LEAVE = b"qQ"
TICK_SECONDS = 0.5
ALTERNATE_SCREEN, NORMAL_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
HIDDEN_CURSOR, VISIBLE_CURSOR = "\x1b[?25l", "\x1b[?25h"
CLEARED, ERASED_LINE = "\x1b[2J\x1b[H", "\x1b[2K"
"""Control sequences of xterm (ECMA-48, and the private modes of DEC)."""


@contextmanager
def leaving(tick: Callable[[], None]) -> Iterator[Callable[[float], bool]]:
    """Within it the key q ends what the main thread does, wherever it is, and the program goes on behind. tick: called
    about twice a second from another thread. Where standard input is no terminal there are no keys. Yields a sleep of
    so many seconds that the key ends as well, and returns whether it did: a signal that comes just before a
    time.sleep() does not cut it short."""
    pressed, over = threading.Event(), threading.Event()
    sent, send = os.pipe()

    def listen(keyboard: int | None) -> None:
        while not over.is_set():
            if keyboard is None:
                over.wait(TICK_SECONDS)
            elif select.select([keyboard], [], [], TICK_SECONDS)[0]:
                typed = os.read(keyboard, 64)
                if any(key in LEAVE for key in typed) or not typed:
                    pressed.set()
                    signal.pthread_kill(main, signal.SIGINT)
                    os.write(send, b"q")
                    return
            tick()

    def ended(seconds: float) -> bool:
        """No Event: KeyboardInterrupt within its wait() may leave its lock released twice."""
        return bool(select.select([sent], [], [], seconds)[0])

    main = threading.main_thread().ident or 0
    with _single_keys() as keyboard, _interruptible():
        listener = threading.Thread(target=listen, args=(keyboard,), daemon=True, name="keys")
        listener.start()
        try:
            yield ended
        except KeyboardInterrupt:
            if not pressed.is_set():
                raise
        finally:
            over.set()
            listener.join(2 * TICK_SECONDS)
            if not listener.is_alive():
                os.close(send)
                os.close(sent)


@contextmanager
def _interruptible() -> Iterator[None]:
    """A program that a script has put into the background ignores SIGINT from its start on; here it means an end."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


@contextmanager
def _single_keys() -> Iterator[int | None]:
    """Standard input without waiting for the end of a line, and without echo; None where it is no terminal."""
    try:
        import termios
        import tty
    except ImportError:  # not POSIX
        yield None
        return
    if not sys.stdin or not sys.stdin.isatty():
        yield None
        return
    keyboard = sys.stdin.fileno()
    usual = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    try:
        yield keyboard
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, usual)


class Screen:
    """The alternate screen of a terminal: when it is left, what stood there before is back."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._lines: list[str] = []
        self._shown: list[str] = []
        self._size = os.terminal_size((0, 0))
        self._one_at_a_time = threading.Lock()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """On the alternate screen, without a cursor."""
        self._write(ALTERNATE_SCREEN + HIDDEN_CURSOR)
        try:
            yield
        finally:
            with self._one_at_a_time:
                self._write(VISIBLE_CURSOR + NORMAL_SCREEN)

    @property
    def rows(self) -> int:
        """Lines that fit."""
        return self._requested_size().lines

    def _requested_size(self) -> os.terminal_size:
        try:
            return os.get_terminal_size(self._terminal.fileno())
        except OSError:  # no terminal of its own to ask
            return shutil.get_terminal_size()

    def show(self, lines: Sequence[str]) -> None:
        """Show these lines, printable or with colours of our own, and nothing else; those that do not fit are cut."""
        with self._one_at_a_time:
            self._lines = list(lines)
            self._paint()

    def fit(self) -> None:
        """Show the same again where the terminal has another size than before."""
        with self._one_at_a_time:
            if self._lines and self._size != self._requested_size():
                self._paint()

    def _paint(self) -> None:
        size, fresh = self._requested_size(), False
        if self._size != size:
            self._size, self._shown, fresh = size, [], True
        lines = self._lines[: size.lines]
        painted = [CLEARED] if fresh else []
        for row in range(max(len(lines), len(self._shown))):
            line = lines[row] if row < len(lines) else ""
            if row >= len(self._shown) or self._shown[row] != line:
                painted.append(f"\x1b[{row + 1};1H{ERASED_LINE}{cut(line, size.columns - 1)}")
        self._shown = lines
        self._write("".join(painted))

    def _write(self, text: str) -> None:
        if text:
            self._terminal.write(text)
            self._terminal.flush()
