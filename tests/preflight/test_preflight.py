"""Checks of manifests before anything runs: each problem is named with its flag, and its good neighbour is not."""

from __future__ import annotations

import json

import pytest

from tests.cli.command import call

WORKLOAD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: llm}}
spec:
  template:
    spec:
      containers:
        - {{name: engine, image: "vllm/vllm-openai:v0.32.0", args: {args}}}
---
"""


def checked(tmp_path, tier, *workloads, output="json"):
    text = "".join(WORKLOAD.format(name=name, args=json.dumps(args.split())) for name, args in workloads)
    (tmp_path / "fleet.yaml").write_text(text, "utf-8")
    return call("audit", "--manifest", tmp_path / "fleet.yaml", "--for-tier", tier, "-o", output)


def problems(tmp_path, tier, *workloads):
    done = checked(tmp_path, tier, *workloads)
    found = json.loads(done.out)["problems"]
    assert done.code == (1 if found else 0), done.err
    return {(each["check"], each["flag"]) for each in found}


@pytest.mark.parametrize(
    ("tier", "args", "expected"),
    [
        ("a100-80", "serve llama-3.1-8b --quantization fp8", ("arithmetic-missing", "--quantization")),
        ("h100-80", "serve llama-3.1-8b --quantization modelopt_fp4", ("arithmetic-missing", "--quantization")),
        ("a100-80", "serve llama-3.1-8b --kv-cache-dtype fp8", ("arithmetic-missing", "--kv-cache-dtype")),
        ("h100-80", "serve qwen3-30b-a3b --tensor-parallel-size 8", ("heads-not-shared", "--tensor-parallel-size")),
        ("h100-80", "serve llama-3.3-70b --tensor-parallel-size 1", ("no-room-for-cache", "--gpu-memory-utilization")),
        ("l4", "serve llama-3.1-8b --max-model-len 131072", ("context-cannot-fit", "--max-model-len")),
        ("h100-80", "serve llama-3.1-8b --max-model-len 200000", ("context-cannot-fit", "--max-model-len")),
        (
            "l4",
            "serve llama-3.1-8b --max-model-len 8192 --max-num-seqs 256",
            ("sequences-beyond-cache", "--max-num-seqs"),
        ),
        ("h100-80", "serve llama-3.1-8b --tensor-parallel-size 3", ("flag-refused", "--tensor-parallel-size")),
        ("h100-80", "serve llama-3.1-8b --gpu-memory-utilization 92", ("flag-refused", "--gpu-memory-utilization")),
        ("h100-80", "serve llama-3.1-8b --max-num-seqs many", ("flag-refused", "--max-num-seqs")),
    ],
)
def test_what_cannot_work_is_named_by_its_flag(tmp_path, tier, args, expected):
    assert expected in problems(tmp_path, tier, ("chat", args))


@pytest.mark.parametrize(
    ("tier", "args"),
    [
        ("h100-80", "serve llama-3.1-8b --quantization fp8 --kv-cache-dtype fp8"),
        ("b200-180", "serve llama-3.1-8b --quantization modelopt_fp4"),
        ("h100-80", "serve qwen3-30b-a3b --tensor-parallel-size 4"),
        ("h100-80", "serve llama-3.3-70b --tensor-parallel-size 4"),
        ("l4", "serve llama-3.1-8b --max-model-len 8192 --max-num-seqs 16"),
        ("h100-80", "--model=llama-3.1-8b --gpu-memory-utilization=0.92"),
    ],
)
def test_what_works_has_no_problem(tmp_path, tier, args):
    assert problems(tmp_path, tier, ("chat", args)) == set()


PRODUCER = """serve llama-3.1-8b --kv-transfer-config {"kv_role":"kv_producer"}"""
CONSUMER = """serve llama-3.1-8b --kv-transfer-config {"kv_role":"kv_consumer"}"""


@pytest.mark.parametrize(
    ("more", "flag"), [("--block-size 64", "--block-size"), ("--kv-cache-dtype fp8", "--kv-cache-dtype")]
)
def test_a_pair_that_cannot_exchange_its_cache_is_named(tmp_path, more, flag):
    pair = [("prefill", PRODUCER), ("decode", f"{CONSUMER} {more}")]
    assert problems(tmp_path, "h100-80", *pair) == {("pair-differs", flag)}
    pair[0] = ("prefill", f"{PRODUCER} {more}")
    assert problems(tmp_path, "h100-80", *pair) == set()


def test_text_is_one_line_for_each_problem_and_each_workload(tmp_path):
    done = checked(
        tmp_path, "l4", ("good", "serve llama-3.1-8b --max-model-len 4096"), ("bad", "serve llama-3.3-70b"),
        ("unknown", "serve my/model"), output="text",
    )  # fmt: skip
    good, lines = "llm/good: no problem found for l4", done.out.splitlines()
    assert done.code == 1 and good in lines
    assert any(line.startswith("llm/bad: --gpu-memory-utilization: weights and the rest take") for line in lines)
    assert any('not evaluated: llm/unknown: --model: no known model "my/model"' in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--for-tier", "h100-80"), "--for-tier requires --manifest FILE"),
        (("--for-tier", "h100", "--manifest", "fleet.yaml"), 'no tier "h100" (did you mean'),
        (("--for-tier", "h100-80", "--manifest", "fleet.yaml", "-o", "html"), "mutually exclusive"),
    ],
)
def test_wrong_use_is_one_line(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.yaml").write_text(WORKLOAD.format(name="chat", args='["serve", "llama-3.1-8b"]'), "utf-8")
    done = call("audit", *arguments)
    assert (done.code, done.out) == (2, "") and words in done.err


def test_nothing_that_could_be_checked_is_unknown(tmp_path):
    assert checked(tmp_path, "h100-80", ("chat", "serve my/model")).code == 3
