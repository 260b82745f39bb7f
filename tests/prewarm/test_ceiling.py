"""What acts has a ceiling, whatever a plan with a valid hash says."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from cluster import FakeCluster
from plans import MADE, WORKDAYS, office_plan, plan, pool

from inferdoc.cli.prewarm import command
from inferdoc.errors import InferdocError
from inferdoc.prewarm.plan import PlanRow, parse, stamped, to_json
from inferdoc.prewarm.week import WeekWindow

NOON = "2026-02-23T11:30:00Z"
TARGETS = {
    "deployment": ("Deployment", {"replicas": 2}, "replicas"),
    "lws": ("LeaderWorkerSet", {"replicas": 2}, "replicas"),
    "wva": ("VariantAutoscaling", {"minReplicas": 2}, "minReplicas"),
    "hpa": ("HorizontalPodAutoscaler", {"minReplicas": 2, "maxReplicas": 20}, "minReplicas"),
    "keda-cron": ("ScaledObject", {"minReplicaCount": 2, "triggers": [{"type": "cpu", "name": "load"}]}, "triggers"),
    "cronjob": ("HorizontalPodAutoscaler", {"minReplicas": 2, "maxReplicas": 20}, "minReplicas"),
}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    made = FakeCluster()
    monkeypatch.setattr(subprocess, "run", lambda words, **asked: made.run(words, **asked))
    return made


def stands(fake: FakeCluster, target: str, **spec: object) -> str:
    kind, own, field = TARGETS[target]
    api = {"apiVersion": "keda.sh/v1alpha1"} if kind == "ScaledObject" else {}
    fake.put({**api, "kind": kind, "metadata": {"name": "llama"}, "spec": {**own, **spec}})
    return field


def run(folder: Path, made: PlanRow, target: str, *words: str) -> Result:
    (folder / "plan.json").write_text(to_json(made))
    always = ["apply", "--plan", str(folder / "plan.json"), "--target", target, "--now", NOON, "--yes", "--no-expiry"]
    return CliRunner().invoke(command, [*always, *words])


def huge(replicas: int) -> PlanRow:
    return plan(pool(WeekWindow(WORKDAYS, 450, 600, replicas), maximum=replicas))


@pytest.mark.parametrize("replicas", [10_000, 3_000_000_000])
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_a_plan_far_above_what_runs_is_refused_by_every_target(fake, tmp_path, target, replicas):
    field = stands(fake, target)
    before = fake.of(TARGETS[target][0])["spec"][field]
    answer = run(tmp_path, huge(replicas), target)
    assert isinstance(answer.exception, InferdocError) and str(replicas) in str(answer.exception)
    assert fake.of(TARGETS[target][0])["spec"][field] == before and not fake.names("CronJob")


@pytest.mark.parametrize("target", ["deployment", "lws", "wva"])
def test_the_ceiling_is_a_multiple_of_the_users_own_replicas_and_does_not_creep_up(fake, tmp_path, target):
    field = stands(fake, target)
    assert run(tmp_path, huge(40), target).exception is None
    assert fake.of(TARGETS[target][0])["spec"][field] == 40
    answer = run(tmp_path, huge(41), target)
    assert "20 times the 2 without a plan" in str(answer.exception) and "give --max" in str(answer.exception)
    assert fake.of(TARGETS[target][0])["spec"][field] == 2, "the user's own comes back"


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_max_is_the_ceiling_where_it_is_given(fake, tmp_path, target):
    field = stands(fake, target)
    answer = run(tmp_path, huge(12), target, "--max", "11")
    assert "--max 11" in str(answer.exception) and "12" in str(answer.exception)
    answer = run(tmp_path, huge(12), target, "--max", "llama=12")
    assert answer.exception is None, answer.exception
    assert "12" in str(fake.of(TARGETS[target][0])["spec"][field])


def test_max_raises_the_multiple_and_is_the_maximum_that_is_set(fake, tmp_path):
    stands(fake, "wva", maxReplicas=4)
    made = plan(pool(WeekWindow(WORKDAYS, 450, 600, 90), maximum=1000))
    assert run(tmp_path, made, "wva", "--max", "100").exception is None
    assert fake.of("VariantAutoscaling")["spec"] == {"minReplicas": 90, "maxReplicas": 100}


def test_a_dry_run_refuses_too(fake, tmp_path):
    (tmp_path / "plan.json").write_text(to_json(huge(10_000)))
    words = ["apply", "--plan", str(tmp_path / "plan.json"), "--target", "deployment", "--now", NOON]
    assert "no maximum is known" in str(CliRunner().invoke(command, words).exception)
    assert not fake.calls


def refused(made: PlanRow, *parts: str) -> None:
    with pytest.raises(InferdocError) as caught:
        parse(to_json(stamped(made)).encode(), "plan.json")
    text = str(caught.value)
    assert all(part in text for part in ("plan.json", "llama", *parts)) and "\n" not in text


def test_a_plan_that_cannot_be_is_refused_by_name():
    window = WeekWindow(WORKDAYS, 450, 600, 8)
    refused(plan(pool(window, base=-3)), "-3 replicas are negative")
    refused(plan(pool(WeekWindow(WORKDAYS, 450, 600, -8))), "-8 replicas are negative")
    refused(plan(pool(window, base=0, scale_to_zero=False)), "0 replicas", "--scale-to-zero")
    refused(plan(pool(WeekWindow(WORKDAYS, 450, 600, 0), scale_to_zero=False)), "0 replicas", "--scale-to-zero")
    late = msgspec.structs.replace(plan(pool(window)), valid_until=MADE + timedelta(days=3650))
    refused(late, "valid until 2036", "was forecast until 2026-02-27")
    parse(to_json(plan(pool(window, base=0, scale_to_zero=True))).encode(), "plan.json")


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_a_plan_of_another_namespace_or_cluster_is_refused_by_name(fake, tmp_path, target):
    field = stands(fake, target)
    kind = TARGETS[target][0]
    before = fake.of(kind)["spec"][field]
    made = plan(pool(WeekWindow(WORKDAYS, 450, 600, 8), namespace="llm", cluster="paris"))
    answer = run(tmp_path, made, target, "--namespace", "prod")
    assert "planned for namespace llm, not prod" in str(answer.exception)
    answer = run(tmp_path, made, target, "--cluster", "oslo")
    assert "planned for cluster paris, not for oslo" in str(answer.exception)
    assert fake.of(kind)["spec"][field] == before
    assert run(tmp_path, made, target, "--cluster", "paris").exception is None
    assert any("--namespace=llm" in words for words in fake.calls), "the namespace of the plan is the default"
    assert fake.of(kind)["metadata"]["annotations"]["inferdoc.io/cluster"] == "paris"
    other = plan(pool(WeekWindow(WORKDAYS, 450, 600, 8), namespace="llm", cluster="oslo"))
    assert "planned for cluster oslo, not for paris" in str(run(tmp_path, other, target).exception)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--floor=30", "--levels=2,30", "--max=20"], "--max is 20"),
        (["--floor=8", "--levels=2,30", "--max=20"], "--max is 20"),
        (["--floor=8", "--levels=-2,8", "--max=20"], "-2 replicas are negative"),
        (["--floor=0", "--levels=0,8", "--max=20"], "give --scale-to-zero"),
    ],
)
def test_a_job_holds_no_floor_above_its_maximum_and_none_of_0_without_a_word(fake, words, said):
    stands(fake, "deployment")
    always = ["hold", "--target=deployment", "--pool=llama", "--until=2026-03-01T00:00:00Z", "--base=2", "--now", NOON]
    stamp = ["--plan-id=1", "--generated=2026-02-20T12:00:00Z", "--zone=UTC", "--yes"]
    answer = CliRunner().invoke(command, [*always, *stamp, *words])
    assert said in str(answer.exception) and fake.sent("patch") == 0


def test_the_usual_plan_needs_no_word(fake, tmp_path):
    for target in sorted(TARGETS):
        fake.objects.clear()
        stands(fake, target)
        assert run(tmp_path, office_plan(), target).exception is None, target


@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize("other", ["the same plan", "a newer plan"])
def test_two_applies_at_once_end_as_one(fake, tmp_path, target, other):
    """The second begins and ends between what the first reads and what it writes; the user's own replicas are kept."""
    stands(fake, target)
    kind = TARGETS[target][0]
    newer = office_plan() if other == "the same plan" else huge(15)
    (tmp_path / "second").mkdir()
    results: list[Result] = []
    fake.faults = [lambda: results.append(run(tmp_path / "second", newer, target))]
    first = run(tmp_path, office_plan(), target)
    assert results and results[0].exception is None, results
    assert first.exception is None or "\n" not in str(first.exception), first.exception
    assert first.exception is None or isinstance(first.exception, InferdocError)
    last = run(tmp_path, newer, target)
    assert last.exception is None, last.exception
    after_race = {key: value for key, value in fake.of(kind).items() if key != "metadata"}, fake.names("CronJob")
    marks = fake.of(kind)["metadata"].get("annotations")
    fake.objects.clear()
    stands(fake, target)
    assert run(tmp_path, newer, target).exception is None
    once = {key: value for key, value in fake.of(kind).items() if key != "metadata"}, fake.names("CronJob")
    assert after_race == once and marks == fake.of(kind)["metadata"].get("annotations")
