"""Timers of a host: Debian's crontab and systemd. Both run a level-based command, so missed and repeated runs
converge."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np

from inferdoc import escaping
from inferdoc.errors import InferdocError
from inferdoc.forecast.calendar import zone_of
from inferdoc.prewarm import reference_check
from inferdoc.prewarm.emit.base import EmitOptions, FloorChange, changes, chosen, cron, fresh, stamp_line
from inferdoc.prewarm.emit.target import PrewarmTarget
from inferdoc.prewarm.plan import PlanRow, PoolPlan
from inferdoc.prewarm.reference_check import MinuteSpan
from inferdoc.prewarm.week import DAYS, MINUTES, MINUTES_PER_DAY, jumps

PROOF_DAYS = 400


def command_words(pool: PoolPlan, options: EmitOptions) -> list[str]:
    """The command that brings the floor to what the plan says now."""
    return [
        options.command,
        "prewarm",
        "apply",
        "--plan",
        options.plan_path,
        "--pool",
        pool.row.name,
        "--target",
        options.kind or "HorizontalPodAutoscaler",
        "--name",
        options.name or pool.row.name,
        "--namespace",
        options.namespace,
        "--yes",
    ]


def crontab(plan: PlanRow, options: EmitOptions) -> str:
    """Debian's cron knows no zones, so the plan's local times are written in the host's zone: in UTC (or any zone
    without clock changes) for each offset the plan's zone takes in the next 400 days; in the plan's own zone as they
    are. The command reads the current floor from the plan, so the extra runs change nothing. Other host zones are
    refused."""
    fresh(plan, options.now)
    pool = chosen(plan, options)
    host = options.host_zone or "UTC"
    times = _host_times(pool, host, datetime.fromtimestamp(options.now, UTC))
    line = shlex.join(command_words(pool, options)).replace("%", r"\%")
    if len(line.splitlines()) > 1:
        raise InferdocError("a crontab cannot hold a name or path with a line break; use systemd")
    head = [
        f"# {stamp_line(plan)}",
        f"# Times in {host}, the zone of this host (cron has no other); the plan's zone is {pool.row.zone}.",
    ]
    body = [f"{cron(clock, days)} {line}" for clock, days in times]
    return "\n".join([*head, *body]) + "\n"


def _host_times(pool: PoolPlan, host: str, begin: datetime) -> list[tuple[int, tuple[int, ...]]]:
    found = [(day * MINUTES_PER_DAY + c.minute) for c in changes(pool) for day in c.days]
    if host != pool.row.zone:
        theirs = zone_of(host)
        if jumps(theirs, begin, PROOF_DAYS):
            raise InferdocError(
                f"the clock of {host} changes within {PROOF_DAYS} days: run cron in UTC, or use systemd"
            )
        moved = {offset - _minutes(theirs, begin) for offset in _offsets(pool.zone, begin)}
        found = [(minute - shift) % MINUTES for minute in found for shift in moved]
    by_clock: dict[int, set[int]] = {}
    for minute in found:
        day, clock = divmod(minute, MINUTES_PER_DAY)
        by_clock.setdefault(clock, set()).add(day)
    return [(clock, tuple(sorted(days))) for clock, days in sorted(by_clock.items())]


def _minutes(zone: ZoneInfo, at: datetime) -> int:
    offset = at.astimezone(zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds() // 60)


def _offsets(zone: ZoneInfo, begin: datetime) -> set[int]:
    return {_minutes(zone, begin), *[_minutes(zone, jump.at) for jump in jumps(zone, begin, PROOF_DAYS)]}


def systemd(plan: PlanRow, options: EmitOptions) -> str:
    """A service and its timer, one OnCalendar per change, in the plan's zone (systemd knows zones). Persistent= makes
    up for a missed start after a reboot, which is harmless because the command reads the current floor from the
    plan."""
    fresh(plan, options.now)
    pool = chosen(plan, options)
    name = f"inferdoc-prewarm-{pool.row.name}"
    words = " ".join(map(escaping.systemd, command_words(pool, options)))
    calendar = [f"OnCalendar={on_calendar(change, pool.row.zone)}" for change in changes(pool)]
    lines = [
        f"# {stamp_line(plan)}",
        f"# file: {name}.service",
        "[Unit]",
        f"Description=Prewarm floor of {pool.row.name}",
        "",
        "[Service]",
        "Type=oneshot",
        f"ExecStart={words}",
        "",
        f"# file: {name}.timer",
        "[Unit]",
        f"Description=Changes of the prewarm floor of {pool.row.name}",
        "",
        "[Timer]",
        *calendar,
        "AccuracySec=1s",
        "Persistent=true",
        "",
        "[Install]",
        "WantedBy=timers.target",
    ]
    return "\n".join(lines) + "\n"


def on_calendar(change: FloorChange, zone: str) -> str:
    """`Mon,Tue *-*-* 07:30:00 Europe/Berlin`."""
    days = "" if len(change.days) == 7 else ",".join(DAYS[d].capitalize() for d in change.days) + " "
    return f"{days}*-*-* {change.minute // 60:02d}:{change.minute % 60:02d}:00 {zone}"


def _read_crontab(span: MinuteSpan, text: str, options: EmitOptions, applied: np.ndarray) -> np.ndarray:
    return reference_check.crontab_floor(span, text, options.host_zone or "UTC", applied)


def _read_systemd(span: MinuteSpan, text: str, _: EmitOptions, applied: np.ndarray) -> np.ndarray:
    return reference_check.systemd_floor(span, text, applied)


TARGETS = {
    "crontab": PrewarmTarget(crontab, manifests=False, read_week=_read_crontab),
    "systemd": PrewarmTarget(systemd, manifests=False, read_week=_read_systemd),
}
