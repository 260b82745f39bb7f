"""The jobs of a plan look before they write: what a person sets between two of them stays. And objects come back by
themselves when their plan expires, with nobody at work but what was emitted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from cluster import FakeCluster, hpa, scaled_object
from plans import MADE, office_plan

from inferdoc.cli.prewarm import command
from inferdoc.errors import InferdocError
from inferdoc.prewarm.emit.base import EmitOptions
from inferdoc.prewarm.emit.registry import emit
from inferdoc.prewarm.plan import pool_plan, to_json
from inferdoc.prewarm.reference_check import MinuteSpan, cron_matches, keda_floor

NOW = MADE.timestamp()
MONDAY = datetime(2026, 2, 23, tzinfo=UTC)
ENDS = MADE + timedelta(days=8)
HPA, SCALED = "HorizontalPodAutoscaler", "ScaledObject"


def emitted(fake: FakeCluster, target: str, **asked: Any) -> list[dict[str, Any]]:
    """What emit writes, applied."""
    objects = [*yaml.safe_load_all(emit(office_plan(), target, EmitOptions(now=NOW, name="llama", **asked)))]
    for obj in objects:
        fake.put(obj)
    return objects


def ask(words: list[str], now: datetime) -> Result:
    return CliRunner().invoke(command, [*words, "--now", now.isoformat()])


def pass_time(fake: FakeCluster, begin: datetime, end: datetime) -> None:
    """The CronJobs of the cluster, and nobody else, from begin to before end."""
    span = MinuteSpan(int(begin.timestamp()) // 60, int((end - begin).total_seconds() // 60))
    jobs = [fake.of("CronJob", name) for name in fake.names("CronJob")]
    due = []
    for job in jobs:
        fires = dated_or_weekly(span, job["spec"]["schedule"], job["spec"]["timeZone"])
        due += [(minute, job["metadata"]["name"]) for minute in fires]
    for minute, name in sorted(due):
        if name not in fake.names("CronJob"):
            continue
        pod = fake.of("CronJob", name)["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        for box in [*pod.get("initContainers", ()), *pod["containers"]]:
            words = box["command"]
            if words[0] == "kubectl":
                fake.run(words, input=None)
            else:
                assert ask(words[2:], datetime.fromtimestamp(minute * 60, UTC)).exit_code == 0


def dated_or_weekly(span: MinuteSpan, schedule: str, zone: str) -> list[int]:
    minute, hour, day, month, _ = schedule.split()
    if day != "*":
        at = int(datetime(2026, int(month), int(day), int(hour), int(minute), tzinfo=UTC).timestamp()) // 60
        return [at] if span.begin <= at < span.begin + span.count else []
    return [int(at) + span.begin for at in cron_matches(span, schedule, zone).nonzero()[0]]


def floor(fake: FakeCluster) -> int:
    return int(fake.of(HPA)["spec"]["minReplicas"])


def test_jobs_hold_the_plan_and_give_the_users_own_floor_back_at_its_end(fake: FakeCluster) -> None:
    fake.put(hpa(3))
    emitted(fake, "cronjob")
    held = pool_plan(office_plan().pools[0])
    for hours in range(1, 5 * 24):
        at = MONDAY + timedelta(hours=hours)
        pass_time(fake, at - timedelta(hours=1), at)
        before = at - timedelta(minutes=1)
        if hours > 7:
            assert floor(fake) == max(3, held.at(before.timestamp())), at
    pass_time(fake, ENDS - timedelta(days=1), ENDS + timedelta(hours=1))
    assert floor(fake) == 3 and fake.of(HPA)["metadata"].get("annotations", {}) == {}
    assert fake.names("CronJob") == []


@pytest.mark.parametrize(("by_hand", "noon", "night"), [(15, 15, 15), (5, 11, 5), (1, 11, 2)])
def test_a_floor_set_by_hand_between_two_jobs_is_the_users(
    fake: FakeCluster, by_hand: int, noon: int, night: int
) -> None:
    """At 07:30 the plan asks for 8, at 12:00 for 11, at 18:15 for 2, by the clock of Berlin."""
    fake.put(hpa(2))
    emitted(fake, "cronjob")
    pass_time(fake, MONDAY, MONDAY + timedelta(hours=8))
    assert floor(fake) == 8
    fake.edit(HPA, minReplicas=by_hand)
    pass_time(fake, MONDAY + timedelta(hours=8), MONDAY + timedelta(hours=12))
    assert floor(fake) == noon
    pass_time(fake, MONDAY + timedelta(hours=12), MONDAY + timedelta(hours=20))
    assert floor(fake) == night
    pass_time(fake, ENDS - timedelta(hours=1), ENDS + timedelta(hours=1))
    assert floor(fake) == by_hand


def test_replicas_of_a_deployment_that_are_no_level_of_the_plan_are_not_gone_under(fake: FakeCluster) -> None:
    fake.put({"kind": "Deployment", "metadata": {"name": "llama"}, "spec": {"replicas": 2, "template": {}}})
    emitted(fake, "cronjob", kind="Deployment")
    pass_time(fake, MONDAY, MONDAY + timedelta(hours=8))
    assert fake.of("Deployment")["spec"] == {"replicas": 8, "template": {}}
    fake.edit("Deployment", replicas=9)
    pass_time(fake, MONDAY + timedelta(hours=8), MONDAY + timedelta(hours=12))
    assert fake.of("Deployment")["spec"]["replicas"] == 11
    fake.edit("Deployment", replicas=13)
    pass_time(fake, MONDAY + timedelta(hours=12), MONDAY + timedelta(hours=20))
    assert fake.of("Deployment")["spec"]["replicas"] == 13
    fake.edit("Deployment", replicas=11)
    pass_time(fake, ENDS - timedelta(hours=1), ENDS + timedelta(hours=1))
    assert fake.of("Deployment")["spec"]["replicas"] == 2 and fake.names("CronJob") == []


def test_a_late_job_of_a_stale_plan_gives_the_base_back_and_says_why(fake: FakeCluster) -> None:
    fake.put(hpa(2))
    jobs = [obj for obj in emitted(fake, "cronjob") if obj["kind"] == "CronJob"]
    words = jobs[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert ask(words[2:], MONDAY).exit_code == 0
    answer = ask(words[2:], ENDS + timedelta(days=1))
    assert isinstance(answer.exception, InferdocError) and "valid until 2026-02-28T12:00:00" in str(answer.exception)
    assert floor(fake) == 2 and fake.of(HPA)["metadata"].get("annotations", {}) == {}


def test_an_edit_between_look_and_patch_of_a_job_is_not_overwritten(fake: FakeCluster) -> None:
    fake.put({"kind": "Deployment", "metadata": {"name": "llama"}, "spec": {"replicas": 2, "template": {}}})
    emitted(fake, "cronjob", kind="Deployment")
    fake.faults = [lambda: fake.edit("Deployment", replicas=14)]
    pass_time(fake, MONDAY, MONDAY + timedelta(hours=8))
    assert fake.of("Deployment")["spec"]["replicas"] == 14


def scaled_floor(fake: FakeCluster, at: datetime) -> int:
    span = MinuteSpan(int(at.timestamp()) // 60, 8 * 1440)
    return int(keda_floor(span, fake.of(SCALED)["spec"])[0])


def test_triggers_that_nobody_renews_go_with_their_plan_and_the_users_base_comes_back(fake: FakeCluster) -> None:
    theirs = scaled_object(1)
    emitted(fake, "keda-cron", existing=theirs)
    noon = MONDAY + timedelta(hours=11)
    pass_time(fake, MONDAY, noon)
    assert scaled_floor(fake, noon) == 11 and fake.of(SCALED)["spec"]["minReplicaCount"] == 2
    pass_time(fake, ENDS - timedelta(hours=1), ENDS + timedelta(hours=1))
    spec = fake.of(SCALED)["spec"]
    assert [t["name"] for t in spec["triggers"]] == ["load"] and spec["minReplicaCount"] == 1
    assert not [key for key in fake.of(SCALED)["metadata"]["annotations"] if "inferdoc" in key]
    version = fake.version
    pass_time(fake, ENDS + timedelta(hours=1), ENDS + timedelta(hours=2))
    assert fake.version == version


def test_whoever_renews_the_triggers_puts_their_end_off(fake: FakeCluster) -> None:
    emitted(fake, "keda-cron", existing=scaled_object(1))
    marks = fake.of(SCALED)["metadata"]["annotations"]
    marks["inferdoc.io/valid-until"] = (ENDS + timedelta(days=7)).isoformat()
    pass_time(fake, ENDS - timedelta(hours=1), ENDS + timedelta(hours=1))
    assert len(fake.of(SCALED)["spec"]["triggers"]) == 4


def test_a_scaled_object_of_our_own_goes_at_the_end_and_its_job_finds_nothing_wrong_with_that(
    fake: FakeCluster,
) -> None:
    emitted(fake, "keda-cron")
    pass_time(fake, ENDS - timedelta(hours=1), ENDS + timedelta(hours=2))
    assert fake.names(SCALED) == []


def test_release_gives_an_object_back_at_once(fake: FakeCluster) -> None:
    fake.put(hpa(3))
    emitted(fake, "cronjob")
    pass_time(fake, MONDAY, MONDAY + timedelta(hours=8))
    words = ["release", "--pool", "llama"]
    assert "floor should be 3 now (dry run" in ask(words, MONDAY).stdout and floor(fake) == 8
    assert "floor 8 -> 3" in ask([*words, "--yes"], MONDAY).stdout
    assert floor(fake) == 3 and fake.of(HPA)["metadata"].get("annotations", {}) == {}
    assert "nothing is changed" in ask([*words, "--expired", "--yes"], MONDAY).stdout


def test_levels_that_are_no_numbers_are_one_line(fake: FakeCluster) -> None:
    fake.put(hpa(3))
    jobs = [obj for obj in emitted(fake, "cronjob") if obj["kind"] == "CronJob"]
    words = jobs[0]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["command"]
    answer = ask([*words[2:], "--levels=2,eight"], MONDAY)
    assert str(answer.exception) == "--levels `2,eight`: write whole numbers with commas between"


def test_what_emit_wrote_can_be_merged_anew_with_the_jobs_beside_it(tmp_path: Path) -> None:
    plan, place = tmp_path / "plan.json", tmp_path / "so.yaml"
    plan.write_text(to_json(office_plan()))
    place.write_text(yaml.safe_dump(scaled_object(1)))
    words = ["emit", "--plan", str(plan), "--target", "keda-cron", "--name", "llama", "--existing", str(place)]
    texts = []
    for _ in range(2):
        assert ask([*words, "--out", str(place)], MONDAY).exit_code == 0
        texts.append(place.read_text())
    assert texts[0] == texts[1] and texts[0].count("kind: CronJob") == 1
