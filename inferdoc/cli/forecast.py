"""`inferdoc forecast`: the load of the next hours or days, with quantiles, or an abstention that says why."""

from __future__ import annotations

import sys
from typing import Any

import click

OUTPUTS = ("table", "json", "csv", "png", "svg", "prometheus")


@click.command("forecast", short_help="Forecast load, with quantiles, or abstain and say why.")
@click.option(
    "--input", "path", metavar="FILE|-", help="CSV `timestamp,value` (plain or gzip); - reads standard input."
)
@click.option(
    "--horizon", default="24h", show_default=True, metavar="DURATION", help="How far ahead, e.g. 15m, 24h, 7d."
)
@click.option(
    "--tz", "zone", default="UTC", show_default=True, metavar="ZONE", help="IANA zone whose clock the users live by."
)
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default="table", show_default=True)
@click.option(
    "--kind",
    type=click.Choice(["amount", "rate"]),
    default="amount",
    show_default=True,
    help="Whether a value is the total inside its bin or a mean rate.",
)
@click.option(
    "--from",
    "begin",
    metavar="TIME",
    help="First step of the forecast; only earlier data are used. Default: after the data.",
)
@click.option(
    "--model", type=click.Choice(["combination", "sarima", "dhr", "naive"]), default="combination", show_default=True
)
@click.option("--holidays", metavar="FILE", help="Local dates (YYYY-MM-DD, one a line) that behave like a weekend.")
@click.option("--keep-outages", is_flag=True, help="Do not take silences that look like an outage for gaps.")
@click.option("--pool", metavar="NAME", help="Name of the pool in the output (default: the file's name).")
@click.option(
    "--out", "target", metavar="PATH", help="Write to PATH (replaced in one step) instead of standard output."
)
@click.option("--fail-on-abstain", is_flag=True, help="Exit 1 when the forecast abstains.")
def command(**asked: Any) -> None:
    """Forecast the load of one pool.

    Data go to standard output, remarks to standard error. When the measured skill is too low the forecast abstains:
    the numbers are then a plain baseline, the reason is said, and the exit code is still 0 unless
    --fail-on-abstain is given.
    """
    from inferdoc.forecast.command import run

    sys.exit(run(**asked))
