"""A part of a store, read by a process of its own.

The process is this module, run by the same interpreter: it imports no script of the user again, as a spawned worker
would, and takes over no lock, as a forked one would. It reads a pickled call from its standard input, makes it on a
`StoreSource` of its part, and writes the answer to its standard output, until its input ends. Both ends are ours.
Arrays follow their pickle as they lie in memory (PEP 574), so that hundreds of megabytes are copied once.
"""

from __future__ import annotations

import contextlib
import pickle
import signal
import struct
import subprocess
import sys
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inferdoc.errors import InferdocError
from inferdoc.source.store_source import Part
from inferdoc.store.indexes import Hidden

PIPE_BYTES = 1 << 20
"""What an ordinary process of Linux may ask for (/proc/sys/fs/pipe-max-size); elsewhere it is not asked for."""


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

    def __init__(self, path: str, part: Part, timeout: float, hidden: Sequence[Hidden]) -> None:
        share = (str(part.begin), str(part.end))
        command = [sys.executable, "-m", "inferdoc.source.part_process", path, *share, str(timeout)]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pipesize=PIPE_BYTES
            )
        except OSError as error:
            raise PartEndedError from error
        self.close = weakref.finalize(self, _end, self._process)
        self._send(hidden)

    def ask(self, method: str, *args: Any) -> None:
        """Have a method of `StoreSource` called. Raises PartEndedError."""
        self._send((method, args))

    def _send(self, what: object) -> None:
        assert self._process.stdin is not None
        try:
            _write(self._process.stdin, what)
        except (OSError, ValueError) as error:  # ValueError: the pipe was closed here
            raise PartEndedError from error

    def answer(self) -> PartAnswer:
        """What the first call that is not answered yet came to. Raises PartEndedError."""
        assert self._process.stdout is not None
        try:
            answer: PartAnswer = _read(self._process.stdout)
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


def _write(pipe: Any, what: object) -> None:
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(what, protocol=5, buffer_callback=buffers.append)
    parts = [head, *(buffer.raw() for buffer in buffers)]
    pipe.write(struct.pack(f"<q{len(parts)}q", len(parts), *map(len, parts)))
    for part in parts:
        pipe.write(part)
    pipe.flush()


def _read(pipe: Any) -> Any:
    (count,) = struct.unpack("<q", _exactly(pipe, 8))
    head, *buffers = (_exactly(pipe, size) for size in struct.unpack(f"<{count}q", _exactly(pipe, 8 * count)))
    return pickle.loads(head, buffers=buffers)


def _exactly(pipe: Any, size: int) -> bytearray:
    """So many bytes. Raises EOFError where the pipe ends before."""
    found = bytearray(size)
    rest = memoryview(found)
    while rest:
        got = pipe.readinto(rest)
        if not got:
            raise EOFError
        rest = rest[got:]
    return found


def main(path: str, begin: str, end: str, timeout: str) -> None:
    """Serve a part of a store until the input ends."""
    from inferdoc.source.store_source import StoreSource

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who asks ends this process
    part, hidden = Part(float(begin), float(end)), _read(sys.stdin.buffer)
    source = StoreSource(path, timeout=float(timeout), part=part, hidden=hidden)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            method, args = _read(sys.stdin.buffer)
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
