"""`inferdoc size`: what it answers, that it adds up, and one line for everything that cannot be sized."""

from __future__ import annotations

import json

import pytest

from inferdoc.catalogue.load import load_catalogue
from tests.cli.command import call

CHAT = ("--prompt-tokens", "2000,6000", "--output-tokens", "300,800")
LLAMA = ("size", "--model", "llama-3.3-70b", "--tier", "h100-80", *CHAT)


def answer(*arguments):
    done = call(*LLAMA, *arguments, "-o", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def numbers(document):
    return {each["name"]: each for part in document["parts"] for each in part["numbers"]}


def refusal(*arguments):
    done = call(*arguments)
    assert done.code == 2 and done.out == ""
    assert done.err.count("\n") == 1, done.err
    return done.err


def test_memory_adds_up_to_what_the_driver_shows():
    found = numbers(answer("--tp", "4", "--max-loras", "8"))
    parts = ("free", "weights", "activations", "logits", "adapters", "other", "kv_room")
    assert sum(found[name]["value"] for name in parts) == pytest.approx(found["memory"]["value"], rel=1e-6)
    assert found["adapters"]["value"] == pytest.approx(828.4e6, rel=1e-3)


def test_every_number_has_a_unit_a_formula_a_source_and_an_ordered_range():
    for each in numbers(answer("--rate", "12", "--accepted", "0.8,0.6")).values():
        assert each["unit"] and each["formula"] and each["source"], each["name"]
        assert each["low"] <= each["value"] <= each["high"], each["name"]


def test_what_rests_on_shares_has_a_range_and_what_is_exact_has_none():
    found = numbers(answer("--tp", "4"))
    assert found["kv_bytes_per_token"]["low"] == found["kv_bytes_per_token"]["high"] == 327_680 / 4
    for name in ("prefill_seconds", "step_seconds", "rate", "kv_tokens"):
        assert found[name]["low"] < found[name]["high"], name


def test_a_step_and_a_prompt_are_those_of_the_worked_cases_over_nine_tenths_of_the_share():
    """2,048 tokens take 130.68 ms on 4 H100 at an MFU of 0.57, and 160 all-reduces of 16.8M values are in that."""
    together = 160 * (13 + (619 - 13) * (2048 * 8192 - 524288) / (67108864 - 524288)) * 1e-6
    done = call(
        "size", "--model", "llama-3.3-70b", "--tier", "h100-80", "--tp", "4", "-o", "json",
        "--prompt-tokens", "2048", "--output-tokens", "256",
    )  # fmt: skip
    assert numbers(json.loads(done.out))["prefill_seconds"]["value"] == pytest.approx(
        (0.13068 - together) / 0.9 + together, rel=1e-3
    )


def test_more_load_takes_more_replicas_and_a_tighter_objective_too():
    few, many = (numbers(answer("--tp", "4", "--rate", rate))["replicas"]["value"] for rate in ("5", "50"))
    tight = numbers(answer("--tp", "4", "--rate", "50", "--itl", "30ms"))["replicas"]["value"]
    assert few < many < tight


def test_prefix_hits_raise_what_a_replica_carries():
    without, half = (numbers(answer("--tp", "4", "--prefix-share", share))["rate"]["value"] for share in ("0", "0.5"))
    assert half > 1.2 * without


def test_the_layout_with_the_fewest_gpus_is_taken_and_the_others_are_shown():
    document = answer("--rate", "12")
    fleets = {row["layout"]: row["replicas"] * row["gpus"] for row in document["layouts"] if row["replicas"]}
    assert document["gpus"] == min(fleets.values()) == fleets[document["layout"]]
    assert not next(row for row in document["layouts"] if row["layout"] == "TP 1")["fits"]


def test_what_nobody_gave_is_said_and_what_was_given_is_not():
    assumed = " ".join(answer()["assumed"])
    for flag in ("--dtype", "--kv-dtype", "--prefix-share", "--max-num-seqs", "--ttft", "--itl"):
        assert flag in assumed
    given = answer("--dtype", "fp8", "--kv-dtype", "fp8", "--prefix-share", "0.2", "--ttft", "1s", "--itl", "40ms")
    assert not [line for line in given["assumed"] if line.startswith(("weights in", "KV cache in", "objective"))]


def test_a_tier_that_nobody_measured_says_so_and_has_the_wider_range():
    def width(tier):
        done = call(
            "size", "--model", "llama-3.1-8b", "--tier", tier, "--tp", "1", "-o", "json",
            "--prompt-tokens", "500", "--output-tokens", "100",
        )  # fmt: skip
        document = json.loads(done.out)
        step = numbers(document)["step_seconds"]
        return step["high"] / step["low"], " ".join(document["notes"])

    (measured, quiet), (unmeasured, notes) = width("h100-80"), width("mi300x")
    assert "no measured point near this (dense in BF16 on mi300x): x3 either way" in notes
    assert "no measured point" not in quiet
    assert unmeasured > 6 > measured


def test_a_small_kv_cache_is_left_emptier_so_that_few_wait_for_room():
    """22 requests fit an L4: more than some 16 on average make more than a twentieth wait for a whole answer."""
    done = call(
        "size", "--model", "llama-3.1-8b", "--tier", "l4", "--tp", "1", "-o", "json", "--itl", "1s",
        "--prompt-tokens", "700,1600", "--output-tokens", "280,570",
    )  # fmt: skip
    found = numbers(json.loads(done.out))
    fit = found["kv_tokens"]["value"] / found["context_mean"]["value"]
    assert 0.5 * fit < found["streams"]["value"] < 0.8 * fit


def test_collectives_are_most_of_what_a_group_of_gpus_reaches_less_than_one():
    """70B on four H100 0.57 and 0.67 of the peaks with their all-reduces; 8B on one 0.79 and 0.80."""
    known = load_catalogue().efficiency.tiers["h100-80"]
    for rows in (known.prefill, known.decode):
        alone, together = rows
        gained = known.without_collectives(together) - together.share
        assert 0.5 < gained / (alone.share - together.share) < 1
        assert known.without_collectives(alone) == alone.share


def test_collectives_over_pcie_slow_a_step_down():
    def step(tier):
        done = call(
            "size", "--model", "llama-3.1-8b", "--tier", tier, "--tp", "4", "-o", "json",
            "--prompt-tokens", "500", "--output-tokens", "100", "--itl", "1s", "--max-num-seqs", "64",
        )  # fmt: skip
        document = json.loads(done.out)
        return numbers(document)["step_seconds"]["value"], document["notes"]

    seconds, notes = step("l40s")
    assert seconds > 2 * 32 * 361e-6 / 2, "64 all-reduces of 0.26M values, half of the 0.52M that take 361 us"
    assert any("PCIe" in note for note in notes)


def test_text_fits_a_terminal_and_names_what_it_is_about(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = call(*LLAMA, "--rate", "12")
    assert max(map(len, done.out.splitlines())) <= 80
    assert "llama-3.3-70b" in done.out and "replicas" in done.out and "assumed" in done.out
    verbose = call(*LLAMA, "--rate", "12", "-v").out
    assert "ceil(rate x safety" in verbose and "TP 1: 1 GPU; does not fit" in verbose


@pytest.mark.parametrize("name", sorted(load_catalogue().models))
def test_every_known_model_can_be_sized(name):
    done = call("size", "--model", name, "--tier", "b200-180", *CHAT, "--itl", "200ms", "-o", "json")
    assert done.code == 0, done.err
    known = load_catalogue().models[name]
    found = numbers(json.loads(done.out))
    width = {"bf16": 2.0, "fp8": 1.0, "mxfp4": 0.531, "int4": 0.594}[json.loads(done.out)["dtype"]]
    gpus = json.loads(done.out)["gpus_per_replica"]
    assert found["weights"]["value"] * gpus == pytest.approx(known.parameters * width, rel=0.06)


def test_a_config_file_is_read_and_its_parameters_are_counted(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(load_catalogue().models["llama-3.3-70b"].config))
    done = call("size", "--model", str(tmp_path), "--tier", "h100-80", *CHAT, "-o", "json")
    assert done.code == 0, done.err
    assert "70.6 billion parameters, counted from the layers" in " ".join(json.loads(done.out)["assumed"])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (("--tier", "h100"), 'no tier "h100" (did you mean'),
        (("--model", "llama-3.1-70b"), 'no known model "llama-3.1-70b"'),
        (("--rate", "-3"), "--rate -3: expected requests per second"),
        (("--rate", "nan"), "--rate nan"),
        (("--rate", "1e12"), "--rate 1e+12"),
        (("--prefix-share", "40"), "--prefix-share 40: expected a share"),
        (("--prompt-tokens", "2000,500"), "the p95 lies below the mean"),
        (("--prompt-tokens", "many"), "--prompt-tokens many: expected the mean"),
        (("--prompt-tokens", "200000"), "is longer than llama-3.3-70b takes: 131,072"),
        (("--tp", "3"), "--tp 3: the 64 heads"),
        (("--pp", "81"), "--pp 81: llama-3.3-70b has 80 layers"),
        (("--tp", "1", "--pp", "1"), "does not fit TP 1"),
        (("--ttft", "1ms"), "no layout keeps --ttft 0.001s"),
        (("--ttft", "soon"), "--ttft"),
        (("--gpu-memory-utilization", "92"), "expected a share above 0, at most 1"),
        (("--safety", "0.5"), "--safety 0.5"),
        (("--accepted", "0.5,0.8"), "cannot rise"),
        (("--accepted", "80"), "expected shares of 0 to 1"),
        (("--draft-cost", "0.1"), "--draft-cost needs --accepted"),
        (("--max-lora-rank", "8"), "--max-lora-rank needs --max-loras"),
        (("--max-num-seqs", "512", "--max-num-batched-tokens", "256"), "more than the 256 of --max-num-batched-tokens"),
        (("--tier", "t4", "--tp", "8"), "--dtype bf16: NVIDIA T4, 16 GB has no BF16"),
    ],
)
def test_one_line_for_what_cannot_be_sized(changed, words):
    assert words in refusal(*LLAMA, *changed)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}", "no num_hidden_layers"),
        ("[1]", "expected an object"),
        ("{", "no JSON"),
        ('{"num_hidden_layers": "many"}', "num_hidden_layers: expected a whole number"),
        ('{"num_hidden_layers": 0}', "expected 1 or more"),
    ],
)
def test_one_line_for_a_config_that_is_none(tmp_path, content, words):
    path = tmp_path / "config.json"
    path.write_text(content)
    assert words in refusal("size", "--model", str(path), "--tier", "h100-80", *CHAT)


def test_weights_of_an_unknown_dtype_are_asked_for(tmp_path):
    config = load_catalogue().models["llama-3.1-8b"].config | {"quantization_config": {"quant_method": "something"}}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert "give --dtype" in refusal("size", "--model", str(path), "--tier", "h100-80", *CHAT)


def test_sparse_attention_has_no_bf16_cache():
    arguments = ("size", "--model", "deepseek-v3.2", "--tier", "h200-141", *CHAT, "--kv-dtype", "bf16")
    assert "--kv-dtype bf16: sparse MLA has fp8 and nvfp4" in refusal(*arguments)


def test_what_tokens_cost_is_told_where_the_tier_has_a_price(tmp_path):
    (tmp_path / "inferdoc.toml").write_text(
        "[prices]\noverhead = 1.5\n[prices.tiers.h100-80]\non_demand = 2.0\n", "utf-8"
    )
    done = call("--config", tmp_path / "inferdoc.toml", *LLAMA, "--tp", "4", "--rate", "12", "-o", "json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    found = numbers(document)
    assert found["hour"]["value"] == pytest.approx(document["gpus"] * 3.0)
    assert found["million"]["value"] == pytest.approx(document["gpus"] * 3.0 / (3600 * 12 * 300) * 1e6)
    assert found["million_busy"]["value"] == pytest.approx(4 * 3.0 / (3600 * found["tokens"]["value"]) * 1e6)
    assert found["million_busy"]["value"] < found["million"]["value"], "safety and whole replicas leave room"
    assert "million" not in numbers(answer("--tp", "4", "--rate", "12")), "nothing is assumed of a price"


def test_the_least_rate_takes_a_replica():
    document = answer("--rate", "1e-12")
    assert document["replicas"] == 1
    assert numbers(document)["replicas"]["low"] == 1


def test_objectives_that_one_request_alone_misses_are_refused_only_if_given():
    """A step of one token: 2,000 steps to the first token."""
    line = refusal(*LLAMA, "--max-num-batched-tokens", "1", "--ttft", "2s")
    assert "misses the objectives with one request at a time" in line and "inf" not in line.replace("inferdoc", "")
    assumed = answer("--max-num-batched-tokens", "1")["assumed"]
    assert any("sized for one request at a time" in each for each in assumed)


EDGE = ("size", "--model", "llama-3.1-8b", "--tier", "l40s", "-o", "json")


def test_128k_tokens_on_one_gpu_are_sized_one_request_at_a_time():
    done = call(*EDGE, "--prompt-tokens", "128000", "--output-tokens", "500")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    found = numbers(document)
    assert (document["gpus"], found["streams"]["value"]) == (1, 1)
    assert found["longest_context"]["value"] >= 128_500
    assert found["ttft_mean"]["value"] > found["prefill_seconds"]["value"] > 10


def test_one_sequence_waits_only_for_requests_that_arrive_at_a_rate():
    """Alone: a step for each token and the prompt once. At a rate: a queue before the one slot."""
    alone, queued = (
        numbers(json.loads(call(*EDGE, "--prompt-tokens", "1000", "--output-tokens", "500", "--max-num-seqs", "1",
                                "--tp", "1", *rate).out))
        for rate in ((), ("--rate", "0.02", "--safety", "1"))
    )  # fmt: skip
    step, prompt = (alone[name]["value"] for name in ("step_seconds", "prefill_seconds"))
    assert alone["itl_mean"]["value"] == pytest.approx(step)
    assert 1 / alone["rate"]["value"] == pytest.approx(500 * step + prompt, rel=0.01)
    assert queued["ttft_mean"]["value"] > 5 * alone["ttft_mean"]["value"]
    assert 0 < queued["streams"]["value"] < 1 and queued["replicas"]["value"] >= 1


def test_requests_at_once_fill_the_cache_as_the_guide_has_it():
    """50 requests of 8,000 tokens: 4 GPUs in BF16, 2 in FP8."""
    for dtype, gpus in (("bf16", 4), ("fp8", 2)):
        done = call(
            "size", "--model", "llama-3.3-70b", "--tier", "h100-80", "--prompt-tokens", "7000,7000", "-o", "json",
            "--output-tokens", "2000,2000", "--concurrency", "50", "--dtype", dtype, "--kv-dtype", dtype,
        )  # fmt: skip
        document = json.loads(done.out)
        assert numbers(document)["context_mean"]["value"] == 8000
        assert document["gpus"] == gpus


def test_a_rate_and_requests_at_once_exclude_each_other():
    assert "mutually exclusive" in refusal(*LLAMA, "--rate", "1", "--concurrency", "2")


def test_a_start_takes_its_weights_over_each_storage():
    """141 GB at 12.5, 1.1 and 0.5 GB/s, and the start of the engine (field guide, section 2.1: 11 s, 128 s, 282 s)."""
    found = numbers(answer("--tp", "4"))
    tiers = load_catalogue().tiers
    for path, rate in tiers.storage.items():
        seconds = found[f"start_{path.replace('-', '_')}"]["value"]
        assert seconds == pytest.approx(tiers.engine_start_s.value + 141.2e9 / (rate.value * 1e9), rel=1e-3)
