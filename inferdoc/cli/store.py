"""The embedded store: `inferdoc store`, `import`, `export`."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from functools import partial

import click

from inferdoc.cli import messages, options
from inferdoc.cli.streams import StatusLine

STORE = click.option("--store", metavar="PATH", help="Path of the embedded store (default: the configured one).")


@click.group("store", short_help="Inspect the embedded store and drop old scrapes.")
def store() -> None:
    """Inspect the embedded store and drop old scrapes."""


@store.command("info", short_help="Show time ranges, origin, series and bytes.")
@STORE
@options.output("text", "json")
@click.option("--check", is_flag=True, help="Checksum verification of every scrape.")
def info(store: str | None, output: str, check: bool) -> None:
    """Say what the store holds: how much was collected and how much imported, from when to when, series and bytes."""
    from inferdoc.report.stores import inventory_lines
    from inferdoc.store import Store, inventory, verify
    from inferdoc.store.faults import damaged

    path = options.store_path(options.configuration(), store)
    with Store.open(path) as opened:
        messages.warn(opened.warnings)
        verified = verify(opened) if check else None
        if verified is not None and verified.damages:
            for damage in verified.damages:
                click.echo(f"damaged: {damage.line()}")
            what = f"{len(verified.damages)} of its parts are damaged, {verified.scrapes:,} scrapes are whole"
            raise damaged(opened.path, what)
        found = inventory(opened)
    if output == "json":
        click.echo(json.dumps(found.document(), indent=2))
        return
    for line in inventory_lines(found):
        click.echo(line)
    if verified is not None:
        click.echo(f"  checked: {verified.scrapes:,} scrapes, none damaged")


@store.command("prune", short_help="Drop the oldest scrapes, by age or by size.")
@STORE
@click.option("--older-than", metavar="DURATION", help="Maximum age, counted from the newest scrape.")
@click.option("--max-mb", type=click.IntRange(min=1), metavar="MB", help="Maximum store size.")
@click.option("--imported", is_flag=True, help="Also drop what was imported; without this it is kept.")
@click.option("--dry-run", is_flag=True, help="Report without changes.")
def prune(store: str | None, older_than: str | None, max_mb: int | None, imported: bool, dry_run: bool) -> None:
    """Drop the oldest scrapes. What was imported stays without --imported; the newest scrapes always stay.

    Not while a collector writes the store: it keeps its own --retention.
    """
    from inferdoc.report.stores import pruned_line
    from inferdoc.store import Store, retention
    from inferdoc.times import seconds_of

    if older_than is None and max_mb is None:
        raise click.UsageError("--older-than or --max-mb is required")
    limits = (
        None if older_than is None else seconds_of(older_than, "--older-than") * 1000,
        None if max_mb is None else max_mb * 1_000_000,
    )
    path = options.store_path(options.configuration(), store)
    if dry_run:
        with Store.open(path) as opened:
            done = retention.would_prune(opened, *limits, imported=imported)
    else:
        with Store.open_existing(path) as opened:
            done = retention.prune(opened, *limits, imported=imported)
    click.echo(pruned_line(done, dry_run) or "retention: nothing to drop")


@click.command("import", short_help="Read OpenMetrics text, or what `export` wrote.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@options.STORE_TO_WRITE
@options.most_series(500_000, "file")
@click.option(
    "--timeout", metavar="DURATION", help="Time limit per file; samples read so far are stored (default: none)."
)
@click.option("--lenient", is_flag=True, help="Readable part of a truncated or invalid file.")
def import_(files: tuple[str, ...], store: str | None, max_series: int, timeout: str | None, lenient: bool) -> None:
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


@click.command("export", short_help="Export samples as OpenMetrics text or Parquet.")
@click.option("--store", metavar="PATH", help="Embedded store to read (default: the configured one).")
@click.option("--since", metavar="DURATION", help="Length of the range: 90s, 15m, 1h, 2d. Default: everything.")
@click.option("--from", "begin", metavar="TIME", help="Start of the range: RFC 3339 or Unix seconds.")
@click.option("--until", default="latest", metavar="TIME", help="End of the range: a time, now, or latest.")
@options.output("openmetrics", "parquet")
@click.option(
    "--out",
    "place",
    metavar="PATH|URL",
    help="Output file, or a URL of fsspec (s3://, gs://, ...). Default: standard output.",
)
def export(store: str | None, since: str | None, begin: str | None, until: str, output: str, place: str | None) -> None:
    """Write the samples of the embedded store as OpenMetrics text with timestamps, or as Parquet (docs/export.md).

    `inferdoc import` reads both into another store, `promtool tsdb create-blocks-from openmetrics` the text into
    Prometheus, and DuckDB, ClickHouse, Spark and pandas read Parquet.
    """
    from inferdoc.store import Store, export, export_parquet
    from inferdoc.store.parquet_export import opened
    from inferdoc.times import moment_of, seconds_of

    if since and begin:
        raise click.UsageError("--since and --from are mutually exclusive")
    if output == "parquet" and place is None and sys.stdout.isatty():
        raise click.UsageError("standard output is a terminal; pass --out PATH for Parquet")
    path = options.store_path(options.configuration(), store)
    with Store.open(path) as source:
        latest_ms, first_ms = source.latest_ms() or 0, source.first_ms() or 0
        end_ms = latest_ms if until == "latest" else moment_of(until, "--until") * 1000
        if begin:
            first_ms = moment_of(begin, "--from") * 1000
        elif since:
            first_ms = end_ms - seconds_of(since, "--since") * 1000
        messages.warn(source.warnings)
        write = export_parquet if output == "parquet" else export
        with opened(place) if place else nullcontext(sys.stdout.buffer) as out:
            written = write(source, first_ms, end_ms, out)
    messages.note(f"{written} samples")
