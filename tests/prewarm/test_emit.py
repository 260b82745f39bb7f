"""Emitters: the manifests that come out, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from made import DAY, noise, office
from plans import build_pool

from inferdoc.errors import InferdocError
from inferdoc.forecast.engine import Request
from inferdoc.forecast.series import LoadUnit, Rate
from inferdoc.prewarm.build import build_plan
from inferdoc.prewarm.emit.base import EmitOptions, cron_days
from inferdoc.prewarm.emit.keda import alternates
from inferdoc.prewarm.emit.registry import emit
from inferdoc.prewarm.plan import PlanRow
from inferdoc.prewarm.plan_options import POLICIES, Capacity, Limits, PoolOptions
from inferdoc.prewarm.week import WeekWindow

NOW = 1774224000


def wish(name: str = "pool-a") -> PoolOptions:
    return PoolOptions(
        request=Request(horizon=7 * DAY, zone="Europe/Berlin"),
        policy=POLICIES["balanced"],
        capacity=Capacity(Rate(0.2, LoadUnit.OF_FILE)),
        limits=Limits(1, 30),
        cold_start=300,
        name=name,
    )


@pytest.fixture(scope="module")
def plan() -> PlanRow:
    return build_plan([build_pool(office(21, zone="Europe/Berlin"), wish())], NOW)


def objects(text: str) -> list[dict[str, Any]]:
    return [o for o in yaml.safe_load_all(text) if o]


def scaled_object(**spec: Any) -> dict[str, Any]:
    load = {
        "type": "prometheus",
        "name": "load",
        "metadata": {"serverAddress": "http://p", "query": "q", "threshold": "5"},
    }
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "so", "resourceVersion": "17"},
        "spec": {
            "scaleTargetRef": {"name": "llama"},
            "minReplicaCount": 1,
            "maxReplicaCount": 30,
            "triggers": [load],
            **spec,
        },
        "status": {"x": 1},
    }


def test_keda_metadata_are_strings_and_starts_differ_from_ends(plan: PlanRow) -> None:
    made = objects(emit(plan, "keda-cron", EmitOptions(now=NOW)))[0]
    assert made["kind"] == "ScaledObject"
    names = [t["name"] for t in made["spec"]["triggers"]]
    assert len(set(names)) == len(names)
    for trigger in made["spec"]["triggers"]:
        assert trigger["type"] == "cron"
        assert "metricType" not in trigger
        meta = trigger["metadata"]
        assert all(isinstance(value, str) for value in meta.values())
        assert meta["timezone"] == "Europe/Berlin"
        assert meta["start"] != meta["end"]
        assert "7" not in meta["start"].split()[4]
    assert made["metadata"]["annotations"]["inferdoc.io/plan-id"] == plan.plan_id


def test_merging_keeps_other_triggers_and_replaces_our_own(plan: PlanRow) -> None:
    first = objects(emit(plan, "keda-cron", EmitOptions(now=NOW, existing=scaled_object())))[0]
    second = objects(emit(plan, "keda-cron", EmitOptions(now=NOW, existing=first)))[0]
    assert first == second
    assert [t["name"] for t in first["spec"]["triggers"]].count("load") == 1
    assert "status" not in first and "resourceVersion" not in first["metadata"]


@pytest.mark.parametrize(
    ("existing", "said"),
    [
        ({"kind": "Deployment", "apiVersion": "apps/v1"}, "expected a keda.sh ScaledObject"),
        (scaled_object(maxReplicaCount=2), "maxReplicaCount of ScaledObject so is 2"),
        (scaled_object(triggers=[]), "no triggers at all"),
        (scaled_object(advanced={"scalingModifiers": {"formula": "load"}}), "scalingModifiers.formula"),
        (
            {**scaled_object(), "metadata": {"name": "so", "annotations": {"autoscaling.keda.sh/paused": "true"}}},
            "paused object ignores the plan",
        ),
    ],
)
def test_existing_objects_that_would_ignore_the_plan_are_refused(
    plan: PlanRow, existing: dict[str, Any], said: str
) -> None:
    with pytest.raises(InferdocError, match=said):
        emit(plan, "keda-cron", EmitOptions(now=NOW, existing=existing))


def test_windows_whose_starts_and_ends_do_not_alternate_are_seen() -> None:
    assert alternates(WeekWindow((0, 1, 2, 3, 4), 480, 600, 3))
    assert not alternates(WeekWindow((0, 1), 480, 1500, 3))
    assert not alternates(WeekWindow((0,), 480, 10080, 3))


def test_cron_words() -> None:
    assert cron_days((0, 1, 2, 3, 4)) == "1-5"
    assert cron_days((5, 6)) == "0,6"
    assert cron_days(tuple(range(7))) == "*"
    assert cron_days((1, 2, 5)) == "2,3,6"


def test_cronjobs_state_levels_and_have_the_narrowest_rights(plan: PlanRow) -> None:
    found = objects(emit(plan, "cronjob", EmitOptions(now=NOW, name="llama", namespace="serving")))
    (role,) = [o for o in found if o["kind"] == "Role"]
    jobs = [o for o in found if o["kind"] == "CronJob"]
    assert role["rules"] == [
        {
            "apiGroups": ["autoscaling"],
            "resources": ["horizontalpodautoscalers"],
            "resourceNames": ["llama"],
            "verbs": ["get", "patch"],
        },
        {
            "apiGroups": ["batch"],
            "resources": ["cronjobs"],
            "resourceNames": [job["metadata"]["name"] for job in jobs],
            "verbs": ["delete"],
        },
    ]
    assert len({job["metadata"]["name"] for job in jobs}) == len(jobs) >= 2
    for job in jobs:
        assert len(job["metadata"]["name"]) <= 52
        spec = job["spec"]
        ends = job["metadata"]["name"].endswith("-expiry")
        assert spec["timeZone"] == ("Etc/UTC" if ends else "Europe/Berlin") and "TZ=" not in spec["schedule"]
        assert spec["concurrencyPolicy"] == "Replace" and spec["startingDeadlineSeconds"] >= 60
        assert spec["jobTemplate"]["spec"]["activeDeadlineSeconds"] > 0


def test_the_same_plan_gives_the_same_bytes(plan: PlanRow) -> None:
    for target in ("keda-cron", "cronjob", "json"):
        assert emit(plan, target, EmitOptions(now=NOW)) == emit(plan, target, EmitOptions(now=NOW))


def test_stale_and_future_plans_are_refused(plan: PlanRow) -> None:
    for target in ("keda-cron", "cronjob", "json"):
        with pytest.raises(InferdocError, match="is stale; make a new one"):
            emit(plan, target, EmitOptions(now=NOW + 9 * DAY))
        with pytest.raises(InferdocError, match="made in the future"):
            emit(plan, target, EmitOptions(now=NOW - DAY))


def test_an_abstention_is_not_emitted_as_a_schedule() -> None:
    empty = build_plan([build_pool(noise(), wish())], NOW)
    with pytest.raises(InferdocError, match="abstained"):
        emit(empty, "keda-cron", EmitOptions(now=NOW))


def test_several_pools_need_a_choice(plan: PlanRow) -> None:
    two = build_plan([plan.pools[0], build_pool(office(21), wish("pool-b"))], NOW)
    with pytest.raises(InferdocError, match="choose one with --pool: pool-a, pool-b"):
        emit(two, "keda-cron", EmitOptions(now=NOW))
    assert emit(two, "keda-cron", EmitOptions(now=NOW, pool="pool-b"))
    with pytest.raises(InferdocError, match="not in the plan"):
        emit(two, "keda-cron", EmitOptions(now=NOW, pool="pool-c"))
