"""Series under the usual names, read from a store: what is stored twice counts once."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.source.open import open_source
from inferdoc.source.reads import Grid, Read
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store

START, STEPS = 1_700_000_000, 60
TOKENS = "vllm:generation_tokens"
BY = ("cluster", "namespace", "node", "pod", "instance", "job", "engine")
GRID = Grid(1000 * START + 300_001, 15_000, 40, 15_000, 75_000, 37_500)
RATE = Read(f"{TOKENS}_total", "rate", BY)


def labels_of(own):
    return ",".join(f'{name}="{value}"' for name, value in own.items())


def stored(folder, targets, also=(), labels=None):
    """A source over targets: (labels, tokens/s, first step, last step, seconds late), and lines about `up`."""
    lines = [f"# TYPE {TOKENS} counter"]
    for own, rate, first, last, late in targets:
        lines += [
            f'{TOKENS}_total{{{labels_of(own)},engine="0",model_name="m"}} {begin_of(own) + rate * (15 * i + late)} '
            f"{START + 15 * i + late}"
            for i in range(first, last)
        ]
    lines.append("# TYPE up gauge")
    for own, _, first, last, late in targets:
        lines += [f"up{{{labels_of(own)}}} 1 {START + 15 * i + late}" for i in range(first, last)]
    (folder / "a.om").write_text("\n".join([*lines, *also, "# EOF\n"]))
    with Store.open(folder / "a.db", "w") as store:
        import_file(store, folder / "a.om")
    source = open_source(store=folder / "a.db", labels=labels)
    source.expect({RATE.name, "up"})
    source.identify(1000 * START, 1000 * (START + 15 * STEPS))
    return source


def begin_of(own):
    """Where the total of a process begins, by its address."""
    return 1e6 * sum(map(ord, own["instance"]))


def target(pod, **more):
    return {"job": "vllm", "instance": f"{pod}:8000", "namespace": "llm", "pod": pod, **more}


def rates(source):
    result = source.evaluate([RATE], GRID)[RATE]
    assert result.by == BY and result.keys == sorted(result.keys)
    return {key[3] or key[4]: row for key, row in zip(result.keys, result.values, strict=True)}


def test_two_servers_of_a_pair_count_once(tmp_path):
    pair = [(target("a", replica=r), 10.0, 0, STEPS, late) for r, late in (("r0", 0), ("r1", 6))]
    source = stored(tmp_path, pair)
    (row,) = rates(source).values()
    np.testing.assert_allclose(row, 10.0)
    (one,) = source.scrapes(1000 * START, 1000 * (START + 15 * STEPS))
    assert "replica" not in one.labels and one.again == ()
    assert set(np.diff(one.times_ms)) == {15_000}, "not twice as often"


def test_ranks_of_one_page_are_added_up_and_no_copies(tmp_path):
    own = labels_of(target("a") | {"model_name": "m"})
    running = [
        f'sglang:num_running_reqs{{{own},dp_rank="{rank}"}} {rank + 1} {START + 15 * i}'
        for rank in range(4)
        for i in range(STEPS)
    ]
    (tmp_path / "a.om").write_text("\n".join(["# TYPE sglang:num_running_reqs gauge", *running, "# EOF\n"]))
    with Store.open(tmp_path / "a.db", "w") as store:
        import_file(store, tmp_path / "a.om")
    source = open_source(store=tmp_path / "a.db")
    read = Read("sglang:num_running_reqs", "last", BY)
    source.expect({read.name})
    source.identify(1000 * START, 1000 * (START + 15 * STEPS))
    (row,) = source.evaluate([read], GRID)[read].values
    np.testing.assert_allclose(row, 1 + 2 + 3 + 4)
    assert not source.findings.copies


def test_where_one_of_them_stops_the_other_goes_on(tmp_path):
    pair = [(target("a", replica="r0"), 10.0, 0, 45, 0), (target("a", replica="r1"), 10.0, 10, STEPS, 6)]
    source = stored(tmp_path, pair)
    (row,) = rates(source).values()
    np.testing.assert_allclose(row[np.isfinite(row)], 10.0)
    assert np.isfinite(row).all()
    (one,) = source.scrapes(1000 * START, 1000 * (START + 15 * STEPS))
    assert one.times_ms[0] == 1000 * START and one.times_ms[-1] == 1000 * (START + 15 * (STEPS - 1) + 6)


def test_a_second_job_counts_once_and_is_known(tmp_path):
    twice = [(target("a", job=j), 10.0, first, STEPS, late) for j, first, late in (("x", 0, 0), ("y", 30, 6))]
    source = stored(tmp_path, twice)
    (row,) = rates(source).values()
    np.testing.assert_allclose(row, 10.0)
    (one,) = source.scrapes(1000 * START, 1000 * (START + 15 * STEPS))
    assert one.labels["job"] == "x" and len(one.again) == 1 and one.again[0][0] == 1000 * (START + 15 * 30 + 6)
    assert source.findings.copies[0].values == ("x", "y")


@pytest.mark.parametrize(("up", "twice"), [(1, 6), (0, 0)])
def test_a_pod_under_another_address_is_scraped_twice_only_while_both_answer(up, twice, tmp_path):
    """A StatefulSet gives its name on; the old address is looked at for a while yet."""
    old, new = target("a"), {**target("a"), "instance": "b:8000"}
    late = [f"up{{{labels_of(old)}}} {up} {START + 15 * i}" for i in range(30, 35)]
    source = stored(tmp_path, [(old, 10.0, 0, 30, 0), (new, 10.0, 30, STEPS, 6)], late)
    (one,) = source.scrapes(1000 * START, 1000 * (START + 15 * STEPS))
    assert one.up.min() == 1 and np.diff(one.times_ms).max() < 3 * 15_000
    assert sum(map(len, one.again)) == twice


def test_replicas_that_are_pods_are_no_copies(tmp_path):
    pods = [(target(pod, replica=pod), rate, 0, STEPS, 0) for pod, rate in (("a", 10.0), ("b", 20.0))]
    found = rates(stored(tmp_path, pods))
    np.testing.assert_allclose(found["a"], 10.0)
    np.testing.assert_allclose(found["b"], 20.0)


def test_two_processes_of_one_name_are_never_added_up(tmp_path):
    both = [(target(p) | {"pod": "app"}, rate, 0, STEPS, 0) for p, rate in (("a", 10.0), ("b", 20.0))]
    source = stored(tmp_path, both)
    found = rates(source)
    assert sorted(found) == ["a:8000", "b:8000"]
    np.testing.assert_allclose(found["b:8000"], 20.0)


def test_a_label_of_ones_own(tmp_path):
    own = [({**target(p), "pod": "x", "app_pod": p}, 10.0, 0, STEPS, 0) for p in "ab"]
    source = stored(tmp_path, own, labels={"pod": "app_pod"})
    assert sorted(rates(source)) == ["a", "b"] and not source.findings.crowds


def test_a_sum_without_an_owner_is_left_alone(tmp_path):
    source = stored(tmp_path, [(target(p), 10.0, 0, STEPS, 0) for p in "ab"])
    read = Read(RATE.name, "rate", ("model_name",))
    result = source.evaluate([read], GRID)[read]
    np.testing.assert_allclose(result.values, 20.0)


def test_before_it_has_looked_it_hands_on_what_is_there(tmp_path):
    stored(tmp_path, [(target("a", replica=r), 10.0, 0, STEPS, 0) for r in ("r0", "r1")])
    source = open_source(store=tmp_path / "a.db")
    assert len(source.evaluate([RATE], GRID)[RATE].keys) == 1


@pytest.mark.parametrize("values", [{"pod": "not-a-label"}, {"cluster": ""}, {"pods": "a"}])
def test_labels_that_are_none_are_refused(values, tmp_path, monkeypatch):
    from tests.cli.command import call, refused

    text = "[labels]\n" + "".join(f'{name} = "{value}"\n' for name, value in values.items())
    (tmp_path / "inferdoc.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    refused(call("doctor", "--store", "none.db"), 2, "inferdoc.toml")
