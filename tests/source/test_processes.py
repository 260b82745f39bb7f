"""Which label sets are one process, which processes share a name, and whose GPUs are whose."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.catalogue.names import load_identity
from inferdoc.source.base import InfoSeries
from inferdoc.source.identity import Naming, key_of
from inferdoc.source.joins import Joins, PodPlaces
from inferdoc.source.processes import in_step, match_processes

NAMING = Naming(load_identity())
T = 40
ENGINE = {"job": "vllm", "namespace": "llm", "engine": "0", "model_name": "m"}


def total(seed, late=0.0):
    """A total that grows unevenly; late: the share of a step by which it was scraped later."""
    steps = np.random.default_rng(seed).uniform(1, 100, T + 1)
    grown = 1e6 + np.cumsum(steps)
    return grown[:T] + late * steps[1:]


def engine(values, **labels):
    return InfoSeries({**ENGINE, **labels}, values)


def told(*series, gpus=(), started=None, naming=NAMING):
    begun = [InfoSeries(s.labels, np.full(T, started[i])) for i, s in enumerate(series)] if started else []
    return match_processes(naming, series, gpus, lambda: [list(series), begun], list(series))


def keys(found, *series):
    return [key_of(found.who[found.raw(s.labels)]) for s in series]


def test_a_total_is_in_step_with_itself_whenever_it_is_scraped():
    assert in_step(total(1), total(1, 0.5)) and in_step(total(1, 0.9), total(1))
    assert not in_step(total(1), total(1) + 300)
    assert in_step(total(1), np.full(T, np.nan)), "nothing speaks against it"


def test_a_lost_scrape_or_two_are_no_difference():
    other = total(1, 0.3)
    other[[10, 11]] = other[9]
    assert in_step(total(1), other)


@pytest.mark.parametrize("late", [-0.9, -0.3, 0.3, 0.9])
def test_scrapes_that_are_missing_are_no_difference(late):
    one, other = (total(1), total(1, late)) if late > 0 else (total(1, -late), total(1))
    chance = np.random.default_rng(0)
    for lost in (0.05, 0.2):
        gaps = [np.where(chance.random(T) < lost, np.nan, each) for each in (one, other, total(2))]
        assert in_step(gaps[0], gaps[1]) and in_step(gaps[1], gaps[0])
        assert not in_step(gaps[0], gaps[2])


@pytest.mark.parametrize("label", ["prometheus_replica", "job", "prom"])
def test_one_process_under_two_labels_is_one(label):
    a, b = (engine(total(1, late), pod="p0", instance="i0", **{label: v}) for late, v in ((0, "x"), (0.5, "y")))
    found = told(a, b)
    assert keys(found, a, b) == [("", "llm", "p0")] * 2
    assert len({found.who[found.raw(s.labels)] for s in (a, b)}) == 1
    (copies,) = found.copies
    assert copies.labels == (label,) and copies.values == ("x", "y") and copies.processes == 1 and not found.crowds


def test_two_processes_behind_one_pod_are_kept_apart_by_their_address():
    a, b = engine(total(1), pod="p", instance="i0"), engine(total(2), pod="p", instance="i1")
    found = told(a, b)
    assert keys(found, a, b) == [("", "llm", "i0"), ("", "llm", "i1")]
    assert [(c.name, c.processes, c.by) for c in found.crowds] == [("p", 2, "instance")] and not found.copies


def test_totals_in_step_are_two_processes_where_they_began_at_two_times():
    a, b = engine(total(1), pod="p", instance="i0"), engine(total(1), pod="p", instance="i1")
    assert len(told(a, b, started=(5.0, 9.0)).crowds) == 1
    assert len(told(a, b, started=(5.0, 5.0)).copies) == 1


def test_where_nothing_moves_the_address_decides():
    idle = np.zeros(T)
    a, b, c = (engine(idle, pod="p", instance=i, job=j) for i, j in (("i0", "x"), ("i1", "x"), ("i0", "y")))
    found = told(a, b, c)
    assert keys(found, a, b, c) == [("", "llm", "i0"), ("", "llm", "i1"), ("", "llm", "i0")]


def test_behind_one_address_any_label_keeps_them_apart():
    a, b = (engine(total(n), pod="p", instance="lb", ReplicaId=f"r{n}") for n in (1, 2))
    found = told(a, b)
    assert keys(found, a, b) == [("", "llm", "p ReplicaId=r1"), ("", "llm", "p ReplicaId=r2")]


def test_a_label_that_divides_many_names_alike_is_a_cluster():
    series = [
        engine(total(10 * p + c), pod=f"p{p}", instance=f"10.{c}.0.{p}:80", zone=f"z{c}")
        for p in (0, 1)
        for c in (0, 1)
    ]
    found = told(*series)
    assert keys(found, *series) == [(f"z{c}", "llm", f"p{p}") for p in (0, 1) for c in (0, 1)]
    assert all(crowd.is_cluster and crowd.by == "zone" for crowd in found.crowds)


def test_ports_of_one_pod_are_no_clusters():
    series = [
        engine(total(10 * p + c), pod=f"p{p}", instance=f"10.0.0.{p}:800{c}", endpoint=f"e{c}")
        for p in (0, 1)
        for c in (0, 1)
    ]
    found = told(*series)
    assert {crowd.by for crowd in found.crowds} == {"instance"}
    assert keys(found, *series)[0] == ("", "llm", "10.0.0.0:8000")


def test_a_restart_under_a_new_address_is_no_second_process():
    before, after = total(1), total(2)
    before[20:], after[:20] = np.nan, np.nan
    a, b = engine(before, pod="p", instance="i0"), engine(after, pod="p", instance="i1")
    found = told(a, b)
    assert keys(found, a, b) == [("", "llm", "p")] * 2 and not found.crowds and not found.copies


def test_ranks_of_a_pod_on_several_ports_stay_one_pod():
    a, b = (engine(total(n), pod="p", instance=f"i:{n}", engine=str(n)) for n in (0, 1))
    found = told(a, b)
    assert keys(found, a, b) == [("", "llm", "p")] * 2 and not found.crowds


def test_several_processes_in_one_series_are_seen():
    mixed = np.where(np.arange(T) % 2, total(1), total(2) + 5e5)
    crashing = np.concatenate([np.arange(10.0)] * 4)
    found = told(engine(mixed, pod="p", instance="i"), engine(crashing, pod="q", instance="j"))
    assert found.mixed == ["p"]


def test_the_label_that_names_most_pods_is_taken():
    series = [
        engine(total(n), pod="collector", kubernetes_pod_name=f"p{n}", kubernetes_namespace="n", instance="i")
        for n in range(3)
    ]
    assert keys(told(*series), *series) == [("", "n", f"p{n}") for n in range(3)]


def test_of_labels_that_name_as_many_that_which_gpus_know_is_taken():
    one = engine(total(1), pod="collector", kubernetes_pod_name="p0", kubernetes_namespace="n", instance="i")
    gpu = InfoSeries({"exported_pod": "p0", "exported_namespace": "n", "UUID": "u"}, np.ones(T))
    assert keys(told(one), one) == [("", "llm", "collector")]
    assert keys(told(one, gpus=[gpu]), one) == [("", "n", "p0")]


def test_the_users_label_is_taken_whatever_it_names():
    naming = Naming(load_identity(), {"pod": "app"})
    series = [engine(total(n), pod=f"p{n}", app="a", instance=f"i{n}") for n in (0, 1)]
    found = told(*series, naming=naming)
    assert {crowd.name for crowd in found.crowds} == {"a"}


# ---- joins ----------------------------------------------------------------------------------------------------------


def joined(engines, gpu, places=None):
    series = [engine(total(n), **labels) for n, labels in enumerate(engines)]
    joins = Joins(told(*series), places or PodPlaces(), [s.labels for s in series])
    joins.look_at_gpus([gpu])
    return joins, key_of(joins.who(gpu, gpu=True))


PLACES = PodPlaces({("llm", "p0"): "n0", ("llm", "p1"): "n1", ("llm", "p2"): "n1"})
THREE = [{"pod": f"p{n}", "instance": f"i{n}"} for n in range(3)]
OWN = {"job": "dcgm", "pod": "dcgm-x", "namespace": "gpu", "UUID": "u", "gpu": "0"}


def test_a_gpu_without_a_pod_is_that_of_the_only_engine_of_its_machine():
    joins, key = joined(THREE, {**OWN, "Hostname": "n0"}, PLACES)
    assert key == ("", "llm", "p0") and joins.hosts.alone == {"n0"}


def test_of_several_engines_none_gets_it():
    joins, key = joined(THREE, {**OWN, "Hostname": "n1"}, PLACES)
    assert key == ("", "gpu", "dcgm-x") and joins.hosts.crowded == {"n1": 2}


def test_a_machine_that_nobody_knows_is_said():
    joins, key = joined(THREE, {**OWN, "Hostname": "n9"}, PLACES)
    assert key == ("", "gpu", "dcgm-x") and joins.hosts.unknown == {"n9"}


def test_a_gpu_of_another_pod_is_not_given_to_the_engine_beside_it():
    gpu = {**OWN, "Hostname": "n0", "exported_pod": "trainer", "exported_namespace": "ml"}
    assert joined(THREE, gpu, PLACES)[1] == ("", "ml", "trainer")


def test_a_pod_of_the_same_name_in_another_namespace_is_another():
    gpu = {**OWN, "exported_pod": "p0", "exported_namespace": "other"}
    assert joined(THREE, gpu)[1] == ("", "other", "p0")


def test_a_cluster_that_one_side_does_not_name_is_taken_from_the_other():
    engines = [{"pod": "p0", "instance": "i0", "cluster": "eu"}]
    gpu = {**OWN, "exported_pod": "p0", "exported_namespace": "llm"}
    assert joined(engines, gpu)[1] == ("eu", "llm", "p0")
    two = [*engines, {"pod": "p0", "instance": "i1", "cluster": "us"}]
    assert joined(two, gpu)[1] == ("", "llm", "p0"), "of two clusters neither is guessed"
    assert joined(two, {**gpu, "k8s_cluster": "us"})[1] == ("us", "llm", "p0")


def test_machines_without_kubernetes_are_told_by_their_address():
    engines = [{"instance": f"gpu-{n}:8000", "namespace": ""} for n in (0, 1)]
    gpu = {"job": "dcgm", "instance": "gpu-1:9400", "Hostname": "gpu-1", "UUID": "u"}
    assert joined(engines, gpu)[1] == ("", "", "gpu-1:8000")


def half(values, first):
    """Seen in the first, or in the second half alone."""
    return np.where((np.arange(T) < T // 2) == first, values, np.nan)


def who_is(found, one):
    return Joins(found, PodPlaces(), []).who(one.labels, gpu=False)


BEFORE = {"pod": "chat-0", "instance": "10.0.0.1:8000"}


@pytest.mark.parametrize(
    "after",
    [
        {**BEFORE, "instance": "10.0.9.9:8000"},
        {**BEFORE, "job": "vllm-pods"},
        {**BEFORE, "node": "n2"},
        {**BEFORE, "cluster": "prod"},
        {**BEFORE, "cluster": "prod", "instance": "10.0.9.9:8000", "role": "decode"},
    ],
    ids=["address", "job", "node", "cluster", "all"],
)
def test_a_pod_under_other_labels_is_the_same_pod(after):
    old, new = engine(half(total(1), True), **BEFORE), engine(half(total(1), False), **after)
    found = told(old, new)
    assert who_is(found, old) == who_is(found, new)
    told_last = dict(zip(("cluster", "instance", "job"), (who_is(found, old)[i] for i in (0, 4, 5)), strict=True))
    assert told_last == {"cluster": "", "job": "vllm"} | {n: v for n, v in after.items() if n in told_last}
    role = {"role": "decode", "tier": ""} if "role" in after else {}
    assert found.described_now(who_is(found, old)) == role


@pytest.mark.parametrize("after", [{"instance": "10.0.0.1:9000"}, {"namespace": "other"}, {"pod": "chat-1"}])
def test_another_port_namespace_or_pod_is_another(after):
    old, new = engine(half(total(1), True), **BEFORE), engine(half(total(1), False), **{**BEFORE, **after})
    found = told(old, new)
    assert who_is(found, old) != who_is(found, new)


def test_pods_of_one_name_at_the_same_time_stay_two():
    """Of two clusters one tells its name."""
    here, there = engine(total(1), **BEFORE), engine(total(2), **BEFORE, cluster="prod")
    found = told(here, there)
    assert who_is(found, here) != who_is(found, there)


def test_a_target_that_never_answered_tells_new_labels_too():
    """The engine ends when its labels change: only `up` has the new ones."""
    old, up = engine(half(total(1), True), **BEFORE), {"job": "vllm", "namespace": "llm", **BEFORE, "cluster": "prod"}
    target = InfoSeries({**up, "role": "decode"}, half(np.zeros(T), False))
    found = match_processes(NAMING, [old], (), lambda: [[old], []], [old], [target])
    assert who_is(found, old) == who_is(found, target) and who_is(found, old)[0] == "prod"
    assert found.described_now(who_is(found, old))["role"] == "decode"
