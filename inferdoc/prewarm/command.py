"""Runs the `inferdoc prewarm` commands."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from inferdoc.catalogue.yaml_text import load_all_yaml
from inferdoc.config_sections import PricesSection
from inferdoc.errors import ExitCode, InferdocError, SourceError
from inferdoc.escaping import one_line
from inferdoc.forecast.agenda import agenda_for
from inferdoc.forecast.command import Origin, spoken_zone, write
from inferdoc.forecast.engine import Request
from inferdoc.forecast.series import DAY, LoadSeries
from inferdoc.prewarm import backtest, difference
from inferdoc.prewarm.build import LONGEST, Outlook, build_plan
from inferdoc.prewarm.check import ZONES, TargetCheck, check, compare, in_zone, prove, shape_faults
from inferdoc.prewarm.difference import explain, tuning_words
from inferdoc.prewarm.emit.base import EmitOptions
from inferdoc.prewarm.emit.registry import MODULES, emit
from inferdoc.prewarm.plan import PlanRequest, PlanRow, load, parse, to_json
from inferdoc.prewarm.plan_options import PerPool, PlanOptions, given_rates
from inferdoc.prewarm.pools import plan_pools
from inferdoc.source.base import incomplete
from inferdoc.times import moment_of, seconds_of

Draw = Callable[[PlanRow, Mapping[str, tuple[LoadSeries, Outlook]], float | None], str]
"""A plan as a page: with the load and the outlook of each pool, and the price of a replica-hour."""


def plan(
    *,
    origin: Origin,
    capacity: tuple[str, ...],
    rps: PerPool[float | None],
    cold_start: PerPool[str | None],
    zone: PerPool[str | None],
    horizon: str,
    tune: str | None,
    dwell: PerPool[str],
    holidays: str | None,
    calendar: str | None,
    events: tuple[str, ...],
    model: str,
    arima_seconds: float,
    begin: str | None,
    previous: str | None,
    price: float | None,
    draw: Draw,
    output: str,
    target: str | None,
    given: PlanRequest,
    **same: Any,
) -> int:
    """Plans one pool from a file, or every pool of a source. given: the options of the command line; same:
    those that `PlanOptions` takes as they are."""
    zones, start = zone.map(spoken_zone), None if begin is None else moment_of(begin, "--from")
    now = int(time.time()) if start is None else start
    agenda = agenda_for(zones.usual, now - origin.days * DAY, now + LONGEST, holidays, calendar, events)
    if agenda.note is not None:
        print(one_line(f"note: {agenda.note}"), file=sys.stderr)
    request = Request(
        horizon=seconds_of(horizon, "--horizon"),
        begin=start,
        model=model,
        arima_seconds=arima_seconds,
        holidays=agenda.holidays,
        events=agenda.events,
    )
    options = PlanOptions(
        request=request,
        capacity=given_rates(capacity, rps),
        cold_start=cold_start.map(lambda text: None if text is None else seconds_of(text, "--cold-start")),
        zone=zones,
        tune=tune is not None,
        dwell=dwell.map(lambda text: seconds_of(text, "--dwell")),
        previous=previous_plan(previous),
        **same,
    )
    planned = plan_pools(replace(origin, until=request.begin), options, now)
    left_out = [f"{pool} is not in this plan: {why}" for pool, why in planned.left_out]
    if origin.path is None:
        gaps = incomplete(origin.opened.source.warnings)
        left_out += [f"the data is incomplete, floors may be too low: {line}" for line in gaps]
    made = build_plan(planned.rows, now, request.horizon, given, left_out)
    if output == "html":
        text = draw(made, planned.seen, price)
    else:
        text = to_json(made) if output == "json" else explain(made, datetime.fromtimestamp(now, UTC), 7)
    write(text.encode(), target)
    for row in planned.rows:
        for note in row.notes:
            print(one_line(f"note: {note}" if len(planned.rows) == 1 else f"{row.name}: {note}"), file=sys.stderr)
    for line in left_out:
        print(one_line(line), file=sys.stderr)
    return ExitCode.OK


def read_plan(path: str) -> PlanRow:
    """A plan from a file or, for `-`, from standard input."""
    return parse(sys.stdin.buffer.read(), "standard input") if path == "-" else load(path)


def previous_plan(path: str | None) -> PlanRow | None:
    """The current plan. In the first run of a nightly job there is none; a note says so."""
    if path is None:
        return None
    if not Path(path).exists():
        print(one_line(f"note: {path}: no previous plan yet, so there is no comparison"), file=sys.stderr)
        return None
    return load(path)


def differ(*, old: str, new: str, price: float | None, gpus: int, prices: PricesSection, output: str) -> int:
    """Prints the changes of a new plan. Without --price, the configured price of the tier that ends the pool's name
    applies."""

    def of(pool: str) -> float | None:
        tier = next((tier for tier in prices.tiers if pool.endswith(f"-{tier}")), None)
        known = None if tier is None else prices.tiers[tier].on_demand * prices.overhead * gpus
        return known if price is None else price

    plans = load(old), load(new)
    found = difference.difference(*plans, of)
    write(
        (difference.to_json if output == "json" else difference.to_text)(*plans, found, prices.currency).encode(), None
    )
    return ExitCode.OK


def show(*, path: str, begin: str | None, days: float) -> int:
    moment = time.time() if begin is None else moment_of(begin, "--from")
    write(explain(read_plan(path), datetime.fromtimestamp(moment, UTC), days).encode(), None)
    return ExitCode.OK


JOB_KINDS = ("CronJob", "ServiceAccount", "Role", "RoleBinding")


def existing_object(path: str | None) -> dict[str, Any] | None:
    """The object in a YAML or JSON file, as `kubectl get -o yaml` prints it, or as a former `emit` wrote it: jobs and
    rights beside it are left out."""
    if path is None:
        return None
    try:
        objects = [obj for obj in load_all_yaml(Path(path).read_text("utf-8")) if obj is not None]
    except (OSError, UnicodeDecodeError) as fault:
        raise SourceError(f"{path}: cannot be read: {fault}") from fault
    except yaml.YAMLError as fault:
        raise InferdocError(f"{path}: no YAML: {str(fault).splitlines()[0]}") from fault
    found = [obj for obj in objects if not isinstance(obj, dict) or obj.get("kind") not in JOB_KINDS]
    if len(found) != 1 or not isinstance(found[0], dict):
        raise InferdocError(f"{path}: expected one object as `kubectl get -o yaml` prints it")
    return found[0]


def emit_plan(*, path: str, goal: str, now: str | None, existing: str | None, target: str | None, **given: Any) -> int:
    """Writes the plan for a target, once what is written has been read back and is the plan."""
    given = {key: value for key, value in given.items() if value is not None}
    moment = time.time() if now is None else moment_of(now, "--now")
    options = EmitOptions(now=moment, existing=existing_object(existing), **given)
    made = read_plan(path)
    text = emit(made, goal, options)
    prove(made, text, goal, options)
    write(text.encode(), target)
    return ExitCode.OK


def replay(
    *,
    origin: Origin,
    rps: float | None,
    cold_start: str,
    maximum: int | None,
    zone: str | None,
    price: float | None,
    output: str,
    target: str | None,
    **same: Any,
) -> int:
    """Back-tests on the end of a CSV file. same: options that `Trial` takes as they are."""
    trial = backtest.Trial(
        cold_start=seconds_of(cold_start, "--cold-start"),
        capacity=rps,
        zone=spoken_zone(zone),
        maximum=maximum or 100_000,
        **same,
    )
    loads = origin.series()
    if len(loads) != 1:
        raise InferdocError(f"choose one pool with --pool: {', '.join(s.name for s in loads)}")
    report = backtest.backtest(loads[0], trial)
    if output in ("png", "svg"):
        data = backtest.to_image(report, output)
    else:
        data = (backtest.to_json if output == "json" else backtest.to_table)(report, price).encode()
    write(data, target)
    return ExitCode.OK


def check_plan(
    *, path: str, goals: tuple[str, ...], pool: str | None, manifest: str | None, existing: str | None, output: str
) -> int:
    """Proves each target against the plan, or one manifest file; exit 1 when anything differs."""
    made = read_plan(path)
    if (manifest or existing) and len(goals) != 1:
        raise InferdocError("--manifest and --existing need one --target")
    options = EmitOptions(now=0.0, server="http://prometheus:9090", existing=existing_object(existing))
    verdicts: list[TargetCheck] = []
    rows = [row for row in made.pools if pool in (None, row.name) and not row.forecast.abstained]
    if not rows:
        raise InferdocError("the plan has no pool with a schedule to check")
    for row in rows:
        if manifest is not None:
            if len(rows) != 1:
                raise InferdocError("--manifest needs --pool where the plan has several pools")
            text = text_of(manifest)
            wrong = shape_faults(text, goals[0])
            own = in_zone(made, row, row.zone)
            found = TargetCheck(goals[0], row.zone, 0, len(wrong), wrong[0]) if wrong else None
            verdicts.append(found or compare(own, text, goals[0], row.zone, options))
            continue
        for goal in goals or MODULES:
            if goal != "hpa" or row.base > 0:
                verdicts += check(made, row.name, goal, ZONES, options)
    if output == "json":
        write((json.dumps([{**asdict(v), "ok": v.ok} for v in verdicts], indent=1) + "\n").encode(), None)
    else:
        for row in rows:
            if row.tuning is not None:
                print(one_line(f"{row.name}: {tuning_words(row.tuning)}"))
        for v in verdicts:
            state = "equal" if v.ok else f"{v.wrong} wrong, first: {v.first}"
            print(one_line(f"{v.target:16s} {v.zone:20s} {v.minutes:>7d} minutes  {state}"))
    return ExitCode.OK if all(v.ok for v in verdicts) else ExitCode.FINDINGS


def text_of(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise SourceError(f"{path}: cannot be read: {fault}") from fault
