"""Single keys from a terminal, while something else has the main thread."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LEAVE = b"qQ"
TICK_SECONDS = 0.5


@contextmanager
def leaving(tick: Callable[[], None]) -> Iterator[Callable[[float], bool]]:
    """Within it the key q ends what the main thread does, wherever it is, and the program goes on behind. tick: called
    about twice a second from another thread. Where standard input is no terminal there are no keys. Yields a sleep of
    so many seconds that the key ends as well, and returns whether it did: a signal that comes just before a
    time.sleep() does not cut it short."""
    pressed, sent, over = threading.Event(), threading.Event(), threading.Event()

    def listen(keyboard: int | None) -> None:
        while not over.is_set():
            if keyboard is None:
                over.wait(TICK_SECONDS)
            elif select.select([keyboard], [], [], TICK_SECONDS)[0]:
                typed = os.read(keyboard, 64)
                if any(key in LEAVE for key in typed) or not typed:
                    pressed.set()
                    signal.pthread_kill(main, signal.SIGINT)
                    sent.set()
                    return
            tick()

    main = threading.main_thread().ident or 0
    with _single_keys() as keyboard, _interruptible():
        listener = threading.Thread(target=listen, args=(keyboard,), daemon=True, name="keys")
        listener.start()
        try:
            yield sent.wait
        except KeyboardInterrupt:
            if not pressed.is_set():
                raise
        finally:
            over.set()
            listener.join(2 * TICK_SECONDS)


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
