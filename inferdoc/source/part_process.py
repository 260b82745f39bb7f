"""A part of a store, read by a process of its own.

The process is this module, run by the same interpreter: it imports no script of the user again, as a spawned worker
would, and takes over no lock, as a forked one would. It reads a pickled call from its standard input, has the worker of
what it was given first (a `PartReader` of a `PartOfStore`) make it, and writes the answer to its standard output, until
its input ends. Both ends are ours.
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
from typing import Any

from inferdoc.source.part_reader import HandedOver, PartAnswer, PartEndedError

PIPE_BYTES = 1 << 20
"""What an ordinary process of Linux may ask for (/proc/sys/fs/pipe-max-size); elsewhere it is not requested."""


class PartProcess:
    """One part of a store in another process. Calls are made in order: `ask`, then `answer`."""

    def __init__(self, requested: HandedOver) -> None:
        command = [sys.executable, "-m", "inferdoc.source.part_process"]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pipesize=PIPE_BYTES
            )
        except OSError as error:
            raise PartEndedError(f"a process cannot begin ({error.strerror or error})") from error
        self.close = weakref.finalize(self, _end, self._process)
        self._send(requested)

    def ask(self, method: str, *args: Any) -> None:
        """Have a method of `StoreSource` called. Raises PartEndedError."""
        self._send((method, args))

    def _send(self, what: object) -> None:
        assert self._process.stdin is not None
        try:
            _write(self._process.stdin, what)
        except (OSError, ValueError) as error:  # ValueError: the pipe was closed here
            raise PartEndedError(self._why()) from error

    def answer(self) -> PartAnswer:
        """What the first call that is not answered yet came to. Raises PartEndedError."""
        assert self._process.stdout is not None
        try:
            answer: PartAnswer = _read(self._process.stdout)
        except (OSError, ValueError, EOFError, pickle.UnpicklingError) as error:
            raise PartEndedError(self._why()) from error
        return answer

    def _why(self) -> str:
        """How the process ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(timeout=1.0)
            return f"the process ended by signal {-code}" if code < 0 else f"the process ended with code {code}"
        return "the process does not answer"


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


def main() -> None:
    """Serve a part of a store until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    requested: HandedOver = _read(sys.stdin.buffer)
    reader = requested.worker()
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            method, args = _read(sys.stdin.buffer)
            _write(sys.stdout.buffer, reader.call(method, args))


if __name__ == "__main__":
    from inferdoc.source import part_process

    part_process.main()  # so that what is written is of the module, and not of __main__
