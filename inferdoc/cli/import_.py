"""`inferdoc import`."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

import click

from inferdoc.cli import messages, options
from inferdoc.cli.streams import console
from inferdoc.escaping import one_line

if TYPE_CHECKING:
    from rich.progress import Progress


@click.command("import", short_help="Read OpenMetrics text, or what `export` wrote.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--store", metavar="PATH", help="Embedded store to write (default: the configured one).")
@options.most_series(500_000, "file")
@click.option(
    "--timeout", metavar="DURATION", help="Time limit per file; samples read so far are stored (default: none)."
)
@click.option("--lenient", is_flag=True, help="Readable part of a truncated or invalid file.")
def command(files: tuple[str, ...], store: str | None, max_series: int, timeout: str | None, lenient: bool) -> None:
    """Put OpenMetrics text with timestamps, or what `export -o parquet` wrote, into the embedded store.

    FILE may be text, plain or gzip, or Parquet, also by URL; - reads text from standard input. Importing a file twice
    changes nothing. A file that breaks the standard is refused with its line and the rule, and nothing of it is
    imported; so is a Parquet file that is damaged.
    """
    from inferdoc.store import Store, import_file
    from inferdoc.times import timeout_of

    seconds = None if timeout is None else timeout_of(timeout)
    path = options.store_path(options.configuration(), store)
    with Store.open(path, "w") as target:
        for file in files:
            with _Bar(file) as bar:
                done = import_file(target, file, bar.show, max_series, strict=not lenient, seconds=seconds)
            messages.warn(done.problems)
            stored = f"{done.samples} samples, {done.new_pages} of {done.pages} scrapes new"
            messages.note(f"{file}: {stored}")


class _Bar:
    """A progress bar on stderr: only on a terminal, only for work over a second."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._started = time.monotonic()
        self._bar: Progress | None = None

    def show(self, share: float) -> None:
        if self._bar is None:
            if time.monotonic() - self._started < 1.0 or not sys.stderr.isatty():
                return
            from rich.markup import escape
            from rich.progress import Progress

            self._bar = Progress(console=console(), transient=True)
            self._bar.add_task(escape(one_line(self._title)), total=1.0)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=share)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
