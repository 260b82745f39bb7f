"""What surrounds a fleet: drawn by seed, applied to pages, and never to what the engines did."""

from __future__ import annotations

import dataclasses
import io
import re

import msgspec
import numpy as np
import pytest

from inferdoc.simulate.output import write_openmetrics
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scenario_files import load_scenario, read_scenario
from inferdoc.simulate.scrape import Scraped, at_version, router_at_version, scrape_all
from inferdoc.simulate.surroundings import Bystander, Surroundings
from inferdoc.simulate.workload import CONVERSATION, Traffic
from inferdoc_dev.incidents import CAUSES, CONTROLS
from inferdoc_dev.incidents.generator import randomised
from inferdoc_dev.incidents.randomisation import RANDOMISATION, Chance, Choice, Randomisation, Range
from inferdoc_dev.incidents.randomise import delayed, surrounded
from inferdoc_dev.incidents.recording import Recording, record
from inferdoc_dev.incidents.relabel import DASHBOARD, family

SMALL = """
id: small
title: small
expect: {cause: engine-down, pods: [vllm-1], onset: 200s}
pools: [{name: vllm, pods: 3, model: llama-3.1-8b}]
traffic: [{rate: 3, prompt: {median: 300, sigma: 0.3}, output: {median: 60, sigma: 0.3}}]
faults: %s
exporters: {kube: true, kube_lineage: true, cadvisor: false}
duration: 300s
scrape: 10s
"""
ROLLOUT = "[{kind: rollout, at: 60s, after: 20s, seconds: 60s, surge: 0.34, early: true}]"
POD_NAME = re.compile(r"^chat-[bcdfghjklmnpqrstvwxz2456789]{10}-[bcdfghjklmnpqrstvwxz2456789]{5}$")
DEPLOYED = Surroundings(seed=5, naming="deployment", base="chat")
QUICK: Randomisation = dataclasses.replace(
    RANDOMISATION,
    interval=Choice((15,), (1,), "quick"),
    lead=Range(0.0, 1.0, "s", "quick"),
    hours=Range(0.01, 0.02, "h", "quick"),
)


def small(faults: str = "[]", surroundings: Surroundings | None = None) -> Scenario:
    return msgspec.structs.replace(read_scenario(SMALL % faults, "small"), surroundings=surroundings)


def text(recording: Recording) -> str:
    out = io.StringIO()
    write_openmetrics(recording.targets, out)
    return out.getvalue()


def engines(targets: list[Scraped]) -> list[Scraped]:
    return [t for t in targets if any(name.startswith("vllm:") for _, p in t.pages for name in names_of(p))]


def names_of(page: object) -> list[str]:
    return [series.name for series in page.layout.series]  # type: ignore[attr-defined]


def series(target: Scraped, name: str) -> list[float]:
    """The sum of a series over its labels, page by page; pages without it are left out."""
    values = []
    for _, page in target.pages:
        places = [i for i, one in enumerate(page.layout.series) if one.name == name]
        if places:
            values.append(float(page.values[places].sum()))
    return values


@pytest.fixture(scope="module")
def rolled() -> Recording:
    return record(small(ROLLOUT, DEPLOYED))


# ---- draws ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cause", ["engine-hung", "config-regression", "kv-preemption-thrash"])
def test_the_same_seed_draws_the_same_surroundings(cause):
    assert randomised(cause, 11, CAUSES) == randomised(cause, 11, CAUSES)
    assert randomised(cause, 11, CAUSES) != randomised(cause, 12, CAUSES)


def test_the_same_seed_gives_the_same_pages():
    first, again = (record(surrounded(small(), np.random.default_rng(3), QUICK)) for _ in range(2))
    assert text(first) == text(again)
    other = record(surrounded(small(), np.random.default_rng(4), QUICK))
    assert text(other) != text(first)


def test_every_range_is_drawn_from():
    """Over many seeds each field of the surroundings takes more than one value."""
    drawn = [randomised("slow-gpu", seed, CAUSES) for seed in range(120)]
    for name in ("layout", "naming", "base", "roles_named", "exported", "job", "allow", "withheld", "relabelled"):
        assert len({getattr(s.surroundings, name) for s in drawn}) > 1, name
    assert {s.scrape for s in drawn} == set(RANDOMISATION.interval.values)
    assert {s.pools[0].version for s in drawn} == set(RANDOMISATION.release.values)
    assert {len(s.surroundings.bystanders) for s in drawn} == {0, 1, 2}
    for one in drawn:  # another tier of the same model would be no other model
        models = [*{pool.model for pool in one.pools}, *(each.model for each in one.surroundings.bystanders)]
        assert len(set(models)) == len(models)
    assert {s.exporters.dcgm for s in drawn} == {s.exporters.router for s in drawn} == {True, False}
    happened = {what for s in drawn for what in s.surroundings.happened}
    assert happened >= {"rollout as trigger", "rollout", "grow", "relabelled", "conversations", "bursts"}


def test_every_declared_range_prints_why():
    rows = list(RANDOMISATION.rows())
    assert len(rows) == len(dataclasses.fields(RANDOMISATION)) and all(range_ and why for _, range_, why in rows)


@pytest.mark.parametrize("cause", sorted(CAUSES))
def test_every_cause_can_be_drawn_in_surroundings(cause):
    for seed in (1, 2):
        scenario = randomised(cause, seed, CAUSES)
        onset, drawn = scenario.expect.onset, scenario.surroundings
        assert drawn is not None and onset is not None
        assert 0 <= drawn.window < onset < onset + drawn.late < scenario.duration
        assert scenario.duration - onset >= 17.9 * scenario.scrape
        assert drawn.old is None or onset + drawn.old < scenario.duration


def test_a_window_may_be_half_a_day():
    hours = dataclasses.replace(RANDOMISATION, long=Chance(1.0, "always"), hours=Range(5.0, 6.0, "h", "long"))
    quiet = delayed(small("[{kind: kill, at: 200s, pods: [vllm-1]}]"), 0.0)
    quiet = msgspec.structs.replace(quiet, traffic=(msgspec.structs.replace(quiet.traffic[0], rate=0.3),))
    drawn = surrounded(quiet, np.random.default_rng(1), hours)
    assert drawn.surroundings is not None and drawn.surroundings.window == 0.0
    assert 5 * 3600 <= drawn.duration <= 6.5 * 3600


@pytest.mark.parametrize("kind", sorted(CONTROLS))
def test_controls_stay_controls(kind):
    scenario = randomised(kind, 3, CONTROLS, control=True)
    assert scenario.expect.cause is None and scenario.expect.onset is None


def test_a_delay_moves_what_happens_and_leaves_what_was_always_so():
    scenario = small("[{kind: xid, at: 0, xid: 13}, {kind: kill, at: 200s, until: 250s, pods: [vllm-1]}]")
    moved = delayed(scenario, 100.0, 50.0)
    assert [f.at for f in moved.faults] == [0.0, 300.0] and moved.faults[1].until == 350.0
    assert moved.expect.onset == 300.0 and moved.duration == 450.0


# ---- rollouts ---------------------------------------------------------------------------------------------------


def test_a_rollout_renames_every_pod(rolled):
    names = [life.shown[0] for life in rolled.lives]
    assert len(set(names)) == len(names) == 6 and all(POD_NAME.match(name) for name in names)
    sets = {name.rsplit("-", 1)[0] for name in names}
    assert len(sets) == 2, "one replica set before, one after"
    after = rolled.slots(("vllm-1",), 1_795_000_290.0)
    assert [life.slot for life in after] == ["vllm-1"] and after[0].bare != "vllm-1"


@pytest.mark.parametrize("kind", ["drop-series, families: ['vllm:kv_cache_usage_perc']", "duplicate-target"])
def test_a_fault_of_the_scrapes_affects_the_pod_that_took_the_place(kind):
    recording = record(small(f"{ROLLOUT[:-1]}, {{kind: {kind}, at: 200s, pods: [vllm-1]}}]", DEPLOYED))
    heir, *_ = recording.slots(("vllm-1",), 1_795_000_290.0)
    targets = [t for t in recording.targets if t.labels.get("pod") == heir.shown[0] and t in engines([t])]
    if kind == "duplicate-target":
        assert len(targets) == 2 and len(engines(recording.targets)) == 7
    else:
        (target,) = targets
        assert 0 < len(series(target, "vllm:kv_cache_usage_perc")) < len(series(target, "vllm:num_requests_running"))


def test_counters_never_fall_within_a_name_and_start_anew_in_a_new_one(rolled):
    for target in engines(rolled.targets):
        for name in (
            "vllm:generation_tokens_total",
            "vllm:prompt_tokens_total",
            "vllm:e2e_request_latency_seconds_count",
        ):
            values = series(target, name)
            assert values == sorted(values), (target.labels["pod"], name)
    born = {life.shown[0]: life.born for life in rolled.lives}
    started = min(born.values())
    for target in engines(rolled.targets):
        tokens = series(target, "vllm:generation_tokens_total")
        late = born[target.labels["pod"]] > started + 30
        assert not late or tokens[0] < 0.1 * max(tokens[-1], 1.0), "a new name begins at zero"


def test_no_request_is_lost_or_counted_twice_over_a_rollout():
    fleet = scrape_all(small(ROLLOUT, DEPLOYED)).fleet
    sent = sum(one.requests for one in fleet.router.stats.classes.values())
    running = sum(one.running for one in fleet.router.stats.classes.values())
    errors = sum(sum(one.errors.values()) for one in fleet.router.stats.classes.values())
    done = sum(sum(pod.engine.stats.success.values()) for pod in fleet.pods)
    assert errors == 0, "old pods are drained before they end"
    assert sent == done + running and done > 600
    for pod in fleet.pods:
        pod.engine.pool.check()


def test_new_pods_are_down_before_they_were_ever_up_where_loading_pods_are_scraped(rolled):
    first = [series(target, "up")[0] for target in rolled.targets if "chat-" in target.labels.get("pod", "")]
    assert first.count(0.0) == 3


def test_faults_follow_a_pod_into_its_successor():
    faults = ROLLOUT[:-1] + ", {kind: hang, at: 200s, pods: [vllm-1]}]"
    fleet = scrape_all(small(faults)).fleet
    assert [pod.name for pod in fleet.pods if pod.engine.hung] == [fleet.pod("vllm-1").name]
    assert fleet.pod("vllm-1").name != "vllm-1"


def test_a_rollout_can_change_settings_and_release():
    faults = '[{kind: rollout, at: 60s, after: 20s, surge: 1.0, flags: {max_seqs: 4}, version: "0.15"}]'
    fleet = scrape_all(small(faults)).fleet
    kept = [pod for pod in fleet.pods if not pod.replaced]
    assert {(pod.spec.flags.max_seqs, pod.spec.version) for pod in kept} == {(4, "0.15")}


def test_kube_state_metrics_report_the_lineage(rolled):
    page = next(t for t in rolled.targets if t.labels["job"] == "kube-state-metrics").pages[-1][1]
    owner = {
        dict(s.labels)["pod"]: dict(s.labels)["owner_name"] for s in page.layout.series if s.name == "kube_pod_owner"
    }
    sets = {
        dict(s.labels)["replicaset"]: dict(s.labels) for s in page.layout.series if s.name == "kube_replicaset_owner"
    }
    assert owner and all(pod.startswith(owner[pod] + "-") and owner[pod] in sets for pod in owner)
    assert {one["owner_name"] for one in sets.values()} == {"chat"}
    created = {
        dict(s.labels)["pod"]: v
        for s, v in zip(page.layout.series, page.values, strict=True)
        if s.name == "kube_pod_created"
    }
    assert all(
        life.born - 25 <= created[life.shown[0]] <= life.born + 1 for life in rolled.lives if life.shown[0] in created
    )


def test_a_device_stays_on_its_page_when_its_pod_is_gone(rolled):
    pages = [p for t in rolled.targets if t.labels["job"] == "dcgm-exporter" for p in (t.pages[0][1], t.pages[-1][1])]
    first, last = (
        {dict(s.labels)["UUID"] for s in p.layout.series if s.name == "DCGM_FI_DEV_GPU_UTIL"} for p in pages[:2]
    )
    assert first <= last


# ---- what is scraped --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "has", "lacks"),
    [
        ("pod", {"namespace", "pod"}, {"kubernetes_pod_name", "endpoint"}),
        ("podmonitor", {"namespace", "pod", "container", "endpoint"}, {"kubernetes_pod_name"}),
        ("annotations", {"kubernetes_namespace", "kubernetes_pod_name"}, {"pod", "namespace"}),
        ("instance", {"job", "instance"}, {"pod", "namespace", "kubernetes_pod_name"}),
    ],
)
def test_label_layouts(layout, has, lacks):
    scenario = msgspec.structs.replace(small(surroundings=Surroundings(layout=layout)), duration=30.0)
    recording = record(scenario)
    for target in engines(recording.targets):
        assert has <= target.labels.keys() and not lacks & target.labels.keys()
    assert all(
        set(life.shown) & set(t.labels.values())
        for life, t in zip(recording.lives, engines(recording.targets), strict=True)
    )


def test_exporters_that_do_not_honour_labels_put_the_workload_aside():
    scenario = msgspec.structs.replace(small(surroundings=Surroundings(exported=True)), duration=30.0)
    lines = text(record(scenario)).splitlines()
    util = next(line for line in lines if line.startswith("DCGM_FI_DEV_GPU_UTIL{"))
    assert 'exported_pod="vllm-' in util and 'pod="dcgm-exporter-' in util


@pytest.mark.parametrize("allow", ["prefix", "dashboard"])
def test_allow_lists_keep_what_prometheus_adds_itself(allow):
    drawn = Surroundings(allow=allow, withheld=("vllm:num_requests_running",))
    recording = record(msgspec.structs.replace(small(surroundings=drawn), duration=30.0))
    for target in engines(recording.targets):
        names = set(names_of(target.pages[-1][1]))
        assert {"up", "vllm:num_requests_waiting"} <= names and "vllm:num_requests_running" not in names
        assert not {n for n in names if n.startswith(("process_", "http_"))}
        extra = {family(n) for n in names if n.startswith("vllm:")} - DASHBOARD
        assert bool(extra) == (allow == "prefix")


def test_lost_late_and_refused_scrapes_leave_the_engines_alone():
    noisy = Surroundings(seed=3, jitter=1.0, lost=0.05, refused=20.0)
    bare, recording = record(small()), record(small(surroundings=noisy))
    pages = [len(t.pages) for t in engines(recording.targets)]
    assert sum(pages) < sum(len(t.pages) for t in engines(bare.targets))
    assert any(0.0 in series(t, "up") for t in engines(recording.targets))
    steps = {
        round((b - a) / 1000, 1)
        for t in engines(recording.targets)
        for (a, _), (b, _) in zip(t.pages, t.pages[1:], strict=False)
    }
    assert len(steps) > 5 and min(steps) > 0
    ends = [max(series(t, "vllm:generation_tokens_total")[-1] for t in engines(r.targets)) for r in (bare, recording)]
    assert ends[0] == pytest.approx(ends[1], rel=0.1)


def test_a_relabelling_rule_changes_labels_and_no_counter():
    recording = record(small(surroundings=Surroundings(relabelled=150.0)))
    before = [t for t in engines(recording.targets) if "team" not in t.labels]
    after = [t for t in engines(recording.targets) if "team" in t.labels]
    assert len(before) == len(after) == 3
    for old, new in zip(before, after, strict=True):
        assert old.labels["pod"] == new.labels["pod"] and old.pages[-1][0] < new.pages[0][0]
        assert series(old, "vllm:prompt_tokens_total")[-1] <= series(new, "vllm:prompt_tokens_total")[0]


def test_bystanders_share_the_namespace_and_nothing_else():
    side = Bystander("h100-80", "llama-3.1-8b", 1, 2, 0.2, True, "rollout", 100.0)
    recording = record(small(surroundings=msgspec.structs.replace(DEPLOYED, bystanders=(side,))))
    own = {n for life in recording.lives if not life.bystander for n in life.shown}
    others = {n for life in recording.lives if life.bystander for n in life.shown}
    assert len([life for life in recording.lives if life.bystander]) == 4 and not own & others
    targets = {(t.labels["job"], t.labels["instance"]) for t in recording.targets}
    assert len(targets) == len(recording.targets)
    assert not recording.slots(("side1-0",), 0.0)


def test_pods_that_were_there_before_are_as_old_as_drawn():
    recording = record(msgspec.structs.replace(small(surroundings=Surroundings(age=7200.0)), duration=30.0))
    starts = series(engines(recording.targets)[0], "process_start_time_seconds")
    assert starts[0] == pytest.approx(1_795_000_000 - 60 - 7200, abs=1)


# ---- clients ----------------------------------------------------------------------------------------------------


def test_a_conversation_grows_and_finds_earlier_messages():
    stream = read_scenario(SMALL.replace("rate: 3", "rate: 3, turns: 4, think: 5s") % "[]", "s").traffic[0]
    traffic = Traffic(0, stream, np.random.default_rng(1))
    first = traffic.draft(1)
    first.turns_left = 1
    wait, second = traffic.next_turn(first, 2)
    assert wait > 0 and second.group == first.group >= CONVERSATION
    assert second.prompt > first.prompt + first.output == second.expected
    second.turns_left = 0
    assert traffic.next_turn(second, 3) is None


def test_conversations_hit_the_prefix_cache_and_keep_the_rate():
    alone = scrape_all(small()).fleet
    talking = read_scenario(SMALL.replace("rate: 3", "rate: 3, turns: 4, think: 5s") % "[]", "s")
    talking = msgspec.structs.replace(
        talking, warmup=200.0, router=msgspec.structs.replace(talking.router, policy="prefix")
    )
    fleet = scrape_all(talking).fleet
    share = [
        sum(p.engine.stats.prefix_hits for p in f.pods) / sum(p.engine.stats.prefix_queries for p in f.pods)
        for f in (alone, fleet)
    ]
    assert share[0] < 0.05 and share[1] > 0.4
    rates = [
        sum(c.requests for c in f.router.stats.classes.values()) / (f.now + f.scenario.warmup) for f in (alone, fleet)
    ]
    assert rates[1] == pytest.approx(rates[0], rel=0.25)


def test_conversations_were_under_way_before_the_first_scrape():
    plain = read_scenario(SMALL.replace("duration: 300s", "duration: 60s") % "[]", "s")
    talking = read_scenario(SMALL.replace("rate: 3", "rate: 3, turns: 4, think: 5s") % "[]", "s")
    talking = msgspec.structs.replace(talking, warmup=300.0, duration=60.0)

    def prompt_tokens(scenario: Scenario) -> tuple[float, float]:
        """Before the first scrape, and after it, of a pod."""
        pages = next(t for t in scrape_all(scenario).targets if t.labels["pod"] == "vllm-0").pages
        shown = [{s.name: s.value for s in page.samples()} for _, page in (pages[0], pages[-1])]
        first, last = (each["vllm:prompt_tokens_total"] for each in shown)
        return first, last - first

    before, after = prompt_tokens(talking)
    assert before / 300.0 == pytest.approx(after / 60.0, rel=0.5)
    assert before > 10 * prompt_tokens(plain)[0]


# ---- releases ---------------------------------------------------------------------------------------------------


def test_older_releases_have_older_names():
    scraper = scrape_all(small())
    pages = {t.scraped.labels["job"]: list(t.items(300.0)) for t in scraper.every_target()}
    engine = {item.name for item in at_version(pages["vllm"], "0.8")}
    assert "vllm:gpu_cache_usage_perc" in engine and "vllm:kv_cache_usage_perc" not in engine
    assert "vllm:time_per_output_token_seconds" in engine and "vllm:inter_token_latency_seconds" not in engine
    router = {
        v: {item.name for item in router_at_version(pages["llm-d-epp"], v)} for v in ("0.11", "0.10", "0.8", "0.3")
    }
    new, middle, old = "llm_d_epp_request_total", "inference_objective_request_total", "inference_model_request_total"
    assert [[name in router[v] for name in (new, middle, old)] for v in router] == [
        [True, False, False],
        [True, True, False],
        [False, True, False],
        [False, False, True],
    ]


def test_scenarios_of_the_package_have_no_surroundings():
    assert load_scenario("engine-hung").surroundings is None
