"""A part of a store, read by a process of its own.

The process is this module, run by the same interpreter: it imports no script of the user again, as a spawned worker
would, and takes over no lock, as a forked one would. It reads a pickled call from its standard input, makes it on a
`StoreSource` of its part, and writes the answer to its standard output, until its input ends. Both ends are ours.
"""

from __future__ import annotations

import contextlib
import pickle
import signal
import subprocess
import sys
import weakref
from dataclasses import dataclass
from typing import IO, Any

from inferdoc.errors import InferdocError


@dataclass(frozen=True)
class PartAnswer:
    """value: what the call returned, or error: what it raised; warnings: all lines so far; left_out: whether metrics
    did not fit; samples: how many were read so far."""

    value: Any
    error: Exception | None
    warnings: tuple[str, ...]
    left_out: bool
    samples: int


class PartEndedError(Exception):
    """The process is not there any more."""


class PartProcess:
    """One part of a store in another process. Calls are made in order: `ask`, then `answer`."""

    def __init__(self, path: str, number: int, of: int, timeout: float) -> None:
        command = [sys.executable, "-m", "inferdoc.source.part_process", path, str(number), str(of), str(timeout)]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            raise PartEndedError from error
        self.close = weakref.finalize(self, _end, self._process)

    def ask(self, method: str, *args: Any) -> None:
        """Have a method of `StoreSource` called. Raises PartEndedError."""
        assert self._process.stdin is not None
        try:
            _write(self._process.stdin, (method, args))
        except (OSError, ValueError) as error:  # ValueError: the pipe was closed here
            raise PartEndedError from error

    def answer(self) -> PartAnswer:
        """What the call that was asked for came to. Raises PartEndedError."""
        assert self._process.stdout is not None
        try:
            answer: PartAnswer = pickle.load(self._process.stdout)
        except (OSError, ValueError, EOFError, pickle.UnpicklingError) as error:
            raise PartEndedError from error
        return answer


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()


def _write(pipe: IO[bytes], what: object) -> None:
    pickle.dump(what, pipe, protocol=5)
    pipe.flush()


def main(path: str, number: str, of: str, timeout: str) -> None:
    """Serve a part of a store until the input ends."""
    from inferdoc.source.store_source import Part, StoreSource

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks ends this process
    source = StoreSource(path, timeout=float(timeout), part=Part(int(number), int(of)))
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            method, args = pickle.load(sys.stdin.buffer)
            value, error = None, None
            try:
                value = getattr(source, method)(*args)
            except InferdocError as raised:
                error = raised
            answer = PartAnswer(value, error, tuple(source.warnings), bool(source.left_out), source.cost.samples)
            _write(sys.stdout.buffer, answer)


if __name__ == "__main__":
    from inferdoc.source import part_process

    part_process.main(*sys.argv[1:])  # so that what is written is of the module, and not of __main__
