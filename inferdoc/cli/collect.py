"""`inferdoc collect`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from inferdoc.cli import messages, options

if TYPE_CHECKING:
    from inferdoc.collect.collector import CollectStats, LogFeed
    from inferdoc.config import Config

FILE = click.Path(dir_okay=False, path_type=Path)
RETENTION_MB = 10_000
"""A month of 900 pods scraped every 15 s, by what docs/measurements/benchmarks.md measures."""
COMPACT_SECONDS = 2.0
"""Compaction stops for scrapes to be stored after so long, and goes on a little later."""

SHORTEST_SECONDS = 0.1


@click.command("collect")
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="URL[,LABEL=VALUE]...",
    help="URL to scrape (default path /metrics), with labels for its series such as pod, node or role.",
)
@click.option(
    "--file-sd", multiple=True, metavar="FILE", help="Prometheus file_sd targets; read again when it changes."
)
@click.option(
    "--http-sd",
    multiple=True,
    metavar="URL",
    help="Prometheus http_sd endpoint; queried with the credentials of the scrapes.",
)
@click.option(
    "--http-sd-refresh", metavar="DURATION", help="Refresh interval of --http-sd (default: the configured one, or 60s)."
)
@click.option("--interval", default="15s", metavar="DURATION", help="Scrape interval.")
@options.most_series(250_000, "page")
@click.option("--timeout", default="10s", metavar="DURATION", help="Scrape timeout.")
@options.STORE_TO_WRITE
@click.option("--once", is_flag=True, help="Scrape every target once and exit.")
@click.option("--duration", metavar="DURATION", help="Run time. Default: until stopped.")
@click.option(
    "--retention",
    default="30d",
    metavar="DURATION",
    help="Drop collected scrapes older than this; what was imported stays.",
)
@click.option(
    "--retention-mb",
    type=click.IntRange(min=0),
    default=RETENTION_MB,
    metavar="MB",
    help="Maximum store size; the oldest scrapes are dropped. 0: no limit.",
)
@click.option(
    "--shard",
    metavar="K/N",
    help="Share of the targets of collector K of N, by hash of the namespace.",
)
@click.option("--eplb-log", metavar="FILE[,LABEL=VALUE]...", help="vLLM log with EPLB balancedness lines to follow.")
@click.option("--expose", metavar="ADDRESS", help="Listen address of /metrics: :9108, 127.0.0.1:9108.")
@click.option(
    "--judge-every",
    metavar="DURATION",
    help="Interval at which the last 15 minutes are diagnosed. Requires --expose.",
)
@click.option(
    "--forecast-every",
    metavar="DURATION",
    help="Interval at which the next day of every pool is forecast. Requires --expose.",
)
@click.option("--ca-file", type=FILE, help="CA bundle that verifies the server certificate.")
@click.option("--bearer-token-file", type=FILE, help="File that is read before every scrape.")
@click.option("--username", metavar="NAME", help="User for basic authentication. Requires --password-file.")
@click.option("--password-file", type=FILE, help="File that is read before every scrape.")
@options.HEADER
def command(**params: Any) -> int:
    """Scrape metrics pages into the embedded store, until stopped.

    Each target has its own moment in the interval. A target that fails is stored as `up` 0 and stops nobody.
    """
    from inferdoc.collect.collector import CollectStats, collect, log_feed_from_flag, stop_on_signals
    from inferdoc.collect.discovery import Discovery, target_from_flag, targets_from_config
    from inferdoc.collect.targets import HttpDiscovery, Shard, Sharded
    from inferdoc.errors import ExitCode
    from inferdoc.report.stores import pruned_line
    from inferdoc.store import Keeper, Store, compact
    from inferdoc.times import length_of, seconds_of, timeout_of

    interval, shard, eplb_log = length_of(params["interval"], "--interval"), params["shard"], params["eplb_log"]
    if interval < SHORTEST_SECONDS:
        raise click.UsageError(f"--interval {params['interval']} is too short; the shortest is {SHORTEST_SECONDS:g}s")
    config = options.configuration()
    configured = targets_from_config([{"url": t.url, "labels": t.labels} for t in config.collect.targets])
    files, endpoints = (*params["file_sd"], *config.collect.file_sd), (*params["http_sd"], *config.collect.http_sd)
    if not (params["targets"] or files or endpoints or eplb_log or configured):
        raise click.UsageError("no targets; pass --target, --file-sd, --http-sd or --eplb-log")
    limits = {"timeout": timeout_of(params["timeout"]), "max_series": params["max_series"]}
    scraping = replace(options.scraping(params), **limits)
    refresh = config.collect.http_sd_refresh_seconds
    if params["http_sd_refresh"] is not None:
        refresh = seconds_of(params["http_sd_refresh"], "--http-sd-refresh")
    fixed = [*configured, *(target_from_flag(text) for text in params["targets"])]
    discovery = Discovery(fixed, files, [HttpDiscovery(url, scraping, refresh) for url in endpoints])
    mine = discovery if shard is None else Sharded(discovery, Shard.from_flag(shard))
    keeper = Keeper(seconds_of(params["retention"], "--retention") * 1000, params["retention_mb"] * 1_000_000 or None)

    def keep_up() -> bool:
        """Drop the oldest and compact for a while; whether there is more to compact."""
        line = pruned_line(keeper.prune(opened))
        if line is not None:
            messages.note(line)
        return not compact(opened, seconds=COMPACT_SECONDS).complete

    place = options.store_path(config, params["store"])
    feed, stats = None if eplb_log is None else log_feed_from_flag(eplb_log), CollectStats()
    page = _page(config, place, stats, feed, params)
    with Store.open(place, "w") as opened, stop_on_signals() as stop, page:
        collect(
            mine,
            opened.writer,
            interval=interval,
            duration=None if params["duration"] is None else seconds_of(params["duration"], "--duration"),
            once=params["once"],
            stop=stop,
            options=scraping,
            eplb=feed,
            report=messages.note,
            maintain=keep_up,
            stats=stats,
        )
        messages.warn(opened.writer.problems)
    counts = [f"{stats.failed} failed"]
    counts += [f"{stats.not_stored} not stored"] if stats.not_stored else []
    counts += [f"{stats.repeated} at times that were stored before"] if stats.repeated else []
    stored = f"{stats.samples} samples stored in {place}"
    stored += f"; {stats.left_out} more scrapes were left out" if stats.left_out else ""
    messages.note(f"{stats.scrapes} scrapes ({', '.join(counts)}), {stored}")
    return ExitCode.SOURCE if stats.not_stored else ExitCode.OK


def _page(
    config: Config,
    place: str,
    stats: CollectStats,
    feed: LogFeed | None,
    params: dict[str, Any],
) -> AbstractContextManager[None]:
    """The /metrics exporter, None without --expose."""
    address, judge_every, forecast_every = params["expose"], params["judge_every"], params["forecast_every"]
    if address is None:
        if judge_every or forecast_every:
            raise click.UsageError("--judge-every and --forecast-every require --expose ADDRESS")
        return nullcontext()
    from inferdoc.catalogue.own_metrics import Families
    from inferdoc.cli.forecast import opener
    from inferdoc.expose.exporter import Exposed, serving
    from inferdoc.expose.rounds import FORECAST_SECONDS, JUDGED, Rounds, diagnoses, forecasts
    from inferdoc.forecast.command import Origin
    from inferdoc.times import seconds_of

    catalogue = options.catalogue(config)
    where = {"store": place}
    judged = predicted = None
    if judge_every:
        work = diagnoses(partial(options.source, config, where), config, catalogue, JUDGED)
        judged = Rounds("diagnosis", options.in_context(work), seconds_of(judge_every, "--judge-every"), messages.note)
    if forecast_every:
        load = forecasts(Origin(open=opener(where)), FORECAST_SECONDS)
        predicted = Rounds(
            "forecast", options.in_context(load), seconds_of(forecast_every, "--forecast-every"), messages.note
        )
    size = Path(place)
    exposed = Exposed(
        Families(catalogue.exporters["inferdoc"]), stats, lambda: size.stat().st_size, feed, judged, predicted
    )
    return serving(exposed, address)
