"""Each perturbation on a small fleet: what it changes, and what it leaves."""

from __future__ import annotations

import io

import numpy as np
import pytest

from benchmarks import perturb
from inferdoc.catalogue.load import load_catalogue
from inferdoc.collect.openmetrics_file import SampleColumns, read_openmetrics
from inferdoc.store import Store
from inferdoc.store.importer import import_columns

START, INTERVAL, COUNT = 1000, 10, 12
TIMES = range(START, START + INTERVAL * COUNT, INTERVAL)
ONSET = START + 50
PODS = ("chat-5d9f8c7b6d-abcde", "chat-5d9f8c7b6d-fghij")
POD = PODS[0]


def page() -> SampleColumns:
    """Two pods of one workload, each with counters that do not begin at 0; the first restarts at the ninth scrape. A
    router and a GPU exporter name them."""
    lines: dict[str, list[str]] = {}

    def put(name: str, labels: dict[str, str], value: float, second: float) -> None:
        text = ",".join(f'{k}="{v}"' for k, v in labels.items())
        lines.setdefault(name, []).append(f"{name}{{{text}}} {value} {second}")

    for place, pod in enumerate(PODS):
        own = {"job": "vllm", "instance": f"10.0.0.{place}:8000", "pod": pod}
        gpu = {"job": "dcgm", "instance": "10.0.1.1:9400", "exported_pod": pod, "gpu": str(place)}
        router = {"job": "epp", "instance": "10.0.2.1:9090", "endpoint_name": f"{pod}-rank-0"}
        for number, second in enumerate(TIMES):
            restarted = place == 0 and number >= 8
            put("up", own, 1, second)
            put("vllm:generation_tokens_total", own, 5 * (number - 8) if restarted else 700 + 3 * number, second)
            put("vllm:inter_token_latency_seconds_count", own, 5 * (number - 8) if restarted else 40 + number, second)
            put("vllm:kv_cache_usage_perc", own, 0.1 * place + number / 100, second)
            put("process_start_time_seconds", own, START + 75 if restarted else 500, second)
            put("DCGM_FI_DEV_ENERGY_total", gpu, 9000 + number, second)
            put("llm_d_epp_requests_total", router, 60 + number, second)
    kinds = {
        "up": "gauge",
        "vllm:generation_tokens": "counter",
        "vllm:inter_token_latency_seconds": "histogram",
        "vllm:kv_cache_usage_perc": "gauge",
        "process_start_time_seconds": "gauge",
        "DCGM_FI_DEV_ENERGY": "counter",
        "llm_d_epp_requests": "counter",
    }
    text = []
    for family, kind in kinds.items():
        text += [
            f"# TYPE {family} {kind}",
            *(line for name in lines if name.startswith(family) for line in lines[name]),
        ]
    return read_openmetrics(io.BytesIO("\n".join([*text, "# EOF", ""]).encode()))


def series(samples: SampleColumns, name: str, **labels: str) -> dict[float, float]:
    """Second -> value of what has this name and labels; one series at a time."""
    own = [
        number
        for number, each in enumerate(samples.series)
        if each.name == name and labels.items() <= dict(each.labels).items()
    ]
    rows = np.isin(samples.series_index, own)
    pairs = zip((samples.timestamps_ms[rows] / 1000).tolist(), samples.values[rows].tolist(), strict=True)
    held = dict(pairs)
    assert len(held) == rows.sum(), "more than one series"
    return held


def pods(samples: SampleColumns, second: float) -> set[str]:
    """The pods whose target answers then."""
    return {
        dict(samples.series[number].labels)["pod"]
        for number, at in zip(samples.series_index.tolist(), samples.timestamps_ms.tolist(), strict=True)
        if samples.series[number].name == "up" and at == second * 1000
    }


def seconds(samples: SampleColumns, pod: str = POD) -> list[float]:
    return sorted(series(samples, "up", pod=pod))


def test_scrapes_are_what_one_target_has_at_one_time():
    samples = page()
    scrapes = perturb.scrapes_of(samples)
    assert len(scrapes.times_ms) == 4 * COUNT
    assert scrapes.number().tolist() == list(range(COUNT)) * 4
    assert (scrapes.times_ms[scrapes.of_sample] == samples.timestamps_ms).all()
    assert perturb.interval_ms(samples) == INTERVAL * 1000


def test_thinned_keeps_whole_scrapes_of_every_target():
    samples = perturb.thinned(page(), 3)
    for pod in PODS:
        assert seconds(samples, pod) == list(TIMES)[::3]
    assert len(samples) == len(page()) / 3


def test_spaced_keeps_the_first_scrape_of_each_stretch():
    assert seconds(perturb.spaced(page(), 15_000)) == [1000, 1010, 1020, 1040, 1050, 1070, 1080, 1100, 1110]
    assert seconds(perturb.spaced(page(), 5_000)) == list(TIMES)


def test_lost_scrapes_are_lost_whole():
    samples = perturb.lost(page(), 0.4, np.random.default_rng(1))
    for pod in PODS:
        there = seconds(samples, pod)
        assert 0 < len(there) < COUNT
        assert sorted(series(samples, "vllm:kv_cache_usage_perc", pod=pod)) == there
    assert seconds(samples, PODS[0]) != seconds(samples, PODS[1])


def test_a_failed_scrape_leaves_up_at_0_and_nothing_else():
    samples = perturb.failed(page(), 0.4, np.random.default_rng(1))
    up = series(samples, "up", pod=POD)
    assert sorted(up) == list(TIMES) and set(up.values()) == {0.0, 1.0}
    answered = sorted(second for second, value in up.items() if value)
    assert sorted(series(samples, "vllm:kv_cache_usage_perc", pod=POD)) == answered


def test_a_gap_is_the_same_for_all_targets():
    samples = perturb.gaps(page(), 2, 2, np.random.default_rng(3))
    there = seconds(samples)
    assert COUNT - 4 <= len(there) <= COUNT - 2
    assert seconds(samples, PODS[1]) == there
    assert {START, TIMES[-1]} <= set(there)


def test_jitter_moves_a_scrape_as_one_and_keeps_the_order():
    samples = perturb.jittered(page(), 1000, np.random.default_rng(2))
    there = np.array(seconds(samples))
    assert 0 < np.abs(there - np.array(TIMES)).max() <= 1
    assert sorted(series(samples, "vllm:kv_cache_usage_perc", pod=POD)) == there.tolist()
    wild = perturb.jittered(page(), 1e6, np.random.default_rng(2))
    assert (np.diff(list(series(wild, "up", pod=POD))) > 0).all()


def test_begun_drops_what_came_before():
    assert seconds(perturb.begun(page(), ONSET * 1000)) == [t for t in TIMES if t >= ONSET]


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_stretched_counters_keep_their_values_and_change_their_rates(factor: float):
    samples = perturb.stretched(page(), factor)
    assert seconds(samples) == [START + (t - START) * factor for t in TIMES]
    tokens = series(samples, "vllm:generation_tokens_total", pod=PODS[1])
    assert list(tokens.values()) == list(series(page(), "vllm:generation_tokens_total", pod=PODS[1]).values())
    starts = list(series(samples, "process_start_time_seconds", pod=POD).values())
    assert starts[0] == START - 500 * factor and starts[-1] == START + 75 * factor


def test_older_releases_have_the_former_names_with_all_parts():
    former = perturb.former_names(load_catalogue().exporters.values())
    samples = perturb.older(page(), former)
    names = {each.name for each in samples.series}
    assert {"vllm:gpu_cache_usage_perc", "vllm:time_per_output_token_seconds_count"} <= names
    assert not {"vllm:kv_cache_usage_perc", "vllm:inter_token_latency_seconds_count"} & names
    assert samples.types["vllm:time_per_output_token_seconds"] == "histogram"
    assert {"vllm:generation_tokens_total", "up"} <= names
    assert series(samples, "vllm:gpu_cache_usage_perc", pod=POD) == series(page(), "vllm:kv_cache_usage_perc", pod=POD)


def test_replacements_name_one_replica_set_for_a_workload():
    new = perturb.replacements(page())
    assert set(new) == {*PODS, "10.0.0.0:8000", "10.0.0.1:8000"}
    workloads, suffixes = zip(*(new[pod].rsplit("-", 1) for pod in PODS), strict=True)
    assert len(set(workloads)) == 1 and len(set(suffixes)) == 2
    assert workloads[0].startswith("chat-") and workloads[0] != "chat-5d9f8c7b6d"
    assert new["10.0.0.0:8000"].endswith(":8000")


def test_renamed_pods_have_another_name_from_the_first_sample_on_everywhere():
    new = perturb.replacements(page())
    samples = perturb.renamed(page(), new)
    text = str(samples.series)
    assert not any(old in text for old in new)
    assert list(samples.values) == list(page().values)
    assert series(samples, "llm_d_epp_requests_total", endpoint_name=f"{new[POD]}-rank-0")
    assert series(samples, "DCGM_FI_DEV_ENERGY_total", exported_pod=new[POD])
    assert len(seconds(samples, new[POD])) == COUNT


def test_a_rollout_ends_the_old_pods_and_starts_new_ones_from_0():
    new = perturb.replacements(page())
    samples = perturb.rolled_out(page(), ONSET * 1000, new)
    before, after = [t for t in TIMES if t <= ONSET], [t for t in TIMES if t > ONSET]
    assert all(pods(samples, t) == set(PODS) for t in before)
    assert all(pods(samples, t) == {new[pod] for pod in PODS} for t in after)
    old, born = PODS[1], new[PODS[1]]
    assert list(series(samples, "vllm:generation_tokens_total", pod=old).values()) == [700 + 3 * n for n in range(6)]
    assert list(series(samples, "vllm:generation_tokens_total", pod=born).values()) == [3 * n for n in range(1, 7)]
    assert list(series(samples, "vllm:inter_token_latency_seconds_count", pod=born).values()) == list(range(1, 7))
    gauge = series(samples, "vllm:kv_cache_usage_perc", pod=born)
    assert gauge == {t: v for t, v in series(page(), "vllm:kv_cache_usage_perc", pod=old).items() if t > ONSET}
    assert set(series(samples, "process_start_time_seconds", pod=old).values()) == {500.0}
    assert set(series(samples, "process_start_time_seconds", pod=born).values()) == {float(ONSET)}


def test_labels_come_on_top_of_those_that_are_there():
    samples = perturb.relabelled(page(), ONSET * 1000, {"cluster": "prod", "pod": "other"})
    assert all(pods(samples, t) == set(PODS) for t in TIMES)
    late = {
        dict(samples.series[i].labels).get("cluster")
        for i in samples.series_index[samples.timestamps_ms > ONSET * 1000]
    }
    early = {
        dict(samples.series[i].labels).get("cluster")
        for i in samples.series_index[samples.timestamps_ms <= ONSET * 1000]
    }
    assert (early, late) == ({None}, {"prod"})


def test_a_restart_after_the_rollout_stays_one():
    samples = perturb.rolled_out(page(), ONSET * 1000, names := perturb.replacements(page()))
    tokens = list(series(samples, "vllm:generation_tokens_total", pod=names[POD]).values())
    assert tokens == [3.0, 6.0, 0.0, 5.0, 10.0, 15.0]
    assert list(series(samples, "process_start_time_seconds", pod=names[POD]).values())[-1] == START + 75


def test_what_others_say_of_a_pod_follows_its_name():
    samples = perturb.rolled_out(page(), ONSET * 1000, names := perturb.replacements(page()))
    energy = series(samples, "DCGM_FI_DEV_ENERGY_total", exported_pod=names[POD])
    assert list(energy.values()) == [9006.0 + n for n in range(6)], "the counter of a GPU goes on"
    requests = series(samples, "llm_d_epp_requests_total", endpoint_name=f"{names[POD]}-rank-0")
    assert list(requests.values()) == [float(n) for n in range(1, 7)], "a router counts a new pod from 0"


def test_what_was_changed_can_be_stored(tmp_path):
    samples = perturb.rolled_out(page(), ONSET * 1000, perturb.replacements(page()))
    with Store.open(tmp_path / "fleet.db", "w") as store:
        done = import_columns(store, samples, "page")
        assert done.samples == len(page()) and not done.problems
        assert len(store.targets()) == 6
