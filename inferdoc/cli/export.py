"""`inferdoc export`."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import click

from inferdoc.cli import messages, options


@click.command("export", short_help="Export samples as OpenMetrics text or Parquet.")
@click.option("--store", metavar="PATH", help="Embedded store to read (default: the configured one).")
@click.option("--since", metavar="DURATION", help="Length of the range: 90s, 15m, 1h, 2d. Default: everything.")
@click.option("--from", "begin", metavar="TIME", help="Start of the range: RFC 3339 or Unix seconds.")
@click.option(
    "--until", default="latest", show_default=True, metavar="TIME", help="End of the range: a time, now, or latest."
)
@click.option("-o", "--output", type=click.Choice(["openmetrics", "parquet"]), default="openmetrics", show_default=True)
@click.option(
    "--out",
    "place",
    metavar="PATH|URL",
    help="Output file, or a URL of fsspec (s3://, gs://, ...). Default: standard output.",
)
def command(
    store: str | None, since: str | None, begin: str | None, until: str, output: str, place: str | None
) -> None:
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
