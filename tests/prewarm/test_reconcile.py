"""`prewarm apply` against an API server that remembers: each trap by itself, then eight weeks of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result
from cluster import FakeCluster, hpa, scaled_object
from plans import MADE, WORKDAYS, office_plan, plan, pool

from inferdoc.cli.prewarm import command
from inferdoc.errors import InferdocError, SourceError
from inferdoc.prewarm import reference_check
from inferdoc.prewarm.emit.base import EmitOptions, changes
from inferdoc.prewarm.emit.registry import emit
from inferdoc.prewarm.plan import PlanRow, lifted, pool_plan, stamped, to_json
from inferdoc.prewarm.week import WeekWindow

NOON = "2026-02-23T11:30:00Z"  # a Monday, 12:30 in Berlin: the plan's floor is 11
MORNING = "2026-02-23T08:00:00Z"  # 8
NIGHT = "2026-02-24T03:00:00Z"  # 2
LATER = "2026-03-20T00:00:00Z"  # the plan is stale
HPA, SCALED = "HorizontalPodAutoscaler", "ScaledObject"


@dataclass
class Job:
    """The user's cron line."""

    folder: Path
    words: list[str] = field(default_factory=list)

    def holds(self, made: PlanRow) -> None:
        (self.folder / "plan.json").write_text(to_json(made))

    def runs(self, now: str, *words: str) -> Result:
        file = str(self.folder / "plan.json")
        said = ["apply", "--plan", file, "--pool", "llama", "--now", now, "--yes", *self.words, *words]
        return CliRunner().invoke(command, said)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    made = Job(tmp_path)
    made.holds(office_plan())
    return made


def floor(cluster: FakeCluster) -> int | None:
    return cluster.of(HPA)["spec"].get("minReplicas")


def marks(cluster: FakeCluster, kind: str = HPA) -> dict[str, str]:
    return dict(cluster.of(kind)["metadata"].get("annotations", {}))


def test_the_users_base_is_recorded_and_comes_back_when_the_plan_is_stale(fake: FakeCluster, job: Job) -> None:
    fake.put(hpa(3))
    assert job.runs(NOON).exit_code == 0
    assert floor(fake) == 11 and marks(fake)["inferdoc.io/base-floor"] == "3"
    answer = job.runs(LATER)
    assert "floor 11 -> 3" in answer.stdout and "stale" in str(answer.exception)
    assert floor(fake) == 3 and marks(fake) == {}


def test_the_plans_own_base_never_goes_under_the_users(fake: FakeCluster, job: Job) -> None:
    fake.put(hpa(5))
    job.runs(NOON)
    assert "the user's own floor of 5 is kept" in job.runs(NIGHT).stdout
    assert floor(fake) == 5


def test_a_second_run_sends_nothing(fake: FakeCluster, job: Job) -> None:
    fake.put(hpa())
    job.runs(NOON)
    assert "floor is 11 already" in job.runs(NOON).stdout
    assert fake.sent("patch") == 1


@pytest.mark.parametrize("how", ["gone", "half", "vanished", "future"])
def test_without_a_plan_to_follow_the_base_comes_back_and_the_reason_is_one_line(
    fake: FakeCluster, job: Job, how: str
) -> None:
    fake.put(hpa())
    job.runs(NOON)
    file = job.folder / "plan.json"
    if how == "gone":
        file.unlink()
    elif how == "half":
        file.write_text(to_json(office_plan())[:200])
    elif how == "vanished":
        job.holds(office_plan(name="mistral"))
    else:
        late = msgspec.structs.replace(office_plan(), generated_at=MADE + timedelta(days=30))
        job.holds(stamped(msgspec.structs.replace(late, valid_until=MADE + timedelta(days=37))))
    answer = job.runs(NOON)
    assert floor(fake) == 2 and marks(fake) == {}
    assert isinstance(answer.exception, InferdocError) and "\n" not in str(answer.exception)


def test_an_abstention_gives_the_base_back_and_is_no_error(fake: FakeCluster, job: Job) -> None:
    fake.put(hpa())
    job.runs(NOON)
    row = office_plan().pools[0]
    told = msgspec.structs.replace(row.forecast, abstained=True, reason="no rhythm")
    job.holds(plan(msgspec.structs.replace(row, windows=[], forecast=told)))
    answer = job.runs(NOON)
    assert answer.exit_code == 0 and "abstained (no rhythm)" in answer.stdout
    assert floor(fake) == 2


def test_a_floor_raised_by_hand_is_never_gone_under(fake: FakeCluster, job: Job) -> None:
    fake.put(hpa())
    job.runs(NOON)
    fake.edit(HPA, minReplicas=15)
    assert "set by hand from 11 to 15" in job.runs(NOON).stdout
    for now in (NIGHT, LATER):
        job.runs(now)
        assert floor(fake) == 15


def test_a_floor_lowered_by_hand_holds_until_the_plan_asks_for_another(fake: FakeCluster, job: Job) -> None:
    fake.put(hpa())
    job.runs(MORNING)
    fake.edit(HPA, minReplicas=4)
    assert "4, set by hand, is kept" in job.runs(MORNING).stdout
    assert "4, set by hand, is kept" in job.runs(MORNING).stdout and floor(fake) == 4
    job.runs(NOON)
    assert floor(fake) == 11
    job.runs(NIGHT)
    assert floor(fake) == 4


def test_an_edit_between_the_look_and_the_patch_is_not_overwritten(fake: FakeCluster, job: Job) -> None:
    fake.put(hpa())
    fake.faults = [lambda: fake.edit(HPA, minReplicas=14)]
    job.runs(NOON)
    assert floor(fake) == 14 and marks(fake)["inferdoc.io/base-floor"] == "14"


@pytest.mark.parametrize("fault", ["timeout", "late"])
def test_a_timeout_is_one_line_and_the_next_run_settles_it(fake: FakeCluster, job: Job, fault: str) -> None:
    fake.put(hpa())
    fake.faults = [fault]
    answer = job.runs(NOON)
    assert isinstance(answer.exception, SourceError) and "the next run settles it" in str(answer.exception)
    assert "\n" not in str(answer.exception)
    job.runs(NOON)
    assert floor(fake) == 11 and marks(fake)["inferdoc.io/base-floor"] == "2"


def test_forbidden_is_one_line_that_says_where_the_right_comes_from(fake: FakeCluster, job: Job) -> None:
    fake.put(hpa())
    fake.faults = ["forbidden"]
    answer = job.runs(NOON)
    assert answer.exception is not None and "Forbidden" in str(answer.exception)
    assert "writes the Role" in str(answer.exception) and floor(fake) == 2


def test_an_object_that_is_not_there_is_one_line(fake: FakeCluster, job: Job) -> None:
    answer = job.runs(NOON)
    assert isinstance(answer.exception, SourceError) and "NotFound" in str(answer.exception)


def test_the_floor_of_another_pool_is_left_alone(fake: FakeCluster, job: Job) -> None:
    fake.put(hpa())
    job.runs(NOON)
    job.holds(plan(*office_plan().pools, *office_plan(name="mistral").pools))
    answer = job.runs(NOON, "--pool", "mistral", "--name", "llama")
    assert "holds the floor of pool llama, not of mistral" in str(answer.exception)
    assert floor(fake) == 11


def test_a_maximum_lowered_by_hand_gives_the_base_back(fake: FakeCluster, job: Job) -> None:
    fake.put(hpa())
    job.runs(MORNING)
    fake.edit(HPA, maxReplicas=9)
    answer = job.runs(MORNING)
    assert "maxReplicas 9, the plan wants 11" in str(answer.exception) and floor(fake) == 2


def test_a_plan_that_lives_by_another_clock_is_said(fake: FakeCluster, job: Job) -> None:
    fake.put(hpa())
    job.runs(NOON)
    job.holds(office_plan(zone="Asia/Kolkata"))
    answer = job.runs(NOON)
    assert "the plan's time zone is Asia/Kolkata now; that of the previous plan was Europe/Berlin" in answer.stdout
    assert floor(fake) == 11  # 17:00 in Kolkata


def test_a_run_leaves_metrics_that_alerts_go_by(fake: FakeCluster, job: Job) -> None:
    place = job.folder / "prewarm.prom"
    fake.put(hpa())
    row = office_plan().pools[0]
    bound = msgspec.structs.replace(row.policy, budget_hours=500.0)
    job.holds(plan(msgspec.structs.replace(row, policy=bound)))
    job.runs(NOON, "--metrics", str(place))
    told = dict(line.rsplit(" ", 1) for line in place.read_text().splitlines() if not line.startswith("#"))
    assert told == {
        'inferdoc_prewarm_floor_replicas{pool="llama"}': "11",
        'inferdoc_prewarm_valid_until_timestamp_seconds{pool="llama"}': f"{MADE.timestamp() + 8 * 86400:.0f}",
        'inferdoc_prewarm_maximum_replicas{pool="llama"}': "20",
        'inferdoc_prewarm_budget_hours{pool="llama"}': "500",
        'inferdoc_prewarm_set_replicas{pool="llama"}': "11",
        'inferdoc_prewarm_applied_timestamp_seconds{pool="llama"}': "1771846200",
        'inferdoc_prewarm_plan_unusable{pool="llama"}': "0",
    }
    job.runs(LATER, "--metrics", str(place))
    text = place.read_text()
    assert 'plan_unusable{pool="llama"} 1' in text and "floor_replicas" not in text and "valid_until" in text
    before = text
    fake.faults = ["forbidden"]
    job.runs(NOON, "--metrics", str(place))
    assert place.read_text() == before


def test_a_field_that_was_not_there_is_taken_out_again(fake: FakeCluster, job: Job) -> None:
    made = {"kind": "Deployment", "metadata": {"name": "llama"}, "spec": {"template": {}}}
    fake.put(made)
    job.runs(NOON, "--target", "deployment")
    assert fake.of("Deployment")["spec"]["replicas"] == 11
    job.runs(LATER, "--target", "deployment")
    assert fake.of("Deployment")["spec"] == {"template": {}}


def test_a_ceiling_is_raised_where_it_would_cap_the_floor_and_put_back(fake: FakeCluster, job: Job) -> None:
    fake.put({"kind": "VariantAutoscaling", "metadata": {"name": "llama"}, "spec": {"maxReplicas": 4}})
    job.runs(NOON, "--target", "wva")
    assert fake.of("VariantAutoscaling")["spec"] == {"maxReplicas": 20, "minReplicas": 11}
    job.runs(LATER, "--target", "wva")
    assert fake.of("VariantAutoscaling")["spec"] == {"maxReplicas": 4}


def test_a_ceiling_changed_by_hand_stays(fake: FakeCluster, job: Job) -> None:
    fake.put({"kind": "VariantAutoscaling", "metadata": {"name": "llama"}, "spec": {"maxReplicas": 4}})
    job.runs(NOON, "--target", "wva")
    fake.edit("VariantAutoscaling", maxReplicas=50)
    job.runs(LATER, "--target", "wva")
    assert fake.of("VariantAutoscaling")["spec"] == {"maxReplicas": 50}


def test_a_record_that_was_garbled_is_one_line_and_nothing_is_sent(fake: FakeCluster, job: Job) -> None:
    fake.put(hpa(11, annotations={"inferdoc.io/set-floor": "many", "inferdoc.io/base-floor": "2"}))
    answer = job.runs(NIGHT)
    assert "annotation inferdoc.io/set-floor is `many`" in str(answer.exception)
    assert fake.sent("patch") == 0


def triggers(cluster: FakeCluster) -> list[str]:
    return [t["name"] for t in cluster.of(SCALED)["spec"]["triggers"]]


KEDA = ("--target", "keda-cron")


def test_triggers_of_last_week_go_and_the_users_stay(fake: FakeCluster, job: Job) -> None:
    fake.put(scaled_object())
    job.runs(NOON, *KEDA)
    assert triggers(fake)[0] == "load" and len(triggers(fake)) == 4
    job.holds(plan(pool(WeekWindow(WORKDAYS, 480, 60, 5))))
    job.runs(NOON, *KEDA)
    assert triggers(fake) == ["load", "inferdoc-prewarm-mon-fri-0800-5"]
    job.runs(LATER, *KEDA)
    assert triggers(fake) == ["load"] and marks(fake, SCALED) == {}
    assert fake.of(SCALED)["spec"]["minReplicaCount"] == 2


def test_a_trigger_changed_by_hand_is_kept_and_said(fake: FakeCluster, job: Job) -> None:
    fake.put(scaled_object())
    job.runs(NOON, *KEDA)
    edited = fake.of(SCALED)["spec"]["triggers"][1]
    edited["metadata"]["desiredReplicas"] = "13"
    for _ in range(2):
        answer = job.runs(NOON, *KEDA)
        assert f"trigger {edited['name']} was changed by hand" in answer.stdout
        assert edited in fake.of(SCALED)["spec"]["triggers"] and len(triggers(fake)) == 4
    job.runs(LATER, *KEDA)
    assert triggers(fake) == ["load", edited["name"]]


def test_a_trigger_taken_out_by_hand_stays_out_until_the_plan_changes(fake: FakeCluster, job: Job) -> None:
    fake.put(scaled_object())
    job.runs(NOON, *KEDA)
    gone = fake.of(SCALED)["spec"]["triggers"].pop(1)
    for _ in range(2):
        assert f"trigger {gone['name']} was taken out by hand" in job.runs(NOON, *KEDA).stdout
        assert gone["name"] not in triggers(fake)


def test_a_paused_scaled_object_gets_its_base_back(fake: FakeCluster, job: Job) -> None:
    fake.put(scaled_object())
    job.runs(NOON, *KEDA)
    fake.of(SCALED)["metadata"]["annotations"]["autoscaling.keda.sh/paused"] = "true"
    answer = job.runs(NOON, *KEDA)
    assert "a paused object ignores the plan" in str(answer.exception) and triggers(fake) == ["load"]


def test_a_scaled_object_of_our_own_goes_with_its_last_trigger(fake: FakeCluster, job: Job) -> None:
    fake.put(next(yaml.safe_load_all(emit(office_plan(), "keda-cron", EmitOptions(now=MADE.timestamp())))))
    job.runs(NOON, *KEDA)
    job.runs(LATER, *KEDA)
    assert fake.names(SCALED) == []


def test_cron_jobs_of_last_week_are_pruned_and_go_with_the_plan(fake: FakeCluster, job: Job) -> None:
    fake.put(hpa())
    fake.put({"kind": "CronJob", "metadata": {"name": "backup", "labels": {}}, "spec": {}})
    job.runs(NOON, "--target", "cronjob")
    before = fake.names("CronJob")
    assert floor(fake) == 11 and "prewarm-llama-00" in before
    job.holds(plan(pool(WeekWindow(WORKDAYS, 480, 60, 5))))
    job.runs(NOON, "--target", "cronjob")
    assert fake.names("CronJob") == ["backup", "prewarm-llama-00", "prewarm-llama-01", "prewarm-llama-expiry"]
    assert floor(fake) == 2
    job.runs(LATER, "--target", "cronjob")
    assert fake.names("CronJob") == ["backup"] and fake.names("Role") == []


def week_plan(made: datetime, week: int, abstained: bool = False) -> PlanRow:
    """Another plan each week: one to three windows a day, so that each week leaves something to prune."""
    hours = ((7, 12, 8), (12, 18, 11), (19, 22, 6))[: 1 + week % 3]
    windows = [WeekWindow(WORKDAYS, 60 * a + 15 * (week % 4), 60 * (b - a) - 60, n) for a, b, n in hours]
    row = pool(*([] if abstained else windows), base=1)
    said = {"abstained": abstained, "reason": "no rhythm" if abstained else ""}
    told = msgspec.structs.replace(row.forecast, **said, first_step=made, last_step=made + timedelta(days=8))
    rows = [msgspec.structs.replace(row, forecast=told)]
    return stamped(PlanRow("inferdoc.prewarm/v1", "", made, made + timedelta(days=8), rows))


START = datetime(2026, 3, 2, tzinfo=UTC)  # a Monday; the clocks of Berlin change on March 29
NO_PLAN = {**dict.fromkeys(range(15, 26), "failing"), 43: "gone", 44: "vanished", 45: "future"}
ABSTAINING = range(31, 36)
BY_HAND = {23: 4, 28: 9, 38: 3, 50: 2}  # day: the user's new floor, set at 10:00
FAULTS = {
    1: "timeout",
    5: "late",
    9: "forbidden",
    17: "late",
    25: "timeout",
    36: "forbidden",
    43: "late",
    46: "timeout",
}


@pytest.mark.parametrize("target", ["hpa", "keda-cron", "cronjob"])
def test_eight_weeks_end_each_day_at_the_plan_or_at_the_users_base(fake: FakeCluster, job: Job, target: str) -> None:
    kind, name = (SCALED, "minReplicaCount") if target == "keda-cron" else (HPA, "minReplicas")
    fake.put(scaled_object() if target == "keda-cron" else hpa())
    base, newest = 2, None
    for day in range(56):
        midnight = START + timedelta(days=day)
        why = NO_PLAN.get(day)
        if why is None:
            newest = week_plan(midnight + timedelta(hours=3), day // 7, day in ABSTAINING)
            job.holds(newest)
        elif why == "gone":
            (job.folder / "plan.json").unlink()
        elif why == "vanished":
            job.holds(office_plan(name="mistral"))
        elif why == "future":
            job.holds(week_plan(midnight + timedelta(days=400), 1))
        for hour in range(4, 24):
            now = midnight + timedelta(hours=hour, minutes=10)
            if hour == 10 and day in BY_HAND:
                base = BY_HAND[day]
                fake.edit(kind, **{name: base})
            fake.faults = [FAULTS.get(day)] * 3 if hour < 22 else []
            answer = job.runs(now.isoformat(), "--target", target)
            assert answer.exception is None or isinstance(answer.exception, (InferdocError, SystemExit)), answer
        assert newest is not None
        followed = why in (None, "failing") and day not in ABSTAINING and now < newest.valid_until
        ends_at(fake, target, newest if followed else None, now, base)
    assert base == 2 and newest is not None


def ends_at(cluster: FakeCluster, target: str, made: PlanRow | None, now: datetime, base: int) -> None:
    """The day ends at the plan's floor, or at the user's base; and nothing else of ours lies about."""
    wanted = base if made is None else max(base, pool_plan(made.pools[0]).at(now.timestamp()))
    if target == "keda-cron":
        spec = cluster.of(SCALED)["spec"]
        span = reference_check.MinuteSpan(int(now.timestamp()) // 60, 8 * 1440)
        assert reference_check.keda_floor(span, spec)[0] == wanted, now
        assert len(triggers(cluster)) == 1 + (0 if made is None else len(made.pools[0].windows))
    else:
        assert floor(cluster) == wanted, now
    if target == "cronjob":
        count = 0 if made is None else len(changes(pool_plan(lifted(made.pools[0], base))))
        assert len(cluster.names("CronJob")) == count + (count > 0), now
    if made is None:
        assert not [key for key in marks(cluster, SCALED if target == "keda-cron" else HPA) if "inferdoc" in key]
