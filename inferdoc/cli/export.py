"""`inferdoc export`."""

from __future__ import annotations

import sys

import click

from inferdoc.cli import messages, options


@click.command("export")
@click.option("--store", metavar="PATH", help="The embedded store to read (default: the configured one).")
@click.option("--since", metavar="DURATION", help="How much, back from the end: 90s, 15m, 1h, 2d. Default: everything.")
@click.option("--from", "begin", metavar="TIME", help="Where to begin: RFC 3339 or Unix seconds.")
@click.option("--until", default="latest", show_default=True, metavar="TIME", help="The end: a time, now, or latest.")
def command(store: str | None, since: str | None, begin: str | None, until: str) -> None:
    """Write the samples of the embedded store to standard output as OpenMetrics text with timestamps.

    `inferdoc import` reads it into another store, `promtool tsdb create-blocks-from openmetrics` into Prometheus.
    """
    from inferdoc.store import Store, export
    from inferdoc.times import moment_of, seconds_of

    if since and begin:
        raise click.UsageError("--since and --from exclude each other")
    path = options.store_path(options.configuration(), store)
    with Store.open(path) as source:
        latest_ms, first_ms = source.latest_ms() or 0, source.first_ms() or 0
        end_ms = latest_ms if until == "latest" else moment_of(until, "--until") * 1000
        if begin:
            first_ms = moment_of(begin, "--from") * 1000
        elif since:
            first_ms = end_ms - seconds_of(since, "--since") * 1000
        messages.warn(source.warnings)
        written = export(source, first_ms, end_ms, sys.stdout.buffer)
    messages.say(f"{written} samples")
