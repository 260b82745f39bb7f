"""Every emitter equals the plan, minute by minute, in seven zones; and a manifest that does not is caught."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from plans import MADE, NOW, WORKDAYS, office_plan, plan, pool

from inferdoc.cli.prewarm import command
from inferdoc.errors import InferdocError
from inferdoc.prewarm.check import ZONES, check, compare, in_zone, shape_faults
from inferdoc.prewarm.command import existing_object
from inferdoc.prewarm.emit.base import EmitOptions
from inferdoc.prewarm.emit.registry import MODULES, emit, target_of
from inferdoc.prewarm.plan import PlanRow, to_json
from inferdoc.prewarm.schemas import faults
from inferdoc.prewarm.week import WeekWindow

MOMENTARY = tuple(word for word in MODULES if target_of(word).states == "moment")
PATCHED = tuple(word for word in MODULES if target_of(word).patched is not None)

SCHEDULED = ("keda-cron", *PATCHED, "crontab", "systemd")


def night_plan(zone: str = "UTC") -> PlanRow:
    """Changes at every hour and half hour of the night, every day: each clock change of each zone meets one."""
    windows = [WeekWindow(tuple(range(7)), minute, 30, 3 + minute // 30 % 5) for minute in range(0, 300, 30)]
    windows.append(WeekWindow(tuple(range(7)), 1380, 60, 9))
    return plan(pool(*windows, zone=zone))


@pytest.mark.parametrize("target", SCHEDULED)
def test_an_office_plan_is_equal_in_every_zone(target: str) -> None:
    verdicts = check(office_plan(), None, target)
    assert {v.zone for v in verdicts} == set(ZONES)
    assert [v for v in verdicts if not v.ok] == []
    assert all(v.minutes == 400 * 1440 for v in verdicts)


@pytest.mark.parametrize("target", ["keda-cron", "cronjob", "crontab", "systemd"])
def test_changes_all_through_the_night_are_equal_in_every_zone(target: str) -> None:
    assert [v for v in check(night_plan(), None, target) if not v.ok] == []


@pytest.mark.parametrize("target", MOMENTARY)
def test_targets_of_one_moment_state_the_floor_of_that_moment(target: str) -> None:
    assert [v for v in check(office_plan(), None, target, ("Australia/Lord_Howe",)) if not v.ok] == []


def test_without_care_for_clock_changes_the_night_would_be_wrong() -> None:
    raw = night_plan("Europe/Berlin")
    verdict = compare(raw, emit(raw, "keda-cron", EmitOptions(now=NOW)), "keda-cron", "Europe/Berlin")
    assert verdict.wrong > 0
    assert "2026-03-28" in verdict.first
    cared_for = in_zone(night_plan(), night_plan().pools[0], "Europe/Berlin")
    text = emit(cared_for, "keda-cron", EmitOptions(now=NOW))
    assert compare(cared_for, text, "keda-cron", "Europe/Berlin").ok


def manifest(target: str, made: PlanRow) -> list[dict[str, Any]]:
    return [o for o in yaml.safe_load_all(emit(made, target, EmitOptions(now=NOW))) if o]


def test_end_days_that_are_not_shifted_are_caught() -> None:
    made = plan(pool(WeekWindow(WORKDAYS, 1320, 480, 5)))
    objects = manifest("keda-cron", made)
    meta = objects[0]["spec"]["triggers"][0]["metadata"]
    assert (meta["start"], meta["end"]) == ("0 22 * * 1-5", "0 6 * * 2-6")
    assert compare(made, yaml.safe_dump_all(objects), "keda-cron", "Europe/Berlin").ok
    meta["end"] = "0 6 * * 1-5"
    assert not compare(made, yaml.safe_dump_all(objects), "keda-cron", "Europe/Berlin").ok


@pytest.mark.parametrize(
    ("target", "path", "value", "said"),
    [
        ("keda-cron", ("spec", "triggers", 0, "metadata", "desiredReplicas"), 8, "Expected `str`, got `int`"),
        ("keda-cron", ("spec", "triggers", 0, "metadata", "timeZone"), "UTC", "timeZone"),
        ("keda-cron", ("spec", "triggers", 0, "metricType"), "Value", "relative to what runs"),
        ("keda-cron", ("spec", "minReplicas"), 1, "minReplicas"),
        ("cronjob", ("spec", "timezone"), "UTC", "timezone"),
        ("cronjob", ("spec", "concurrencyPolicy"), "Never", "concurrencyPolicy"),
        ("cronjob", ("spec", "timeZone"), "Local", "timeZone"),
        ("cronjob", ("metadata", "name"), "x" * 53, "length <= 52"),
        ("cronjob", ("spec", "startingDeadlineSeconds"), 5, ">= 10"),
    ],
)
def test_strict_shapes_catch_what_looser_schemas_let_pass(
    target: str, path: tuple[Any, ...], value: Any, said: str
) -> None:
    kind = "ScaledObject" if target == "keda-cron" else "CronJob"
    obj = next(o for o in manifest(target, office_plan()) if o["kind"] == kind)
    assert faults(obj) == []
    place: Any = obj
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    found = faults(obj)
    assert found and said in found[0]


def test_jobs_that_do_not_end_with_the_plan_are_caught() -> None:
    made = office_plan()
    text = emit(made, "cronjob", EmitOptions(now=NOW))
    assert compare(made, text, "cronjob", "Europe/Berlin").ok
    for old, new, said in [
        ("0 12 28 2 *", "0 12 27 2 *", "the plan ends 2026-02-28 12:00Z"),
        ("            - prewarm-llama-02\n", "", "leaves prewarm-llama-02"),
        ("            - prewarm-llama-expiry\n", "            - other\n", "would fire again next year"),
        ("            - release\n", "            - apply\n", "does not give the object back"),
    ]:
        assert old in text
        assert said in compare(made, text.replace(old, new), "cronjob", "Europe/Berlin").first


def test_a_scale_that_does_not_come_back_to_the_base_is_caught() -> None:
    made = office_plan()
    options = EmitOptions(now=NOW, kind="Deployment")
    text = emit(made, "cronjob", options)
    assert compare(made, text, "cronjob", "Europe/Berlin", options).ok
    ending = text.rindex("- --floor=2")
    wrong = text[:ending] + "- --floor=3" + text[ending + len("- --floor=2") :]
    assert "puts 3 back, the base is 2" in compare(made, wrong, "cronjob", "Europe/Berlin", options).first


def test_triggers_that_would_outlive_their_plan_are_caught() -> None:
    made = office_plan()
    text = emit(made, "keda-cron", EmitOptions(now=NOW))
    assert compare(made, text, "keda-cron", "Europe/Berlin").ok
    for old, new, said in [
        ("schedule: '*/10 * * * *'", "schedule: 0 3 28 2 *", "fires at `0 3 28 2 *`"),
        ("            - --expired\n", "", "lacks --expired"),
        ("            - --job=prewarm-llama-expiry\n", "", "lacks --job=prewarm-llama-expiry"),
        ("            - --name=llama\n", "            - --name=mistral\n", "lacks --name=llama"),
        ("  - patch\n  - delete\n", "  - patch\n", "does not let it get, patch and delete ScaledObject llama"),
    ]:
        assert old in text, old
        assert said in compare(made, text.replace(old, new), "keda-cron", "Europe/Berlin").first
    alone = text.partition("---\n")[0]
    assert "0 CronJobs give the ScaledObject back" in compare(made, alone, "keda-cron", "Europe/Berlin").first


def test_every_yaml_target_has_the_right_shape() -> None:
    for target in MODULES:
        text = emit(office_plan(), target, EmitOptions(now=NOW, server="http://p:9090"))
        assert shape_faults(text, target) == []


def test_kubernetes_own_schemas_agree() -> None:
    validate = pytest.importorskip("kubernetes_validate").validate
    for target in ("cronjob", "kserve", "daily", "keda-cron"):
        for obj in yaml.safe_load_all(emit(office_plan(), target, EmitOptions(now=NOW, server="http://p:9090"))):
            if obj["kind"] != "ScaledObject":
                validate(obj, "1.33", strict=True)


def test_the_command_proves_or_says_no(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(to_json(office_plan()))
    ask = CliRunner().invoke
    answer = ask(command, ["check", "--plan", str(file), "--target", "keda-cron", "-o", "json"])
    assert answer.exit_code == 0, answer.output
    assert all(v["ok"] for v in json.loads(answer.stdout))
    wrong = tmp_path / "so.yaml"
    wrong.write_text(emit(office_plan(), "keda-cron", EmitOptions(now=NOW)).replace("18 * * 1-5", "19 * * 1-5"))
    answer = ask(command, ["check", "--plan", str(file), "--target", "keda-cron", "--manifest", str(wrong)])
    assert answer.exit_code == 1
    assert "wrong, first: Fri 2026-02-20 18:15 Europe/Berlin: plan 2, keda-cron 11" in answer.stdout
    assert MADE.year == 2026


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--existing", "FILE"], "--manifest and --existing need one --target"),
        (["--manifest", "FILE"], "--manifest and --existing need one --target"),
        (["--manifest", "FILE", "--target", "hpa", "--target", "lws"], "--manifest and --existing need one --target"),
        (["--manifest", "FILE", "--target", "keda-cron"], "--manifest needs --pool where the plan has several pools"),
        (["--pool", "other"], "the plan has no pool with a schedule to check"),
        (["--pool", "unsure"], "the plan has no pool with a schedule to check"),
    ],
)
def test_options_that_do_not_go_together_are_refused(words: list[str], said: str, tmp_path: Path) -> None:
    unsure = pool(name="unsure", forecast=msgspec.structs.replace(pool().forecast, abstained=True))
    file, manifest = tmp_path / "plan.json", tmp_path / "object.yaml"
    file.write_text(to_json(plan(*office_plan().pools, pool(name="mistral"), unsure)))
    manifest.write_text("kind: ScaledObject\n")
    words = [str(manifest) if word == "FILE" else word for word in words]
    answer = CliRunner().invoke(command, ["check", "--plan", str(file), *words])
    assert str(answer.exception) == said


def test_the_command_checks_every_target_of_each_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool whose base is 0 has no HPA target: an HPA cannot go down to zero."""
    asked = []
    monkeypatch.setattr(
        "inferdoc.prewarm.command.check", lambda made, name, goal, zones, options: asked.append((name, goal)) or []
    )
    file = tmp_path / "plan.json"
    unsure = pool(name="unsure", forecast=msgspec.structs.replace(pool().forecast, abstained=True))
    file.write_text(to_json(plan(pool(name="llama"), pool(name="idle", base=0), unsure)))
    everything = {*SCHEDULED, *MOMENTARY, "daily"}
    assert "hpa" in everything
    CliRunner().invoke(command, ["check", "--plan", str(file)])
    assert {goal for name, goal in asked if name == "llama"} == everything
    assert {goal for name, goal in asked if name == "idle"} == everything - {"hpa"}
    assert {name for name, _ in asked} == {"llama", "idle"}
    asked.clear()
    CliRunner().invoke(command, ["check", "--plan", str(file), "--pool", "llama", "--target", "wva"])
    assert asked == [("llama", "wva")]


JOB = "kind: CronJob\nmetadata: {name: llama}\n"
SCALED = "kind: ScaledObject\nmetadata: {name: llama}\n"


@pytest.mark.parametrize("text", [SCALED, f"{JOB}---\n{SCALED}", f"---\n{SCALED}---\n# the end\n"])
def test_an_existing_object_is_read_beside_jobs_and_empty_documents(text: str, tmp_path: Path) -> None:
    file = tmp_path / "object.yaml"
    file.write_text(text)
    assert existing_object(str(file)) == {"kind": "ScaledObject", "metadata": {"name": "llama"}}


@pytest.mark.parametrize("text", ["", JOB, f"{SCALED}---\n{SCALED}", "[1, 2]", f"{SCALED}---\nonly words\n"])
def test_what_is_not_one_existing_object_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "object.yaml"
    file.write_text(text)
    with pytest.raises(InferdocError, match="expected one object as `kubectl get -o yaml` prints it"):
        existing_object(str(file))
