"""Standard output and error as every command writes to them: what a terminal would obey is written out.

The guard stands where text leaves the program, so that no command, library or message of an error can forget it.
Text is always made printable. Bytes (OpenMetrics, CSV, plots, manifests) are for machines and stay exact, unless they
go to a terminal.
"""

from __future__ import annotations

import codecs
import io
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from inferdoc import escaping


class Guarded(io.TextIOBase):
    """A text stream that writes printable text only. Colours pass within `styled`."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._styled = False
        self._bytes = _GuardedBytes(self)

    def write(self, text: str) -> int:
        """Write lines; what cannot be printed, or not in the encoding of the stream, is written as an escape."""
        safe = text if self._styled else escaping.lines(text)
        encoding = self.stream.encoding
        if encoding and not safe.isascii():
            safe = safe.encode(encoding, "backslashreplace").decode(encoding)
        self.stream.write(safe)
        return len(text)

    @contextmanager
    def styled(self) -> Iterator[None]:
        """Within it text passes as it is: for a report whose words were made printable before they were coloured."""
        self._styled = True
        try:
            yield
        finally:
            self._styled = False

    @property
    def buffer(self) -> Any:
        """Where bytes are written: the stream's own, but for a terminal."""
        inner = self.stream.buffer
        return self._bytes if self.stream.isatty() else inner

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """UTF-8: click wraps the raw stream anew where it meets ASCII. `write` minds the stream's true encoding."""
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        """What the stream does with characters that it cannot encode: it meets none."""
        return "strict"

    def writable(self) -> bool:
        """It is."""
        return True

    def isatty(self) -> bool:
        """Whether people read it."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """Of the stream."""
        return self.stream.fileno()

    def flush(self) -> None:
        """Flush the stream."""
        self.stream.flush()


class _GuardedBytes(io.RawIOBase):
    """Bytes on a terminal: read as UTF-8 and made printable."""

    def __init__(self, text: Guarded) -> None:
        self._text = text
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        whole = bytes(data)
        self._text.write(self._decoder.decode(whole))
        return len(whole)

    def flush(self) -> None:
        self._text.flush()


@contextmanager
def guarded() -> Iterator[None]:
    """Guard standard output and error for the time of a command."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (stream and Guarded(stream) for stream in before)  # none where a shell closed it
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def exact() -> TextIO:
    """Standard output for text that machines read: as it is, unless it goes to a terminal."""
    stream = sys.stdout
    return stream.stream if isinstance(stream, Guarded) and not stream.isatty() else stream


def terminal() -> TextIO:
    """Standard output for what moves the cursor. Give it printable words only."""
    return sys.stdout.stream if isinstance(sys.stdout, Guarded) else sys.stdout


class StatusLine:
    """One line on standard error that is replaced in place and erased at the end; nothing where no terminal is."""

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(self, *_: object) -> None:
        self._write("")

    def show(self, text: str) -> None:
        """Replace the line."""
        self._write(escaping.cut(escaping.one_line(text), shutil.get_terminal_size().columns - 1))

    def _write(self, text: str) -> None:
        stream = sys.stderr.stream if isinstance(sys.stderr, Guarded) else sys.stderr
        if stream.isatty():
            stream.write(f"\r\x1b[2K{text}")
            stream.flush()


def show(text: str, *, coloured: bool = False) -> None:
    """Text to standard output. coloured: its words were printable before they were coloured, so the colours pass."""
    import click

    stream = sys.stdout
    if coloured and isinstance(stream, Guarded):
        with stream.styled():
            click.echo(text, color=True)
        return
    click.echo(text)
