"""`inferdoc forecast`: the load of the next hours or days, with quantiles, or an abstention that says why."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from inferdoc.cli import options
from inferdoc.forecast import MODELS, SETTLE_SECONDS

if TYPE_CHECKING:
    from inferdoc.prewarm.plan_options import PerPool


def per_pool(
    flag: str, name: str, kind: click.ParamType[Any], default: Any = None, *, words: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """An option that may be repeated; the command gets a `PerPool`. default: the value of pools that none names."""
    shown = "|".join(kind.choices) if isinstance(kind, click.Choice) else kind.name.upper()
    words = words if default is None else f"{words} Default: {default}."
    return click.option(
        flag,
        name,
        multiple=True,
        metavar=f"[POOL=]{shown}",
        help=words,
        callback=partial(_values, kind=kind, default=default),
    )


def _values(
    context: click.Context, option: click.Parameter, texts: tuple[str, ...], kind: click.ParamType[Any], default: Any
) -> PerPool[Any]:
    from inferdoc.prewarm.plan_options import PerPool

    usual, own = default, {}
    for text in texts:
        pool, _, given = text.rpartition("=")
        value = kind.convert(given, option, context)
        if pool:
            own[pool.strip()] = value
        else:
            usual = value
    return PerPool(usual, own)


OUTPUTS = ("table", "json", "csv", "png", "svg", "prometheus")
LOADS = ("requests", "input-tokens", "output-tokens")
ZONE_HELP = "Time zone of the users (IANA name). Default: UTC, with a note on stderr."
KIND_HELP = "Of --input: whether a value is the total inside its bin or a mean rate."
SOURCE_KEYS = ("prometheus", "store", "bearer_token_file", "username", "password_file", "ca_file", "headers", "timeout")

origin_options = options.stacked(
    click.option(
        "--input", "path", metavar="FILE|-", help="CSV `timestamp,value`, plain or gzip; - is standard input."
    ),
    click.option("--kind", type=click.Choice(["amount", "rate"]), default="amount", help=KIND_HELP),
    options.source_options,
    click.option("--namespace", metavar="NAME", help="Only pools of this namespace."),
    click.option("--pool", metavar="NAME", help="Pool of the source, or name of the load in --input."),
    click.option("--load", type=click.Choice(LOADS), help="Unit of load. Default: by role of the pool."),
    click.option("--history", default="28d", metavar="DURATION", help="History to read."),
)
"""--input, or a source and what of it."""

calendar_options = options.stacked(
    click.option("--holidays", metavar="FILE", help="File of local dates, past ones too (YYYY-MM-DD, one a line)."),
    click.option(
        "--calendar",
        metavar="FILE",
        help="ICS file: whole days are holidays; titles that end in a factor, such as `Launch x3`, are events.",
    ),
    click.option(
        "--event",
        "events",
        multiple=True,
        metavar="WHEN,LENGTH,xFACTOR",
        help="Time range with a multiple of the usual load: 2026-12-01T09:00,2h,x3. Repeatable.",
    ),
)
"""Planned events that history does not contain."""

model_options = options.stacked(
    click.option(
        "--model",
        type=click.Choice(MODELS),
        default=MODELS[0],
        help="Weighted combination, or one model by name.",
    ),
    click.option(
        "--arima-seconds",
        type=click.FloatRange(min=0),
        default=SETTLE_SECONDS,
        help="Time limit of the ARIMA fit per pool; 0 disables ARIMA.",
    ),
)
"""Which candidates make the forecast."""


def opener(where: dict[str, Any]) -> Callable[[], tuple[Any, Any, Any, Any]]:
    """Opens the source that the options name when it is needed, with the tiers, roles and objectives of its pools."""

    def opened() -> tuple[Any, Any, Any, Any]:
        from inferdoc.fleet.members import assignments_of

        config = options.configuration()
        assignments, catalogue = assignments_of(config.pods), options.catalogue(config)
        return options.source(config, where), catalogue.tiers, assignments, catalogue.slos

    return opened


def origin(params: dict[str, Any], step: str = "5m") -> Any:
    """Takes the origin's options out of `params`. The source is opened only when something is read from it."""
    from inferdoc.forecast.command import Origin
    from inferdoc.times import seconds_of

    where = {key: params.pop(key) for key in SOURCE_KEYS}
    path = params.pop("path")
    if path is not None and (where["prometheus"] or where["store"]):
        raise click.UsageError("--input and a source are mutually exclusive")

    return Origin(
        path=path,
        kind=params.pop("kind"),
        pool=params.pop("pool"),
        load=params.pop("load"),
        namespace=params.pop("namespace"),
        days=max(1, round(seconds_of(params.pop("history"), "--history") / 86400)),
        step=seconds_of(step, "--step"),
        open=opener(where),
    )


@click.command("forecast", short_help="Forecast load with quantiles, or abstain with a reason.")
@origin_options
@click.option("--step", default="5m", metavar="DURATION", help="Length of a bin. Only with a source.")
@click.option("--horizon", default="24h", metavar="DURATION", help="Forecast horizon: 15m, 24h, 7d.")
@click.option("--tz", "zone", metavar="ZONE", help=ZONE_HELP)
@options.output(*OUTPUTS)
@click.option("--from", "begin", metavar="TIME", help="First step; later data are ignored. Default: after the data.")
@model_options
@calendar_options
@click.option("--keep-outages", is_flag=True, help="Drops that look like an outage as data, not as gaps.")
@click.option("--capacity", is_flag=True, help="Capacity of one replica from history, instead of a forecast.")
@click.option("--out", "target", metavar="PATH", help="Output file, replaced atomically. Default: standard output.")
@click.option("--fail-on-abstain", is_flag=True, help="Exit code 1 if the forecast abstains.")
@click.pass_context
def command(context: click.Context, /, **params: Any) -> None:
    """Forecast the load of one pool from a file, or of every pool of a source.

    Data go to standard output, remarks to standard error. When the measured skill is too low the forecast abstains:
    the numbers are then a plain baseline, the reason is printed, and the exit code is still 0 unless
    --fail-on-abstain is given.
    """
    from inferdoc.forecast import command as work

    where = origin(params, params.pop("step"))
    if params.pop("capacity"):
        chosen = {name: params[name] for name in ("begin", "output", "target")}
        context.exit(work.capacity(origin=where, **chosen))
    context.exit(work.run(origin=where, **params))
