"""`inferdoc import`."""

from __future__ import annotations

from functools import partial

import click

from inferdoc.cli import messages, options
from inferdoc.cli.streams import StatusLine


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
            with StatusLine() as line:
                done = import_file(
                    target, file, partial(_show, line, file), max_series, strict=not lenient, seconds=seconds
                )
            messages.warn(done.problems)
            stored = f"{done.samples} samples, {done.new_pages} of {done.pages} scrapes new"
            messages.note(f"{file}: {stored}")


def _show(line: StatusLine, file: str, share: float) -> None:
    line.show(f"{file}: {share:.0%}")
