"""Worked cases of sizing, recomputed by hand: each to a thousandth, whole numbers exactly.

A 70B model is Llama 3.1 70B: 70.6e9 parameters, 80 layers, hidden 8192, 8 KV heads of 128; an H100 has 79.6 GiB,
3.35 TB/s and 989 TFLOP/s in BF16.
"""

from __future__ import annotations

import pytest

from inferdoc.canary.interval import arm_size, difference
from inferdoc.capacity.memory import (
    GIB,
    KvLayers,
    activation_bytes,
    kv_bytes_in_window,
    kv_bytes_per_token,
    kv_tokens,
    least_gpus,
    logit_bytes,
    lora_bytes,
    safe_concurrency,
    weight_bytes_per_gpu,
)
from inferdoc.capacity.reuse import PrefixCache, life_gain
from inferdoc.capacity.service_level import (
    PhaseSeconds,
    colocated_itl_seconds,
    escalated_price,
    joint_share,
    kwh_per_million_tokens,
    payoff,
    phase_seconds,
    price_per_million_tokens,
    queue_seconds,
    queued_tokens,
    reload_seconds_per_token,
    replicas_needed,
    routed_price,
    safe_queue_depth,
    tokens_per_joule,
    transfer_seconds,
)
from inferdoc.capacity.step_time import (
    Machine,
    Weights,
    all_reduce_seconds,
    attention_flop,
    best_draft_length,
    break_even_chance,
    expected_tokens,
    expert_cover,
    pipeline_bubble,
    prefill_seconds,
    ridge_tokens,
    speculative_speedup,
    step_collectives,
    step_seconds,
)

P70, L70, H70 = 70.6e9, 80, 8192
KV70 = KvLayers(80, 8, 128)
KV8 = KvLayers(32, 8, 128)
H100 = 79.6 * GIB
LATENT = KvLayers(61, latent=512 + 64)
SPARSE = KvLayers(61, latent=512 + 64, sparse=True)
ACCEPTED = (0.8, 0.6, 0.42, 0.28)
ATTENTION = [(8192, 8192), (8192, 1024), (8192, 1024), (8192, 8192)]
LINEARS = [*ATTENTION, (8192, 28672), (8192, 28672), (28672, 8192)]
CACHE = PrefixCache(353_826, 0.45, 6000, 3000)
WORK70 = Weights(P70, 2 * P70)


def tokens_of(bytes_per_weight, kv_dtype, gpus):
    weights = weight_bytes_per_gpu(P70 * bytes_per_weight, tensor_parallel=gpus)
    return kv_tokens(H100, weights, 4 * GIB, kv_bytes_per_token(KV70, kv_dtype, gpus), 0.92)


def fitting(bytes_per_weight, kv_dtype):
    return least_gpus(lambda gpus: tokens_of(bytes_per_weight, kv_dtype, gpus), 400_000, (1, 2, 4, 8))


def h100s(mfu=0.57, mbu=0.67):
    return Machine(4, 989e12, 3.35e12, mfu, mbu)


def decode(streams, tokens=None, mfu=0.57):
    kv = streams * 2176 * kv_bytes_per_token(KV70, "bf16")
    return step_seconds(h100s(mfu), WORK70, tokens=streams if tokens is None else tokens, kv_read=kv)


def longer(streams):
    """r(k): a step over k + 1 tokens a stream against a plain one; the KV is read once per stream."""
    return lambda k: decode(streams, streams * (k + 1), mfu=0.76) / decode(streams, mfu=0.76)


def collectives(tokens):
    return step_collectives(2 * L70, all_reduce_seconds(tokens, H70, 4, latency=5e-6, bus=300e9))


def prompt_flop(tokens):
    return 2 * P70 * tokens + attention_flop(H70, L70, 0, 0, tokens)


def flat(_):
    return 1.0


CASES: dict[str, list[tuple[float, float]]] = {
    "G01": [(kv_bytes_per_token(KV70, d), n) for d, n in (("bf16", 327680), ("fp8", 163840), ("nvfp4", 92160))],
    "G02": [
        (kv_bytes_per_token(KV8, "bf16"), 131072),
        (kv_bytes_per_token(KvLayers(64, 8, 128), "bf16"), 262144),
        (kv_bytes_per_token(KvLayers(126, 8, 128), "bf16"), 516096),
    ],
    "G03": [
        (kv_bytes_per_token(LATENT, "bf16"), 70272),
        (kv_bytes_per_token(LATENT, "fp8"), 35136),
        (kv_bytes_per_token(SPARSE, "fp8"), 40016),
        (kv_bytes_per_token(SPARSE, "nvfp4"), 21472),
    ],
    "G04": [(kv_bytes_per_token(KvLayers(94, 4, 128), "bf16", tensor_parallel=8), 48128)],
    "G05": [(tokens_of(1, "bf16", 2), 227492), (tokens_of(1, "fp8", 2), 454984)],
    "G06": [(tokens_of(2, "bf16", 4), 454984), (tokens_of(1, "fp8", 4), 1362421)],
    "G07": [
        (kv_tokens(45 * GIB, weight_bytes_per_gpu(8.03e9 * 2), 3 * GIB, kv_bytes_per_token(KV8, "bf16"), 0.92), 185918)
    ],
    "G08": [(fitting(2, "bf16"), 4), (fitting(1, "fp8"), 2)],
    "G09": [(int(safe_concurrency(227492, 8256)), 24)],
    "G10": [
        (activation_bytes(8192, 8192, 4), 0.671e9),
        (activation_bytes(8192, 8192, 1), 1.342e9),
        (logit_bytes(1024, 128256), 0.5253e9),
    ],
    "G11": [
        (lora_bytes(1, 16, 80, LINEARS, 1), 414.19e6),
        (lora_bytes(1, 16, 80, ATTENTION, 1), 131.07e6),
        (lora_bytes(8, 16, 80, LINEARS, 4), 828.4e6),
    ],
    "G12": [
        (ridge_tokens(f * 1e12, w * 1e12, 2), n)
        for f, w, n in (
            (312, 2.039, 153.0),
            (989, 3.35, 295.2),
            (989, 4.8, 206.0),
            (362, 0.864, 419.0),
            (2250, 8, 281.2),
        )
    ],
    "G13": [(prompt_flop(2048), 2.9468e14), (prompt_flop(8192), 1.24467e15)],
    "G14": [
        (prefill_seconds(h100s(), prompt_flop(2048)), 0.13068),
        (2048 / prefill_seconds(h100s(), prompt_flop(2048)) / 4, 3918),
    ],
    "G15": [(decode(1), 0.01581), (decode(64), 0.02081), (64 / decode(64), 3075)],
    "G16": [(collectives(64), 1.639e-3), (collectives(2048), 27.64e-3)],
    "G17": [(pipeline_bubble(4, 4), 0.4286), (pipeline_bubble(4, 16), 0.1579), (pipeline_bubble(2, 8), 0.1111)],
    "G18": [(expert_cover(256, 8, 64), 0.8689), (expert_cover(8, 2, 4), 0.6836)],
    "G19": [
        *(
            (speculative_speedup(ACCEPTED, k, 0.15, flat), s)
            for k, s in ((1, 1.565), (2, 1.846), (3, 1.945), (4, 1.9375))
        ),
        (best_draft_length(ACCEPTED, 0.15, flat), 3),
    ],
    "G20": [(expected_tokens(0.7, 4), 2.7731), (break_even_chance(4, 0.1), 0.2871)],
    "G21": [(0.13 + queue_seconds(0.13, 4), 0.2004), (0.13 + queue_seconds(0.13, 6), 0.3605)],
    "G22": [(joint_share([0.97, 0.985])[0], 0.955), (joint_share([0.97, 0.985])[1], 0.970)],
    "G23": [
        (replicas_needed(120, 12, 1.3), 13),
        (replicas_needed(120, 12, 1.3) * 4, 52),
        (replicas_needed(25, 12, 1.2), 3),
    ],
    "G24": [(int(safe_queue_depth(2, 12)), 20), (int(queued_tokens(2, 63.6e-6)), 31446)],
    "G25": [
        (phase_seconds(4000, 3918, 200, 768.75).prefill, 1.0209),
        (phase_seconds(4000, 3918, 200, 768.75).decode, 0.2602),
        (phase_seconds(4000, 3918, 200, 768.75).ratio, 3.924),
    ],
    "G26": [
        (getattr(payoff(20, PhaseSeconds(1.0209, 0.2602), 4, together_use=0.6, apart_use=0.75), name), n)
        for name, n in (("together", 44), ("prefill", 28), ("decode", 8), ("saved", 0.1818))
    ],
    "G27": [(price_per_million_tokens(12, 3000), 1.1111), (price_per_million_tokens(12, 3000 * 0.4), 2.7778)],
    "G28": [(tokens_per_joule(3059, 2000), 1.5295), (kwh_per_million_tokens(3059, 2000), 0.1816)],
    "G29": [(CACHE.life, 21.62), (life_gain(2, 0.45), 2.818), (life_gain(2, 0.8), 6.0)],
    "G32": [
        (reload_seconds_per_token(kv_bytes_per_token(kv, "bf16"), bandwidth), us * 1e-6)
        for kv, bandwidth, us in ((KV70, 200e9, 1.638), (KV70, 7e9, 46.81), (KV8, 50e9, 2.621), (KV8, 7e9, 18.72))
    ],
    "G33": [
        (transfer_seconds(4096 * kv_bytes_per_token(KV70, "bf16"), 320, 1.0), 33.55e-3),
        (transfer_seconds(4096 * kv_bytes_per_token(KV70, "fp8"), 400, 1.0), 13.42e-3),
        (transfer_seconds(200 * kv_bytes_per_token(KV70, "fp8"), 400, 1.0), 0.655e-3),
    ],
    "G34": [(arm_size(0.01, 0.02), 1825), (arm_size(0.05, 0.07), 1742)],
    "G36": [(routed_price(0.7, 0.11, 1.11), 0.410), (escalated_price(0.3, 0.11, 1.11), 0.443)],
    "G37": [(colocated_itl_seconds(20.8e-3, 64, 130.3e-3, 256), 53.4e-3)],
}
TO_A_HUNDREDTH: dict[str, list[tuple[float, float]]] = {
    "G35": [(difference((40, 2000), (20, 2000))[place], n) for place, n in enumerate((0.0100, 0.0037, 0.0166))],
    "G38": [
        *((speculative_speedup(ACCEPTED, k, 0.05, longer(128)), s) for k, s in ((3, 2.45), (4, 2.28))),
        *((speculative_speedup(ACCEPTED, k, 0.05, longer(256)), s) for k, s in ((2, 2.18), (3, 1.90), (4, 1.66))),
        (best_draft_length(ACCEPTED, 0.05, longer(128)), 3),
        (best_draft_length(ACCEPTED, 0.05, longer(256)), 2),
    ],
}
"""Printed to two or three figures."""


@pytest.mark.parametrize("name", sorted(CASES | TO_A_HUNDREDTH))
def test_a_worked_case(name):
    tolerance = 1e-2 if name in TO_A_HUNDREDTH else 1e-3
    for value, wanted in (CASES | TO_A_HUNDREDTH)[name]:
        if isinstance(wanted, int) and isinstance(value, int):
            assert value == wanted
        else:
            assert value == pytest.approx(wanted, rel=tolerance)


def test_all_worked_cases_are_here():
    unused = {30, 31}  # hits by chance and with more memory: no command predicts them by formula
    expected = [f"G{number:02d}" for number in range(1, 39) if number not in unused]
    assert sorted(CASES | TO_A_HUNDREDTH) == expected


def test_the_window_of_a_sliding_layer_is_kept_once_for_each_request():
    """gpt-oss-120b: 18 full layers, 18 of a window of 128; 8 KV heads of 64."""
    layers = KvLayers(18, 8, 64, windowed=18, window=128)
    assert kv_bytes_per_token(layers, "bf16") == 36864
    assert 128 * kv_bytes_in_window(layers, "bf16") == 18 * 128 * 2 * 8 * 64 * 2
