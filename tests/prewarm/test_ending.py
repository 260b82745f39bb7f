"""What ends a plan in the cluster when nobody renews it: the job that `apply` installs beside KEDA's triggers, and
LLMInferenceServices, whose two parts hold the floors of two pools."""

from __future__ import annotations

import copy
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import Result
from cluster import FakeCluster, scaled_object
from plans import MADE, WORKDAYS, office_plan, plan, pool
from test_hold import ENDS, MONDAY, ask, emitted, pass_time

from inferdoc.errors import InferdocError, SourceError
from inferdoc.prewarm.check import check, compare
from inferdoc.prewarm.emit.base import EmitOptions
from inferdoc.prewarm.emit.registry import emit
from inferdoc.prewarm.plan import to_json
from inferdoc.prewarm.reference_check import MinuteSpan, keda_floor
from inferdoc.prewarm.week import WeekWindow

SCALED, SERVICE = "ScaledObject", "LLMInferenceService"
NOON = MONDAY + timedelta(hours=11)
JOB = "prewarm-llama-expiry"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "plan.json"
    place.write_text(to_json(office_plan()))
    return place


def applies(path: Path, now: datetime, *words: str, target: str = "keda-cron") -> Result:
    return ask(["apply", "--plan", str(path), "--pool", "llama", "--target", target, "--yes", *words], now)


def load(name: str = "load") -> dict[str, Any]:
    return {"type": "prometheus", "name": name, "metadata": {"query": "q", "threshold": "5"}}


def service(**scaling: Any) -> dict[str, Any]:
    """Decode and prefill, each scaled by itself."""
    own = {"minReplicas": 1, "maxReplicas": 20, "keda": {"triggers": [load()]}, **scaling}
    return {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": SERVICE,
        "metadata": {"name": "llama"},
        "spec": {"scaling": own, "prefill": {"scaling": copy.deepcopy({**own, "minReplicas": 3})}},
    }


def stanza(fake: FakeCluster, part: str) -> dict[str, Any]:
    spec = fake.of(SERVICE)["spec"]
    found: dict[str, Any] = spec["prefill"]["scaling"] if part == "prefill" else spec["scaling"]
    return found


def floor_of(fake: FakeCluster, part: str, at: datetime) -> int:
    scaling = stanza(fake, part)
    spec = {"minReplicaCount": scaling["minReplicas"], "triggers": scaling["keda"]["triggers"]}
    return int(keda_floor(MinuteSpan(int(at.timestamp()) // 60, 8 * 1440), spec)[0])


def ours(fake: FakeCluster, kind: str) -> list[str]:
    return [key for key in fake.of(kind)["metadata"].get("annotations", {}) if "inferdoc" in key]


def test_apply_installs_a_job_that_ends_the_plan_when_no_run_comes_any_more(fake: FakeCluster, path: Path) -> None:
    fake.put(scaled_object(1))
    assert f"CronJob {JOB} ends the plan where no run does" in applies(path, NOON).stdout
    assert fake.names("CronJob") == [JOB] and len(fake.of(SCALED)["spec"]["triggers"]) == 4
    pass_time(fake, ENDS - timedelta(hours=1), ENDS + timedelta(hours=1))
    spec = fake.of(SCALED)["spec"]
    assert [t["name"] for t in spec["triggers"]] == ["load"] and spec["minReplicaCount"] == 1
    assert ours(fake, SCALED) == [] and fake.names("CronJob") == []


def test_a_second_run_sends_nothing_and_a_changed_job_is_put_right(fake: FakeCluster, path: Path) -> None:
    fake.put(scaled_object(1))
    applies(path, NOON)
    before = fake.version
    applies(path, NOON + timedelta(minutes=5))
    assert fake.version == before and fake.sent("apply") == 1
    fake.of("CronJob", JOB)["spec"]["suspend"] = True
    applies(path, NOON + timedelta(minutes=10))
    assert fake.sent("apply") == 2 and "suspend" not in fake.of("CronJob", JOB)["spec"]
    applies(path, NOON + timedelta(minutes=15), "--image", "registry.local/inferdoc:2")
    assert "registry.local/inferdoc:2" in json.dumps(fake.of("CronJob", JOB))


def test_a_dry_run_says_that_the_job_would_be_installed_and_sends_nothing(fake: FakeCluster, path: Path) -> None:
    fake.put(scaled_object(1))
    words = ["apply", "--plan", str(path), "--pool", "llama", "--target", "keda-cron"]
    assert f"CronJob {JOB} ends the plan" in ask(words, NOON).stdout
    assert fake.names("CronJob") == [] and fake.sent("patch") == fake.sent("apply") == 0


def test_without_expiry_no_job_is_looked_for(fake: FakeCluster, path: Path) -> None:
    fake.put(scaled_object(1))
    assert applies(path, NOON, "--no-expiry").exit_code == 0
    assert fake.names("CronJob") == [] and not any("cronjobs" in words for words in fake.calls)


@pytest.mark.parametrize("fault", ["forbidden", "timeout"])
def test_a_job_that_cannot_be_installed_leaves_the_triggers_and_is_one_line(
    fake: FakeCluster, path: Path, fault: str
) -> None:
    fake.put(scaled_object(1))
    fake.faults = [None, fault]
    answer = applies(path, NOON)
    assert isinstance(answer.exception, SourceError) and "\n" not in str(answer.exception)
    assert str(answer.exception).startswith("the job that ends the plan is not in place: `kubectl apply --prune")
    assert str(answer.exception).endswith("--no-expiry goes without it")
    assert len(fake.of(SCALED)["spec"]["triggers"]) == 4
    applies(path, NOON)
    assert fake.names("CronJob") == [JOB]


@pytest.mark.parametrize("how", ["stale", "gone", "abstains", "paused"])
def test_the_job_goes_with_the_triggers(fake: FakeCluster, path: Path, how: str) -> None:
    fake.put(scaled_object(1))
    applies(path, NOON)
    now = NOON
    if how == "stale":
        now = ENDS + timedelta(days=1)
    elif how == "gone":
        path.unlink()
    elif how == "paused":
        fake.of(SCALED)["metadata"]["annotations"]["autoscaling.keda.sh/paused"] = "true"
    else:
        told = msgspec.structs.replace(office_plan().pools[0].forecast, abstained=True, reason="no rhythm")
        path.write_text(to_json(plan(pool(forecast=told))))
    applies(path, now)
    assert len(fake.of(SCALED)["spec"]["triggers"]) == 1
    assert [fake.names(kind) for kind in ("CronJob", "Role", "RoleBinding", "ServiceAccount")] == [[]] * 4


def test_a_scaled_object_without_a_trigger_of_the_users_is_one_line(fake: FakeCluster, path: Path) -> None:
    fake.put(scaled_object(1))
    applies(path, NOON)
    spec = fake.of(SCALED)["spec"]
    spec["triggers"] = [t for t in spec["triggers"] if t["name"] != "load"]
    answer = applies(path, ENDS + timedelta(days=1))
    assert "has no trigger but ours, and KEDA takes none without: give it one" in str(answer.exception)


def test_an_edit_between_look_and_patch_of_triggers_is_not_overwritten(fake: FakeCluster, path: Path) -> None:
    fake.put(scaled_object(1))
    fake.faults = [lambda: fake.edit(SCALED, minReplicaCount=6)]
    assert applies(path, NOON).exit_code == 0
    assert fake.of(SCALED)["spec"]["minReplicaCount"] == 6


@pytest.mark.parametrize("part", ["decode", "prefill"])
def test_triggers_of_an_llm_service_end_with_their_plan(fake: FakeCluster, part: str) -> None:
    text = emit(office_plan(role=part), "kserve", EmitOptions(now=MADE.timestamp(), existing=service()))
    for obj in yaml.safe_load_all(text):
        fake.put(obj)
    pass_time(fake, MONDAY, NOON)
    assert floor_of(fake, part, NOON) == 11
    pass_time(fake, ENDS - timedelta(hours=1), ENDS + timedelta(hours=1))
    assert fake.of(SERVICE)["spec"] == service()["spec"] and ours(fake, SERVICE) == []
    assert fake.names("CronJob") == []


def test_both_parts_of_a_service_hold_a_plan_and_each_ends_for_itself(fake: FakeCluster, tmp_path: Path) -> None:
    """The same windows and levels in both, so that neither can be told from the other by its triggers."""
    fake.put(service())
    places = {}
    for part, word in (("decode", "llm-service-keda"), ("prefill", "llm-service-prefill-keda")):
        windows = [WeekWindow(WORKDAYS, 450, 630, 9)]
        places[part] = (tmp_path / f"{part}.json", word)
        places[part][0].write_text(to_json(plan(pool(*windows, name=f"llama-{part}", role=part))))

    def runs(part: str, now: datetime) -> Result:
        file, word = places[part]
        words = ["apply", "--plan", str(file), "--pool", f"llama-{part}", "--target", word, "--name", "llama", "--yes"]
        return ask(words, now)

    for _ in range(2):
        for part in places:
            assert runs(part, NOON).exit_code == 0
            assert floor_of(fake, part, NOON) == 9
    assert fake.sent("patch") == 2 and len(fake.names("CronJob")) == 2
    places["decode"][0].unlink()
    runs("decode", NOON)
    assert floor_of(fake, "decode", NOON) == 1 and floor_of(fake, "prefill", NOON) == 9
    stanza(fake, "prefill")["minReplicas"] = 5
    assert "set by hand from 3 to 5" in runs("prefill", NOON).stdout
    pass_time(fake, ENDS - timedelta(hours=1), ENDS + timedelta(hours=1))
    assert floor_of(fake, "prefill", ENDS) == 5 and ours(fake, SERVICE) == [] and fake.names("CronJob") == []


def test_emitting_one_part_after_the_other_takes_no_trigger_for_taken_out_by_hand() -> None:
    obj = service()
    for part in ("prefill", "decode"):
        text = emit(office_plan(role=part), "kserve", EmitOptions(now=MADE.timestamp(), existing=obj))
        obj = next(yaml.safe_load_all(text))
    assert len(obj["spec"]["scaling"]["keda"]["triggers"]) == 4
    assert len(obj["spec"]["prefill"]["scaling"]["keda"]["triggers"]) == 4
    for part in ("prefill", "decode"):
        options = EmitOptions(now=MADE.timestamp(), existing=obj)
        assert [v for v in check(office_plan(role=part), None, "kserve", ("UTC",), options) if not v.ok] == []


def test_both_parts_under_wva_hold_a_floor_each(fake: FakeCluster, tmp_path: Path) -> None:
    made = service()
    for scaling in (made["spec"]["scaling"], made["spec"]["prefill"]["scaling"]):
        del scaling["keda"]
        scaling["wva"] = {"variantCost": "1"}
    fake.put(made)
    for part, word in (("decode", "llm-service"), ("prefill", "llm-service-prefill")):
        file = tmp_path / f"{part}.json"
        file.write_text(to_json(office_plan(name=f"llama-{part}", role=part)))
        words = ["apply", "--plan", str(file), "--pool", f"llama-{part}", "--target", word, "--name", "llama", "--yes"]
        answer = ask(words, NOON)
        assert answer.exit_code == 0, answer.exception
        assert stanza(fake, part)["minReplicas"] == 11
    for part, word in (("decode", "llm-service"), ("prefill", "llm-service-prefill")):
        answer = ask(["release", "--pool", f"llama-{part}", "--target", word, "--name", "llama", "--yes"], NOON)
        assert answer.exit_code == 0, answer.exception
    assert (stanza(fake, "decode")["minReplicas"], stanza(fake, "prefill")["minReplicas"]) == (1, 3)
    assert ours(fake, SERVICE) == []


@pytest.mark.parametrize(
    ("scaling", "said"),
    [
        ({"maxReplicas": 4}, "maxReplicas 4, the plan wants 11"),
        ({"keda": None, "wva": {"variantCost": "1"}}, "is scaled by WVA, not by KEDA: use --target llm-service"),
        ({"keda": None}, "holds neither keda nor wva"),
        ({"keda": {"triggers": []}}, "has no triggers at all; a floor needs an autoscaler"),
    ],
)
def test_a_service_that_cannot_hold_the_plan_is_one_line(
    fake: FakeCluster, path: Path, scaling: dict[str, Any], said: str
) -> None:
    fake.put(service(**scaling))
    answer = applies(path, NOON, target="llm-service-keda")
    assert isinstance(answer.exception, InferdocError) and said in str(answer.exception)
    assert fake.sent("patch") == 0 and fake.names("CronJob") == []


def test_a_job_of_a_service_that_would_not_end_it_is_caught() -> None:
    made, options = office_plan(), EmitOptions(now=MADE.timestamp(), existing=service())
    text = emit(made, "kserve", options)
    assert compare(made, text, "kserve", "Europe/Berlin", options).ok
    for old, new, said in [
        ("--target=llm-service-keda", "--target=keda-cron", "lacks --target=llm-service-keda"),
        ("  - get\n  - patch\n", "  - get\n", "does not let it get and patch LLMInferenceService llama"),
    ]:
        assert old in text, old
        assert said in compare(made, text.replace(old, new), "kserve", "Europe/Berlin", options).first


def test_release_without_a_job_of_its_own_leaves_jobs_alone(fake: FakeCluster, path: Path) -> None:
    emitted(fake, "keda-cron", existing=scaled_object(1))
    answer = ask(["release", "--target", "keda-cron", "--pool", "llama", "--yes"], NOON)
    assert answer.exit_code == 0 and fake.names("CronJob") == [JOB]


def test_a_floor_on_an_hpa_has_a_job_that_ends_it_too(fake: FakeCluster, path: Path) -> None:
    fake.put(
        {
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "llama"},
            "spec": {"minReplicas": 2, "maxReplicas": 20},
        }
    )
    assert f"CronJob {JOB} ends the plan" in applies(path, NOON, target="hpa").stdout
    assert fake.names("CronJob") == [JOB] and fake.of("HorizontalPodAutoscaler")["spec"]["minReplicas"] > 2
    pass_time(fake, ENDS - timedelta(hours=1), ENDS + timedelta(hours=1))
    assert fake.of("HorizontalPodAutoscaler")["spec"]["minReplicas"] == 2
    assert ours(fake, "HorizontalPodAutoscaler") == [] and fake.names("CronJob") == []


def test_the_job_of_a_floor_leaves_other_jobs_of_the_pool_alone(fake: FakeCluster, path: Path) -> None:
    fake.put(
        {
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "llama"},
            "spec": {"minReplicas": 2, "maxReplicas": 20},
        }
    )
    labels = {"app.kubernetes.io/managed-by": "inferdoc", "inferdoc.io/part": "prewarm", "inferdoc.io/pool": "llama"}
    fake.put({"kind": "CronJob", "metadata": {"name": "prewarm-llama-plan", "labels": labels}, "spec": {}})
    applies(path, NOON, target="hpa")
    assert fake.names("CronJob") == [JOB, "prewarm-llama-plan"]
    path.unlink()
    applies(path, NOON, target="hpa")
    assert fake.names("CronJob") == ["prewarm-llama-plan"]
