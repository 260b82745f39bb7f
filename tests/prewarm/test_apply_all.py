"""One run of `prewarm apply` for all pools: each on its own object, and none held back by another."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cluster import FakeCluster, hpa, scaled_object
from plans import WORKDAYS, office_plan, plan, pool

from inferdoc.cli.prewarm import command
from inferdoc.errors import ExitCode, InferdocError, SourceError
from inferdoc.prewarm.plan import PlanRow, to_json
from inferdoc.prewarm.week import WeekWindow

NOON, LATER = "2026-02-23T11:30:00Z", "2026-03-20T00:00:00Z"
NAMES = ("--name", "llama=llama-hpa", "--name", "mistral=mistral-so", "--target", "mistral=keda-cron")


@pytest.fixture
def fake(fake: FakeCluster) -> FakeCluster:
    for name in ("llama-hpa", "qwen"):
        obj = hpa(2)
        obj["metadata"]["name"] = name
        fake.put(obj)
    scaled = scaled_object(2)
    scaled["metadata"]["name"] = "mistral-so"
    fake.put(scaled)
    return fake


def fleet() -> PlanRow:
    small = pool(WeekWindow(WORKDAYS, 480, 600, 6), name="qwen")
    return plan(*office_plan().pools, *office_plan(name="mistral").pools, small)


def run(folder: Path, *words: str, now: str = NOON, made: PlanRow | None = None) -> Result:
    file = folder / "plan.json"
    if made is not None:
        file.write_text(to_json(made))
    return CliRunner().invoke(command, ["apply", "--plan", str(file), "--now", now, *words])


def floors(fake: FakeCluster) -> dict[str, int]:
    scaled = fake.of("ScaledObject", "mistral-so")["spec"]
    names = ("llama-hpa", "qwen")
    found = {name: int(fake.of("HorizontalPodAutoscaler", name)["spec"]["minReplicas"]) for name in names}
    return {**found, "mistral triggers": len(scaled["triggers"])}


def test_each_pool_is_settled_on_its_own_object(fake: FakeCluster, tmp_path: Path) -> None:
    answer = run(tmp_path, *NAMES, "--yes", made=fleet())
    assert answer.exit_code == 0, answer.exception
    assert floors(fake) == {"llama-hpa": 11, "qwen": 6, "mistral triggers": 4}
    assert "llama-hpa: floor 2 -> 11" in answer.stdout and "qwen: floor 2 -> 6" in answer.stdout
    before = fake.version
    assert run(tmp_path, *NAMES, "--yes").exit_code == 0 and fake.version == before


def test_a_pool_that_fails_holds_no_other_back_and_is_named(fake: FakeCluster, tmp_path: Path) -> None:
    del fake.objects["horizontalpodautoscalers", "llama-hpa"]
    answer = run(tmp_path, *NAMES, "--yes", made=fleet())
    assert isinstance(answer.exception, SourceError)
    assert str(answer.exception).startswith("1 of 3 pools do not follow the plan: llama: ")
    assert "NotFound" in str(answer.exception) and "\n" not in str(answer.exception)
    assert fake.of("HorizontalPodAutoscaler", "qwen")["spec"]["minReplicas"] == 6
    assert len(fake.of("ScaledObject", "mistral-so")["spec"]["triggers"]) == 4


def test_a_stale_plan_gives_all_their_bases_back_and_says_so_once(fake: FakeCluster, tmp_path: Path) -> None:
    run(tmp_path, *NAMES, "--yes", made=fleet())
    answer = run(tmp_path, *NAMES, "--yes", now=LATER)
    assert floors(fake) == {"llama-hpa": 2, "qwen": 2, "mistral triggers": 1}
    assert str(answer.exception).count("is stale; make a new one") == 1
    assert "3 of 3 pools do not follow the plan: llama, mistral, qwen: plan " in str(answer.exception)
    assert isinstance(answer.exception, InferdocError) and answer.exception.exit_code == ExitCode.USAGE


def test_pools_that_options_name_outlive_the_plan(fake: FakeCluster, tmp_path: Path) -> None:
    run(tmp_path, *NAMES, "--yes", made=fleet())
    run(tmp_path, *NAMES, "--yes", made=plan(fleet().pools[2]))
    assert floors(fake) == {"llama-hpa": 2, "qwen": 6, "mistral triggers": 1}
    run(tmp_path, *NAMES, "--yes", made=fleet())
    (tmp_path / "plan.json").unlink()
    answer = run(tmp_path, *NAMES, "--name", "qwen=qwen", "--yes")
    assert floors(fake) == {"llama-hpa": 2, "qwen": 2, "mistral triggers": 1}
    assert isinstance(answer.exception, SourceError)


def test_without_a_plan_and_without_names_there_is_nothing_to_go_by(fake: FakeCluster, tmp_path: Path) -> None:
    answer = run(tmp_path, "--yes")
    assert isinstance(answer.exception, SourceError) and fake.calls == []


def test_one_name_for_several_pools_is_refused(fake: FakeCluster, tmp_path: Path) -> None:
    answer = run(tmp_path, "--name", "llama-hpa", "--yes", made=fleet())
    assert "write --name POOL=NAME: llama, mistral, qwen" in str(answer.exception) and fake.calls == []


def test_a_dry_run_says_it_of_every_pool_and_sends_nothing(fake: FakeCluster, tmp_path: Path) -> None:
    answer = run(tmp_path, made=fleet())
    assert [line for line in answer.stdout.splitlines() if "dry run" in line] == [
        f"{name}: floor should be {n} now (dry run; --yes applies it)"
        for name, n in (("llama", 11), ("mistral", 11), ("qwen", 6))
    ]
    assert fake.calls == []


def test_metrics_hold_every_pool_and_one_that_failed_keeps_its_last_time(fake: FakeCluster, tmp_path: Path) -> None:
    place = tmp_path / "prewarm.prom"
    run(tmp_path, *NAMES, "--yes", "--metrics", str(place), made=fleet())
    line = 'inferdoc_prewarm_applied_timestamp_seconds{pool="qwen"} '
    first = next(text for text in place.read_text().splitlines() if text.startswith(line))
    assert place.read_text().count("inferdoc_prewarm_set_replicas{") == 3
    del fake.objects["horizontalpodautoscalers", "qwen"]
    run(tmp_path, *NAMES, "--yes", "--metrics", str(place), now="2026-02-23T11:40:00Z")
    text = place.read_text()
    assert first in text and text.count("inferdoc_prewarm_applied_timestamp_seconds{") == 3
    assert text.count(" 1771846800\n") == 2
