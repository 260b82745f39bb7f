"""What is emitted is what was planned: after --existing, daily, and any horizon, in seven zones."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result
from cluster import hpa, scaled_object
from made import DAY, csv_of, office
from plans import MADE, NOW, build_pool, office_plan

from inferdoc.cli import prewarm as words_of
from inferdoc.cli.prewarm import command
from inferdoc.errors import InferdocError
from inferdoc.forecast.engine import Request
from inferdoc.forecast.result import Forecast
from inferdoc.forecast.series import LoadSeries, LoadUnit, Rate
from inferdoc.prewarm import build
from inferdoc.prewarm.build import build_plan
from inferdoc.prewarm.check import ZONES, check, prove
from inferdoc.prewarm.emit.base import EmitOptions
from inferdoc.prewarm.emit.registry import MODULES, emit, target_of
from inferdoc.prewarm.plan import PlanRow, stamped, to_json
from inferdoc.prewarm.plan_options import POLICIES, Capacity, Limits, PoolOptions

MOMENTARY = tuple(word for word in MODULES if target_of(word).states == "moment")
PATCHED = tuple(word for word in MODULES if target_of(word).patched is not None)

SERVER = "http://prometheus:9090"
CAPACITY = Capacity(Rate(0.2, LoadUnit.OF_FILE))


def last_week(series: LoadSeries, request: Request) -> Forecast:
    """The load of the week before: what comes after planning does not care where a forecast comes from."""
    count = request.horizon // series.step
    value = np.resize(series.values[-7 * DAY // series.step :], count)
    quantiles = dict.fromkeys(request.levels, value)
    return Forecast(series.name, series.unit, int(series.end), series.step, request.zone, value, quantiles, "last week")


def llama(request: Request) -> PoolOptions:
    return PoolOptions(request, POLICIES["balanced"], CAPACITY, Limits(1, 30), cold_start=300, name="llama")


@pytest.fixture(scope="module")
def of_days() -> Callable[[int], PlanRow]:
    """Plans of a horizon in days, two of them in each zone."""
    series = office(21, zone="Europe/Berlin")
    patch = pytest.MonkeyPatch()
    patch.setattr(build, "forecast", last_week)
    made: dict[int, PlanRow] = {}
    for days in range(1, 15):
        wish = llama(Request(horizon=days * DAY, zone=ZONES[days % len(ZONES)]))
        made[days] = build_plan([build_pool(series, wish)], int(series.end), days * DAY)
    patch.undo()
    return made.__getitem__


@pytest.mark.parametrize("days", range(1, 15))
def test_every_target_is_the_plan_whatever_the_horizon(of_days: Callable[[int], PlanRow], days: int) -> None:
    plan = of_days(days)
    assert (plan.valid_until - plan.generated_at).total_seconds() == days * DAY
    patched = PATCHED[days % len(PATCHED)]
    goals = ("keda-cron", patched, "crontab", "systemd", "daily", *(MOMENTARY if days in (1, 8) else ()))
    assert [v for goal in goals for v in check(plan, None, goal, ()) if not v.ok] == []


def test_a_horizon_beyond_two_weeks_is_refused() -> None:
    with pytest.raises(InferdocError, match="shorten --horizon to 14d"):
        build_pool(office(21), llama(Request(horizon=15 * DAY, zone="UTC")))


def llm_service(**scaling: Any) -> dict[str, Any]:
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": "llama"},
        "spec": {"scaling": {"minReplicas": 5, "maxReplicas": 20, **scaling}},
    }


NIGHTLY = {
    "type": "cron",
    "name": "nightly",
    "metadata": {"timezone": "UTC", "start": "0 2 * * *", "end": "0 3 * * *", "desiredReplicas": "9"},
}
LOAD = {"type": "prometheus", "name": "load", "metadata": {"query": "q", "threshold": "1"}}
EXISTING: dict[str, tuple[str, dict[str, Any]]] = {
    "scaled-low": ("keda-cron", scaled_object(1)),
    "scaled-high": ("keda-cron", scaled_object(9)),
    "scaled-cron": ("keda-cron", scaled_object(1, triggers=[LOAD, NIGHTLY])),
    "metric": ("keda-prometheus", scaled_object(5)),
    "hpa": ("hpa", hpa(9)),
    "hpa-jobs": ("cronjob", hpa(5)),
    "kserve": ("kserve", {"kind": "InferenceService", "metadata": {}, "spec": {"predictor": {"minReplicas": 5}}}),
    "llm-keda": ("kserve", llm_service(keda={"triggers": [LOAD]})),
    "llm-wva": ("kserve", llm_service(wva={"variantCost": "1"})),
    "wva": ("wva", {"kind": "VariantAutoscaling", "metadata": {}, "spec": {"minReplicas": 4, "maxReplicas": 20}}),
    "foreign": ("keda-cron", scaled_object(3, newField={"of": "a later KEDA"})),
    "lws": ("lws", {"kind": "LeaderWorkerSet", "metadata": {}, "spec": {"replicas": 3}}),
}


@pytest.mark.parametrize("name", EXISTING)
def test_an_existing_object_keeps_its_base_in_every_zone(name: str) -> None:
    target, obj = EXISTING[name]
    options = EmitOptions(now=NOW, server=SERVER, existing=obj, per_group=2 if target == "lws" else 1)
    verdicts = check(office_plan(), None, target, ZONES, options)
    assert [v for v in verdicts if not v.ok] == [] and len(verdicts) == len(ZONES)


def test_the_proof_sees_a_floor_under_the_users_own() -> None:
    plan, options = office_plan(), EmitOptions(now=NOW, existing=hpa(5))
    without = emit(plan, "cronjob", replace(options, existing=None))
    with pytest.raises(InferdocError, match=r"differs from the plan, nothing is written: .*plan 5, cronjob 2"):
        prove(plan, without, "cronjob", options)
    scaled = replace(options, existing=scaled_object(5))
    text = emit(plan, "keda-cron", scaled).replace("minReplicaCount: 5", "minReplicaCount: 2")
    with pytest.raises(InferdocError, match="plan 5, keda-cron 2"):
        prove(plan, text, "keda-cron", scaled)


def test_an_object_that_carries_the_floor_of_now_shows_its_base(tmp_path: Path) -> None:
    marks = {"inferdoc.io/base-floor": "3", "inferdoc.io/set-floor": "11"}
    options = EmitOptions(now=NOW + 3 * 86400, existing=hpa(11, annotations=marks))
    (made,) = yaml.safe_load_all(emit(office_plan(), "hpa", replace(options, now=NOW + 12 * 3600)))
    assert made["spec"]["minReplicas"] == 3
    assert made["metadata"]["annotations"]["inferdoc.io/base-floor"] == "3"


def ask(*words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(command, list(words), input=text)


def test_emit_writes_nothing_that_is_not_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from inferdoc.prewarm.emit import keda

    right = keda.TARGETS["keda-cron"]
    late = replace(right, emit=lambda *a: right.emit(*a).replace("18 * * 1-5", "19 * * 1-5"))
    monkeypatch.setitem(keda.TARGETS, "keda-cron", late)
    place = tmp_path / "so.yaml"
    now = ("--now", MADE.isoformat())
    answer = ask("emit", "--target", "keda-cron", "--out", str(place), *now, text=to_json(office_plan()))
    assert "plan 2, keda-cron 11" in str(answer.exception) and not place.exists()


ODD = {
    "--min": "2", "--max": "17", "--tz": "Asia/Kolkata", "--horizon": "5d", "--policy": "safe", "--quantile": "0.8",
    "--utilisation": "0.6", "--safety-factor": "1.3", "--ramp": "3", "--dwell": "45m", "--budget": "900.0",
    "--rps-per-replica": "0.2", "--cold-start": "4m", "--role": "decode", "--history": "21d",
}  # fmt: skip


def test_the_nightly_job_asks_with_every_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: float(office(21).end))  # older data are refused
    monkeypatch.setattr(build, "forecast", last_week)
    load, days = tmp_path / "llama.csv", tmp_path / "days"
    load.write_text(csv_of(office(21)))
    days.write_text("2026-12-25 Christmas\n")
    said = [f"{name}={value}" for name, value in ODD.items()] + [f"--holidays={days}"]
    answer = ask("plan", "--input", str(load), *said, "-o", "json")
    assert answer.exit_code == 0, answer.output
    text = ask("emit", "--target", "daily", "--server", SERVER, text=answer.stdout).stdout
    objects = [o for o in yaml.safe_load_all(text) if o]
    jobs = {o["metadata"]["name"]: o["spec"]["jobTemplate"]["spec"] for o in objects if o["kind"] == "CronJob"}
    (pod,) = jobs["prewarm-llama-plan"]["template"]["spec"]["containers"]
    again = command.commands["plan"].make_context("plan", pod["command"][3:])
    first = command.commands["plan"].make_context("plan", ["--input", str(load), *said])
    differing = {key for key in first.params if first.params[key] != again.params[key]}
    assert differing == {"path", "prometheus", "pool", "output", "target", "holidays", "previous"}
    assert again.params["holidays"] == "/etc/inferdoc/holidays"
    (config,) = [o for o in objects if o["kind"] == "ConfigMap"]
    assert config["data"] == {"holidays": "2026-12-25 Christmas\n"}
    assert {"name": "files", "mountPath": "/etc/inferdoc", "readOnly": True} in pod["volumeMounts"]


def test_every_option_of_plan_is_in_the_request_or_left_out_by_name() -> None:
    params = {str(p.name): p for p in command.commands["plan"].params if p.expose_value}
    assert set(params) >= words_of.NOT_REPEATED
    for name in set(params) - words_of.NOT_REPEATED:
        option = params[name]
        assert isinstance(option, click.Option) and max(option.opts, key=len).startswith("--")


def test_a_plan_held_against_the_one_before_stays_and_says_what_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: float(office(21).end))  # older data are refused
    monkeypatch.setattr(build, "forecast", last_week)
    load, first = tmp_path / "llama.csv", tmp_path / "first.json"
    load.write_text(csv_of(office(21)))
    said = ("--input", str(load), "--rps-per-replica", "0.2", "-o", "json")
    assert ask("plan", *said, "--out", str(first)).exit_code == 0
    before, found = json.loads(first.read_text()), []
    for words in ((), ("--safety-factor", "1.02"), ("--safety-factor", "2")):
        made = ask("plan", *said, *words, "--previous", str(first), "--change-hours", "20").stdout
        found.append(json.loads(made)["pools"][0])
    assert [w["start"] for w in found[0]["windows"]] == [w["start"] for w in before["pools"][0]["windows"]]
    assert found[1]["hours"] < 1.1 * before["pools"][0]["hours"] < found[2]["hours"]
    moved = [w["reason"] for w in found[2]["windows"] if f"; plan {before['plan_id']} had " in w["reason"]]
    assert moved
    assert moved[0].partition("; plan")[2] in ask("explain", "--days", "7", text=made).stdout


def test_no_secret_of_the_source_is_in_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: float(office(21).end))  # older data are refused
    monkeypatch.setattr(build, "forecast", last_week)
    load = tmp_path / "llama.csv"
    load.write_text(csv_of(office(21)))
    said = ("--header", "Authorization: Bearer s3cret", "--username", "bob", "--rps-per-replica", "0.2")
    answer = ask("plan", "--input", str(load), *said, "-o", "json")
    assert answer.exit_code == 0 and "s3cret" not in answer.stdout and "bob" not in answer.stdout


def test_a_short_plan_is_renewed_before_it_ends(of_days: Callable[[int], PlanRow]) -> None:
    text = emit(of_days(1), "daily", EmitOptions(now=of_days(1).generated_at.timestamp(), server=SERVER))
    assert "schedule: 40 3,15 * * *" in text
    text = emit(of_days(2), "daily", EmitOptions(now=of_days(2).generated_at.timestamp(), server=SERVER))
    assert "schedule: 40 3 * * *" in text


def test_a_plan_of_an_earlier_version_keeps_its_id() -> None:
    old = json.loads(to_json(office_plan()))
    del old["request"], old["files"], old["pools"][0]["tuning"], old["pools"][0]["forecast"]["weights"]
    parsed = msgspec.convert(old, PlanRow)
    assert stamped(parsed).plan_id == old["plan_id"]
