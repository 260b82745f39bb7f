"""`inferdoc prewarm`: plans that start replicas before the load comes, a floor under the autoscaler."""

from __future__ import annotations

from typing import Any

import click

from inferdoc.cli import options
from inferdoc.cli.forecast import (
    SOURCE_KEYS,
    ZONE_HELP,
    calendar_options,
    model_options,
    origin,
    origin_options,
    per_pool,
)
from inferdoc.prewarm import CHANGE_HOURS, WINDOWS
from inferdoc.prewarm.emit.registry import MODULES

PLAN = click.option("--plan", "path", default="-", metavar="FILE|-", help="Plan as JSON; - is standard input.")
OUT = click.option(
    "--out", "target", metavar="PATH", help="Output file, replaced atomically. Default: standard output."
)


NOT_REPEATED = {*SOURCE_KEYS, "path", "kind", "pool", "begin", "previous", "output", "target", "price"}
"""Options of `plan` that set input, output and time."""


def _request(context: click.Context) -> Any:
    """The other options of this call, defaults included, as a later call can repeat them."""
    from inferdoc.prewarm.command import text_of
    from inferdoc.prewarm.plan import PlanRequest
    from inferdoc.prewarm.plan_options import PerPool

    words, files = [], {}
    for option in context.command.params:
        value = context.params.get(str(option.name))
        if option.name in NOT_REPEATED or value is None or value is False or value == ():
            continue
        name = max(option.opts, key=len)
        values = value.texts if isinstance(value, PerPool) else value if isinstance(value, tuple) else (value,)
        words += [name] if value is True else [f"{name}={v}" for v in values]
        if isinstance(option, click.Option) and option.metavar == "FILE":
            files[name] = text_of(value)
    return PlanRequest(words, files)


def _page(*drawn: Any) -> str:
    from inferdoc.report.prewarm import prewarm_html

    return prewarm_html(*drawn)


def _schema(context: click.Context, _parameter: click.Parameter, requested: bool) -> None:
    """Print the schema of a plan and stop."""
    if requested:
        import json

        from inferdoc.prewarm.plan import schema

        click.echo(json.dumps(schema(), indent=1))
        context.exit()


@click.group("prewarm", short_help="Plan, emit and prove prewarm schedules.")
def command() -> None:
    """Start replicas before the load comes: plan, explain, emit.

    A plan is a floor under the user's autoscaler, never its replacement.
    """


@command.command("plan")
@origin_options
@click.option(
    "--capacity",
    multiple=True,
    metavar="[POOL=]NUMBER UNIT",
    help="Capacity of a replica at its SLO in requests/s, prompt tokens/s or generated tokens/s. Default: measured.",
)
@per_pool(
    "--rps-per-replica", "rps", click.FLOAT, words="Capacity of a replica in requests/s, or in the unit of --input."
)
@per_pool(
    "--cold-start", "cold_start", click.STRING, words="Time from creation to ready. Default: measured, else by tier."
)
@per_pool("--min", "minimum", click.INT, 1, words="Minimum replicas.")
@per_pool("--max", "maximum", click.INT, 100, words="Maximum replicas.")
@per_pool("--tz", "zone", click.STRING, words=ZONE_HELP)
@click.option(
    "--horizon",
    default="7d",
    metavar="DURATION",
    help="Validity of the plan, at most 14d.",
)
@per_pool("--policy", "policy", click.Choice(["economy", "balanced", "safe"]), "balanced", words="Safety of the plan.")
@per_pool("--quantile", "quantile", click.FloatRange(0.5, 0.999), words="Forecast quantile (default: by policy).")
@per_pool(
    "--utilisation",
    "utilisation",
    click.FloatRange(0.05, 1.0),
    words="Target utilisation of a replica (default: by policy).",
)
@per_pool("--safety-factor", "safety", click.FloatRange(0.1, 10), words="Factor on the load. Default: 1.")
@click.option(
    "--tune",
    type=click.Choice(["backtest"]),
    help="Quantile and safety factor tuned on the last week; explicit values stay.",
)
@per_pool("--ramp", "ramp", click.INT, words="Maximum replicas started within five minutes.")
@per_pool("--dwell", "dwell", click.STRING, "30m", words="Minimum time at one level.")
@per_pool("--budget", "budget", click.FLOAT, words="Maximum replica-hours per week.")
@click.option("--scale-to-zero", is_flag=True, help="Permission for --min 0; the first request waits for a cold start.")
@calendar_options
@model_options
@click.option("--from", "begin", metavar="TIME", help="Time of the plan; later data are ignored.")
@click.option(
    "--role",
    type=click.Choice(["both", "prefill", "decode"]),
    default="both",
    help="Role of the replicas. Requires --input.",
)
@click.option(
    "--schema", is_flag=True, is_eager=True, expose_value=False, callback=_schema, help="JSON Schema of a plan."
)
@click.option("--pd-ratio", type=float, metavar="X", help="Minimum prefill replicas per decode replica.")
@click.option(
    "--max-windows",
    "windows",
    type=int,
    default=WINDOWS,
    metavar="N",
    help="Maximum changes per day and pool.",
)
@click.option("--previous", metavar="FILE", help="Current plan; levels that still fit are kept, changes are explained.")
@click.option(
    "--change-hours",
    type=click.FloatRange(0, 10_000),
    default=CHANGE_HOURS,
    metavar="HOURS",
    help="Minimum savings of a change to --previous, in replica-hours per week.",
)
@click.option("--price", type=click.FloatRange(0), metavar="X", help="Cost of a replica-hour, for -o html.")
@options.output("table", "json", "html")
@OUT
def plan(**params: Any) -> None:
    """Forecast each pool and turn it into windows with a floor of replicas.

    Options marked [POOL=] hold for all pools, or for the one named, and may be repeated. A pool that cannot be planned
    is omitted with a note.
    """
    from inferdoc.prewarm import command as work

    context = click.get_current_context()
    request = _request(context)
    context.exit(work.plan(origin=origin(params), given=request, draw=_page, **params))


@command.command("explain")
@PLAN
@click.option("--days", type=float, default=2.0, help="Days to list.")
@click.option("--from", "begin", metavar="TIME", help="Start time (default: now).")
def explain(**params: Any) -> None:
    """List the next changes in local time and UTC, with the reason for each."""
    from inferdoc.prewarm import command as work

    click.get_current_context().exit(work.show(**params))


@command.command("diff")
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW")
@click.option("--price", type=float, metavar="X", help="Price of a replica-hour. Default: [prices] of the tier.")
@click.option(
    "--gpus-per-replica",
    "gpus",
    type=int,
    default=1,
    metavar="N",
    help="GPUs per replica, for [prices].",
)
@options.output("text", "json")
def diff(**params: Any) -> None:
    """Compare plan NEW with OLD: time ranges, replica-hours and, with a price, cost."""
    from inferdoc.prewarm import command as work

    click.get_current_context().exit(work.differ(prices=options.configuration().prices, **params))


@command.command("emit")
@PLAN
@click.option("--target", "goal", type=click.Choice([*MODULES]), required=True)
@click.option("--pool", metavar="NAME", help="Pool of the plan (required if it has several).")
@click.option("--name", metavar="NAME", help="Object to change (default: the pool's name).")
@click.option("--namespace", metavar="NAME", default="default")
@click.option("--workload", metavar="NAME", help="keda-cron: the workload that is scaled (default: the object's name).")
@click.option("--existing", metavar="FILE", help="Current object (kubectl get -o yaml) to merge into.")
@click.option("--kind", metavar="KIND", help="cronjob, crontab, systemd: kind of object whose floor is set.")
@click.option(
    "--image",
    metavar="IMAGE",
    help="keda-cron, cronjob, daily: an image with inferdoc and kubectl. Default: this release's.",
)
@click.option("--server", metavar="URL", help="keda-prometheus, daily: URL of Prometheus inside the cluster.")
@click.option("--host-tz", "host_zone", metavar="ZONE", help="crontab: zone of the host's clock (default UTC).")
@click.option("--plan-path", metavar="PATH", help="crontab, systemd: where the plan lies on the host.")
@click.option("--per-group", type=int, metavar="N", help="lws: planned replicas that one group serves.")
@click.option("--pods-per-group", type=int, metavar="N", help="lws: pods in a group, to state pods and GPUs.")
@click.option("--gpus-per-pod", type=int, metavar="N", help="lws: to state GPUs.")
@click.option("--now", metavar="TIME", help="Time at which the validity of the plan is checked (default: now).")
@OUT
def emit(**params: Any) -> None:
    """Write the plan in the form of what runs it."""
    from inferdoc.prewarm import command as work

    click.get_current_context().exit(work.emit_plan(**params))


@command.command("backtest")
@origin_options
@click.option(
    "--rps-per-replica",
    "rps",
    type=float,
    help="Capacity of a replica in load per second. Default: the 99.5 % load needs 20 replicas at 70 %.",
)
@click.option("--cold-start", default="5m", metavar="DURATION", help="Time from creation to ready.")
@click.option("--min", "minimum", type=int, default=1)
@click.option("--max", "maximum", type=int)
@click.option("--tz", "zone", metavar="ZONE", help=ZONE_HELP)
@click.option(
    "--days",
    type=click.FloatRange(0.5, 28),
    default=4.0,
    help="Days to replay at the end of the history.",
)
@click.option("--quantile", type=click.FloatRange(0.5, 0.999), help="Quantile of an extra policy `chosen`.")
@click.option("--utilisation", type=click.FloatRange(0.05, 1.0), help="Utilisation of an extra policy `chosen`.")
@click.option("--price", type=float, metavar="X", help="Price of a replica-hour.")
@options.output("table", "json", "png", "svg")
@OUT
def backtest(**params: Any) -> None:
    """Replay history: reactive scaling, the naive floor, the policies, perfect foresight."""
    from inferdoc.prewarm import command as work

    click.get_current_context().exit(work.replay(origin=origin(params), **params))


@command.command("check")
@PLAN
@click.option("--target", "goals", multiple=True, type=click.Choice([*MODULES]), help="Targets to check. Default: all.")
@click.option("--pool", metavar="NAME", help="One pool of the plan. Default: all.")
@click.option("--manifest", metavar="FILE", help="File to check instead of the output of emit. Requires one --target.")
@click.option("--existing", metavar="FILE", help="Object to merge with before the check. Requires one --target.")
@options.output("table", "json")
def check(**params: Any) -> None:
    """Prove that what is emitted equals the plan, minute by minute over 400 days in seven zones.

    Exit code 1 if anything differs.
    """
    from inferdoc.prewarm import command as work

    click.get_current_context().exit(work.check_plan(**params))


@command.command("apply")
@PLAN
@per_pool(
    "--target",
    "goal",
    click.STRING,
    "hpa",
    words="hpa, deployment, kserve, wva, lws (or the kind's full name), keda-cron, llm-service, llm-service-keda "
    "(llm-service-prefill, llm-service-prefill-keda), cronjob, or textfile.",
)
@click.option("--pool", metavar="NAME", help="Pool to apply. Default: all pools of the plan and of [POOL=] options.")
@per_pool("--name", "name", click.STRING, words="Object to change. Default: the name of the pool.")
@per_pool(
    "--namespace", "namespace", click.STRING, words="Namespace of the object. Default: from the plan, else `default`."
)
@per_pool(
    "--max",
    "maximum",
    click.IntRange(1),
    words="Maximum replicas. Default: the maximum of the object, else 20 times its replicas without a plan.",
)
@click.option("--cluster", metavar="NAME", help="Cluster that kubectl changes; plans of other clusters are refused.")
@click.option("--kind", metavar="KIND", help="cronjob: kind of object whose floor the jobs set (default: an HPA).")
@click.option(
    "--image", metavar="IMAGE", help="cronjob, keda-cron: an image with inferdoc and kubectl. Default: this release's."
)
@click.option(
    "--expiry/--no-expiry",
    "ending",
    default=True,
    help="A CronJob in the cluster ends the plan if this command no longer runs.",
)
@click.option("--yes", "really", is_flag=True, help="Send the change. Default: dry run.")
@click.option("--metrics", metavar="FILE", help="Textfile of metrics to write after a run with --yes.")
@click.option("--look", "look_first", is_flag=True, help="Dry run that reads the object first.")
@click.option("--now", metavar="TIME", help="Time of the run (default: now).")
@OUT
def apply(**params: Any) -> None:
    """Set the floors of the plan for the current time, for use in cron. Dry run unless --yes is given.

    All pools in one run; one that fails keeps no other back. Pools named by --pool or a [POOL=] option outlive the loss
    of the plan. The user's own floor is recorded on the object and never gone under. It comes back where the plan is
    stale, gone or abstains; a floor that was set by hand is kept, with a note.
    """
    from inferdoc.prewarm import apply_command as work

    click.get_current_context().exit(work.apply_plan(**params))


one_object = options.stacked(
    click.option("--name", metavar="NAME", help="Name of the object (default: the name of the pool)."),
    click.option("--namespace", metavar="NAME", default="default"),
    click.option("--yes", "really", is_flag=True, help="Send the change. Default: dry run that reads the object."),
    click.option("--now", metavar="TIME", help="Time of the run (default: now)."),
)


@command.command("hold")
@click.option("--target", "goal", default="hpa", help="Kind of object, as for apply.")
@click.option("--pool", metavar="NAME", required=True)
@one_object
@click.option("--floor", type=click.IntRange(0), required=True, help="New floor.")
@click.option("--levels", metavar="N,N,...", required=True, help="All levels of the plan.")
@click.option("--max", "maximum", type=click.IntRange(1), required=True, help="Maximum replicas of the plan.")
@click.option("--until", metavar="TIME", required=True, help="End of the plan; later, the base floor is restored.")
@click.option("--base", type=click.IntRange(0), required=True, help="Base floor of the plan.")
@click.option("--plan-id", "plan_id", metavar="ID", required=True)
@click.option("--generated", metavar="TIME", required=True)
@click.option("--zone", metavar="ZONE", required=True)
@click.option("--scale-to-zero", is_flag=True, help="Permission for --floor 0.")
def hold(**params: Any) -> None:
    """Set a floor on an object, as the CronJobs of a plan do.

    The object is read first. A floor that was set by hand becomes the base floor and is never lowered.
    """
    from inferdoc.prewarm import apply_command as work

    click.get_current_context().exit(work.hold_floor(**params))


@command.command("release")
@click.option("--target", "goal", default="hpa", help="Kind of object, as for apply.")
@click.option("--pool", metavar="NAME", required=True)
@one_object
@click.option("--expired", "only_expired", is_flag=True, help="Only if the plan of the object has expired.")
@click.option("--job", metavar="NAME", help="CronJob that runs this command; it is deleted after the last release.")
def release(**params: Any) -> None:
    """Restore the base floor of an object and remove all changes by inferdoc."""
    from inferdoc.prewarm import apply_command as work

    click.get_current_context().exit(work.release_object(**params))
