"""Predictions against public results: the shares of collectors/efficiency.yaml are those that the fit gives, errors and
ranges are as docs/capacity.md publishes them, and each mechanism moves the step as it should."""

from __future__ import annotations

import importlib.util
import statistics
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from inferdoc.capacity.step_time import StepRates, Weights, attention_flop, expert_exchange_seconds, latent_decode_flop
from inferdoc.catalogue.efficiency import StepSpread
from inferdoc.catalogue.load import load_catalogue
from inferdoc.errors import InferdocError
from inferdoc.sizing.build import by_parts, launch_units, sized, spread_of
from inferdoc.sizing.request import shape_named, sizing_inputs

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CATALOGUE = load_catalogue()


@pytest.fixture(scope="module")
def bench():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location("size_points", BENCHMARKS / "size_points.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules["size_points"] = module
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(BENCHMARKS))
        sys.modules.pop("size_points", None)


@pytest.fixture(scope="module")
def points(bench):
    return bench.points()


def test_the_shipped_shares_are_those_that_the_results_give(bench, points):
    shipped, fit = CATALOGUE.efficiency, bench.fitted(CATALOGUE.efficiency, points)
    for name, (kinds, share, *_) in bench.PRIORS.items():
        section = shipped.engines if kinds[0] in shipped.engines else shipped.steps
        for kind in kinds:
            assert getattr(section[kind], share) == pytest.approx(fit[name], rel=0.05), (name, kind)
    counts = bench.counted(shipped, points).steps
    assert {kind: known.points for kind, known in counts.items()} == {
        kind: known.points for kind, known in shipped.steps.items()
    }


def test_public_results_are_met_and_lie_in_the_ranges(points):
    errors, inside = {"tok": [], "TPO": [], "TTF": []}, []
    for point in points:
        value, low, high = point.answer(CATALOGUE.efficiency)
        errors[point.row["metric"][:3]].append(abs(value / point.measured - 1.0))
        inside.append(low <= point.measured <= high)
    medians = {name: statistics.median(each) for name, each in errors.items()}
    assert medians["tok"] < 0.15 and medians["TPO"] < 0.15 and medians["TTF"] < 0.3
    assert 0.75 < statistics.mean(inside) < 0.97


def test_spreads_hold_four_of_five_and_are_wide_for_few(bench, points):
    wide = bench.StepSpread(0.33, 3.0)
    dense = [point for point in points if point.family == "dense"][:19]
    found = bench.spreads([(point, 0.5 + rank / 18) for rank, point in enumerate(dense)], wide)
    assert (found["dense"].low, found["dense"].high) == pytest.approx((0.5 + 1 / 18, 0.5 + 17 / 18), rel=1e-6)
    assert found["experts"] == wide


def sizing(**given):
    options = {"prompt_tokens": "2048,2048", "output_tokens": "256,256", "tp": 4, "ttft": "1h", "itl": "1h"}
    return sizing_inputs(options | given, CATALOGUE)


def middle(**options):
    request = sizing(**options)
    return sized(request, request.layouts[0]).replicas["middle"]


def test_requests_that_start_together_wait_for_the_prompts_of_the_others():
    """64 prompts at once: on average half of the 63 others come first, in 16 steps of 8,192 tokens. Of 640 requests a
    tenth starts so, of 128 the half, and all of a run in which each stream sends one."""
    alone, many = (middle(model="llama-3.3-70b", tier="h100-80", concurrency=count) for count in (1, 64))
    assert alone.start_wait(1) == 0.0
    assert many.start_wait(64) == pytest.approx(16 * many.prefill(2048, 63 / 16) / 2)
    for requests, share in ((None, 0.1), (640, 0.1), (128, 0.5), (64, 1.0), (8, 1.0)):
        traffic = replace(many.traffic, requests=requests)
        assert replace(many, traffic=traffic).together(64) == share
        steady = many.ttft(64) - 0.1 * many.start_wait(64)
        assert replace(many, traffic=traffic).ttft(64) == pytest.approx(steady + share * many.start_wait(64))
    assert many.ttft_p95(64, started=True) > many.ttft_p95(64), "objectives leave the start out"
    assert alone.ttft_p95(1, started=True) == pytest.approx(alone.ttft_p95(1)), "one request starts alone"


def test_a_server_that_does_not_mix_prompts_and_streams_holds_the_streams_up():
    """SGLang: a prompt takes a step of its own, which lasts as long as its launch where it is short, so a prompt of 64
    tokens costs all streams as much as one of 256."""
    vllm, sglang = (
        middle(model="llama-3.3-70b", tier="h100-80", concurrency=64, server=name) for name in ("vllm", "sglang")
    )
    assert vllm.mixes and not sglang.mixes
    assert sglang.eager == pytest.approx(80 * CATALOGUE.efficiency.engines["sglang"].prompt_layer_us * 1e-6)
    assert sglang.prefill(64) == sglang.prefill(256) == sglang.eager < sglang.prefill(4096)
    assert sglang.mixed(64, 256, 1.0) == pytest.approx(sglang.step(64) + sglang.eager)
    assert vllm.mixed(64, 256, 1.0) < vllm.step(64) + vllm.prefill(256), "prompts share the read of the weights"
    assert sglang.mixed(64, 256, 0.0) == sglang.step(64)
    assert sglang.itl(64) > vllm.itl(64)


def test_kernels_of_experts_latents_and_linear_layers_take_longer_to_launch():
    layers = {
        name: launch_units(shape_named(name, CATALOGUE))
        for name in ("llama-3.3-70b", "qwen3-235b-a22b", "deepseek-v3", "qwen3.5-27b")
    }
    assert layers["llama-3.3-70b"] == 80
    assert layers["qwen3-235b-a22b"] == 94 * 2
    assert layers["deepseek-v3"] == 61 * 3 + 58
    assert layers["qwen3.5-27b"] == 64 + 48 * 2


def test_layers_that_hold_one_part_launch_and_talk_half_as_often():
    """Nemotron: 23 layers with experts, 23 with Mamba and 6 with attention, each of them one part. DeepSeek: three of
    61 layers without experts."""
    shape = shape_named(
        str(BENCHMARKS.parent / "fixtures" / "models" / "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"), CATALOGUE
    )
    assert (shape.layers, shape.blocks, shape.expert_layers) == (52, 52, 23)
    deepseek = shape_named("deepseek-v3", CATALOGUE)
    assert (deepseek.blocks, deepseek.expert_layers) == (122, 58)
    known = CATALOGUE.efficiency.kind_of("h100-80")[1]
    launched = middle(model="deepseek-v3", tier="h200-141", tp=8).parts.launches
    of_experts = 3 * known.layer_us + 58 * known.expert_layer_us
    assert launched == pytest.approx((of_experts + 61 * known.latent_layer_us) * 1e-6)


def test_equal_requests_stay_in_waves_where_prompts_go_first():
    """Streams of equal output end together, and so do their next prompts come. Lengths that differ break that up."""

    def share(server, output):
        given = {"model": "qwen3-32b", "tier": "h100-80", "tp": 2, "concurrency": 64, "prompt_tokens": "1024,1024"}
        return middle(**given, server=server, output_tokens=output).together(64)

    assert share("sglang", "128,128") == 1.0
    assert 0.1 < share("sglang", "128,140") < 1.0
    assert share("sglang", "4000,8000") == 0.1
    assert share("vllm", "128,128") == 0.1


def test_an_engine_that_looks_for_requests_seldom_lets_them_wait():
    given = {"model": "llama-3.3-70b", "tier": "h100-80", "concurrency": 16, "server": "sglang"}
    often, seldom = middle(**given), middle(**given, scheduler_recv_interval=30)
    assert seldom.ttft(16) - often.ttft(16) == pytest.approx(29 * often.itl(16) / 2)
    assert middle(**given | {"concurrency": 1}, scheduler_recv_interval=30).ttft(1) < often.ttft(16), "it is idle"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rate": 1.0, "requests": 100}, "--requests needs --concurrency"),
        ({"concurrency": 4, "scheduler_recv_interval": 10}, "is a flag of SGLang"),
    ],
)
def test_options_of_another_load_or_server_are_refused(options, words):
    with pytest.raises(InferdocError, match=words):
        sizing(model="llama-3.3-70b", tier="h100-80", **options)


def test_a_run_of_few_requests_ends_with_a_wave_that_is_not_full(bench, points):
    """1,500 requests on 400 slots: three full waves, and one of 300 that is nearly as long."""
    point = next(each for each in points if each.throughput and each.row["requests"] == "1500")
    replica = sized(point.sizing, point.sizing.layouts[0], ("middle",)).replicas["middle"]
    of_run = bench.Point(
        {**point.row, "requests": str(2 * point.streams * replica.layout.data)}, point.sizing, point.streams
    )
    assert of_run.of_run(replica) == pytest.approx(1.0)
    half = bench.Point(
        {**point.row, "requests": str(point.streams * replica.layout.data * 3 // 2)}, point.sizing, point.streams
    )
    shorter = replica.itl(point.streams / 2) / replica.itl(point.streams)
    assert half.of_run(replica) == pytest.approx(1.5 / (1.0 + shorter), rel=1e-2)
    assert 0.75 < half.of_run(replica) < 1.0


def test_a_request_spends_time_before_the_engine_and_servers_differ():
    servers = {
        name: middle(model="llama-3.3-70b", tier="h100-80", concurrency=8, server=name) for name in ("vllm", "sglang")
    }
    for name, replica in servers.items():
        assert replica.front == CATALOGUE.efficiency.engines[name].front_ms * 1e-3
        assert replica.ttft(8) > replica.front + replica.prefill(2048)
    assert servers["sglang"].ttft(8) > servers["vllm"].ttft(8)


def test_the_narrowest_cell_with_enough_results_gives_the_range():
    highs = {"unmeasured": 3.0, "dense": 1.2, "dense-fp8 hopper": 1.3, "dense-fp8 hopper sglang": 1.4}
    cells = {name: StepSpread(0.5, high) for name, high in highs.items()}
    known = structs.replace(CATALOGUE.efficiency, first_spread=cells)

    def high(tier, engine):
        return spread_of(known, tier, "dense", "fp8", engine, first=True).high

    assert [high("h100-80", "sglang"), high("h100-80", "vllm"), high("b200-180", "vllm")] == [1.4, 1.3, 1.2]
    assert high("l4", "vllm") == 3.0, "no result near"


def test_fp4_is_multiplied_as_such_where_the_hardware_has_it():
    seconds = {
        dtype: middle(model="llama-3.3-70b", tier="b200-180", dtype=dtype).prefill(2048)
        for dtype in ("bf16", "fp8", "nvfp4")
    }
    assert seconds["nvfp4"] < 0.9 * seconds["fp8"] < 0.9 * seconds["bf16"]
    four, sixteen = (middle(model="llama-3.3-70b", tier="h200-141", dtype=dtype) for dtype in ("nvfp4", "fp8"))
    assert four.prefill(2048) > sixteen.prefill(2048), "Hopper unpacks FP4 and multiplies in BF16"


def test_experts_share_steps_by_parts_and_dense_models_keep_whole_steps_where_these_were_measured():
    assert by_parts(sizing(model="qwen3-30b-a3b", tier="h100-80"))
    assert not by_parts(sizing(model="llama-3.3-70b", tier="h100-80"))
    assert by_parts(sizing(model="llama-3.3-70b", tier="mi300x"))


PARTS = StepRates(
    1, 1, Weights(8e9, 1e9, 7e9, experts=100, chosen=10), 1e9, 7e8, 1e14, 1e14, 1e12, 1e12, 1e12, 1e14, 1e14, 0.0, 0.0
)  # fmt: skip


def test_a_step_reads_weights_or_multiplies_whichever_takes_longer():
    # One token: 1 GB of dense weights and a tenth of the experts at 1 TB/s.
    assert PARTS.matrices(1, 1) == pytest.approx((1e9 + 0.1 * 7e9) / 1e12)
    # Ten thousand: 2 x 1.7e9 FLOP of each at 1e14 FLOP/s.
    assert PARTS.matrices(1e4, 1e4) == pytest.approx(2 * 1.7e9 * 1e4 / 1e14)


def test_tiles_of_experts_are_filled_up():
    padded = replace(PARTS, padding=30.0)
    # 100 experts of 10 chosen: 30 tokens for each expert are 300 of a token that chooses ten.
    assert padded.matrices(1e4, 1e4) - PARTS.matrices(1e4, 1e4) == pytest.approx(2 * 7e8 * 300 / 1e14)


def test_decode_with_mla_multiplies_each_head_with_the_latent():
    """128 heads over 576 + 512 values in 61 layers: 17.0 MFLOP for each token of context."""
    assert latent_decode_flop(128, 576, 64, 61) == pytest.approx(2 * 128 * 1088 * 61)
    busy = replace(PARTS, latent_flop=latent_decode_flop(128, 576, 64, 61))
    assert busy.cached(10, 1e6, 5000) == pytest.approx(10 * 17e6 * 5000 / 1e14, rel=2e-3)
    assert PARTS.cached(10, 1e6, 5000) == pytest.approx(1e-5)


def test_a_prompt_attends_over_its_windows_alone_in_windowed_layers():
    assert attention_flop(1000, 2, 0, 0, 8000) == 2 * 1000 * 2 * 8000**2
    assert attention_flop(1000, 0, 2, 100, 8000) == 4 * 1000 * 2 * 8000 * 100


def test_tokens_go_once_to_each_other_rank_over_the_link():
    # Two ranks, one expert each: half of the tokens stay.
    assert expert_exchange_seconds(1, 1e6, 1, 1000, 2, 1e12) == pytest.approx(40e-6 + 1e6 * 0.5 * 1000 * 3 / 1e12)
    few, many = (expert_exchange_seconds(61, 1000, 8, 7168, ranks, 6e11) for ranks in (4, 64))
    assert few < many < 4 * few, "eight experts are on at most eight ranks"
