"""`inferdoc size` over several tiers: one decision, why, and why not the others."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.sizing.choice import considered, pool_pair
from inferdoc.sizing.request import sizing_inputs
from tests.cli.command import call

LENGTHS = ("--prompt-tokens", "4000", "--output-tokens", "200")
RAG = ("size", "--model", "llama-3.3-70b", *LENGTHS, "--rate", "20", "--slo", "ttft=2s,itl=50ms")
PRICES = ("--price", "h100-80=3,h200-141=3.5,a100-80=1.6,l40s=1.2")
FEW = "h100-80,h200-141,a100-80,l40s,t4"


def decision(*arguments):
    done = call(*arguments, "-o", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def refusal(*arguments):
    done = call(*arguments)
    assert done.code == 2 and done.out == ""
    assert done.err.count("\n") == 1, done.err
    return done.err


@pytest.fixture(scope="module")
def rag():
    return decision(*RAG, "--tier", FEW, *PRICES)


def test_rows_are_sorted_by_cost_and_those_without_a_price_come_last(rag):
    months = [row["month"] for row in rag["rows"] if row["month"] is not None]
    assert months == sorted(months) and rag["sorted_by"] == "month"
    unpriced = [row["month"] is None for row in decision(*RAG, "--tier", FEW, "--price", "a100-80=9")["rows"]]
    assert unpriced == sorted(unpriced) and True in unpriced
    assert decision(*RAG, "--tier", FEW)["sorted_by"] == "gpus"


def test_a_row_is_what_one_tier_is_sized_to(rag):
    """The first layout of a tier and precision is that of `--tier` alone, with the same GPUs and money."""
    row = next(r for r in rag["rows"] if (r["tier"], r["dtype"], r["mode"]) == ("h100-80", "bf16", "aggregated"))
    alone = decision(*RAG, "--tier", "h100-80", *PRICES)
    found = {each["name"]: each["value"] for part in alone["parts"] for each in part["numbers"]}
    assert (row["layout"], row["gpus"]) == (alone["layout"], alone["gpus"])
    assert row["month"] == pytest.approx(730 * found["hour"]) and row["million"] == pytest.approx(found["million"])
    assert row["ttft_p95"] == pytest.approx(found["ttft_p95"]) and row["itl"] == pytest.approx(found["itl_mean"])
    assert row["gpus_low"] <= row["gpus"] <= row["gpus_high"]


def test_every_way_is_taken_or_has_a_reason(rag):
    assert all(row["why"] == "" and row["bound"] and row["headroom"] >= 0 for row in rag["rows"])
    assert all(row["why"] for row in rag["rejected"])
    reasons = " ".join(f"{row['tier']} {row['mode']} {row['why']};" for row in rag["rejected"])
    assert "two pools pay from 15 % on" in reasons and "GPUs, " in reasons
    assert {row["tier"] for row in (*rag["rows"], *rag["rejected"])} == set(FEW.split(","))


def test_the_front_holds_the_ways_that_none_beats(rag):
    rows = [row for row in rag["rows"] if row["month"] is not None]
    for row in rows:
        beaten = any(
            (o["month"], o["request"]) != (row["month"], row["request"])
            and o["month"] <= row["month"] and o["request"] <= row["request"] for o in rows
        )  # fmt: skip
        assert row["pareto"] is not beaten


def test_prefill_and_decode_have_their_own_layouts():
    """Tight gaps between tokens want a wide group for decode; prompts want the smallest that keeps the objective."""
    options = {"model": "llama-3.3-70b", "tier": "h100-80", "prompt_tokens": "4000", "output_tokens": "200",
             "rate": 20.0, "ttft": "2s", "itl": "30ms", "dtype": "fp8"}  # fmt: skip
    sizing = sizing_inputs(options, load_catalogue())
    pair = pool_pair(sizing, [row.sized for row in considered(sizing)])
    assert pair is not None and pair.prefill.layout != pair.decode.layout
    for layout in sizing.layouts:
        same = pool_pair(sizing, [row.sized for row in considered(replace(sizing, layouts=(layout,)))])
        assert same is None or pair.gpus <= same.gpus
    assert pair.ttft_p95 <= 2.0 and pair.itl <= 0.03


def test_a_slow_network_keeps_prefill_and_decode_together():
    """524 MB of a prompt take 0.42 s over the 12.5 Gb/s of an L4, more than a fifth of the TTFT objective."""
    done = decision("size", "--model", "llama-3.1-8b", "--prompt-tokens", "4000,4000", "--output-tokens", "200",
                    "--rate", "20", "--slo", "ttft=2s,itl=200ms", "--tp", "1", "--tier", "l40s,l4")  # fmt: skip
    reasons = {row["tier"]: row["why"] for row in done["rejected"] if row["mode"] == "P/D" and row["dtype"] == "bf16"}
    assert "KV transfer takes" in reasons["l4"]
    assert "KV transfer takes" not in reasons.get("l40s", "")


def test_experts_are_also_spread_over_data_parallel_ranks():
    done = decision("size", "--model", "qwen3-235b-a22b", *LENGTHS, "--rate", "5", "--tier", "h200-141,b200-180")
    layouts = {row["layout"] for row in (*done["rows"], *done["rejected"])}
    assert any("EP 8" in layout for layout in layouts) and any("EP" not in layout for layout in layouts)


def test_the_html_page_draws_every_priced_way_and_loads_nothing(rag):
    done = call(*RAG, "--tier", FEW, *PRICES, "-o", "html")
    assert done.code == 0, done.err
    page = done.out
    svg = ET.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    drawn = [each for each in svg.iter() if each.get("id", "").startswith("PathCollection")]
    assert len(drawn) == sum(row["month"] is not None for row in rag["rows"])
    assert "<script" not in page and "http-equiv" in page and rag["summary"].split(":")[0] in page


def test_the_text_names_the_taken_way_first_and_fits(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    done = call(*RAG, "--tier", FEW, *PRICES)
    assert max(map(len, done.out.splitlines())) <= 100
    assert done.out.index("next tier") < done.out.index("rejected")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tier", "any", *LENGTHS), "give --rate or --concurrency"),
        (("--tier", "h100-80,h10-80", *LENGTHS, "--rate", "1"), 'no tier "h10-80" (did you mean'),
        (("--tier", "any", *LENGTHS, "--rate", "1", "--slo", "tpot=1s"), "--slo tpot=1s: expected ttft=2s,itl=50ms"),
        (("--tier", "any", *LENGTHS, "--rate", "1", "--slo", "ttft=1s", "--ttft", "1s"), "mutually exclusive"),
        (("--tier", "any", *LENGTHS, "--rate", "1", "--price", "h100=3"), 'no tier "h100"'),
        (("--tier", "any", *LENGTHS, "--rate", "1", "--price", "h100-80=x"), "expected money of a GPU-hour"),
        (("--tier", "t4,l4", *LENGTHS, "--rate", "1", "--slo", "itl=1ms"), "no tier serves this load"),
    ],
)
def test_what_cannot_be_decided_is_one_line(arguments, words):
    assert words in refusal("size", "--model", "llama-3.1-8b", *arguments)


def test_the_rag_case_of_the_guide_differs_by_its_shares():
    """1.02 and 0.26 GPU-s at all of the shares; nine tenths are expected, and all-reduces come on top."""
    done = decision("size", "--model", "llama-3.3-70b", "--tier", "h100-80", "--tp", "4", "--rate", "20",
                    "--safety", "1", "--prompt-tokens", "4000,4000", "--output-tokens", "200,200",
                    "--slo", "ttft=2s,itl=50ms")  # fmt: skip
    found = {each["name"]: each for part in done["parts"] for each in part["numbers"]}
    assert found["prefill_gpu_seconds"]["value"] == pytest.approx(1.0209 / 0.9, rel=0.03)
    assert found["decode_gpu_seconds"]["value"] == pytest.approx(0.2602 / 0.9, rel=0.05)
    assert (found["prefill_gpus"]["value"], found["decode_gpus"]["value"], done["gpus"]) == (32, 8, 40)


def test_the_cost_case_of_the_guide_is_nine_tenths_of_its_speed():
    done = decision("size", "--model", "llama-3.3-70b", "--tier", "h100-80", "--tp", "4", "--rate", "25", "--safety",
                    "1.2", "--prompt-tokens", "2048,2048", "--output-tokens", "256,256", "--price", "h100-80=3",
                    "--slo", "ttft=2s,itl=53.4ms")  # fmt: skip
    found = {each["name"]: each["value"] for part in done["parts"] for each in part["numbers"]}
    assert found["million_busy"] == pytest.approx((8 * 0.21 + 1.08) / 0.9, rel=0.05)
    assert done["replicas"] == 7


CHAT = "chat share=0.75 prompt=1000,2000 output=300,600 ttft=1s"
RAGS = "rag share=0.25 prompt=8000,12000 output=100,200 ttft={}"
CLASSES = ("size", "--model", "llama-3.3-70b", "--tier", "h100-80", "--dtype", "fp8", "--rate", "12", "--class", CHAT)


def test_classes_keep_their_own_objectives_in_one_pool():
    def sized(*more):
        document = decision(*CLASSES, *more)
        return document, {each["name"]: each["value"] for part in document["parts"] for each in part["numbers"]}

    loose, found = sized("--class", RAGS.format("3s"))
    assert found["ttft_p95_chat"] < 1.0 and found["ttft_p95_chat"] < found["ttft_p95_rag"] < 3.0
    tight, _ = sized("--class", RAGS.format("900ms"))
    assert tight["gpus"] > loose["gpus"]
    batch, _ = sized("--class", RAGS.format("none"))
    assert batch["gpus"] <= loose["gpus"]


def test_a_class_alone_is_the_same_as_its_lengths():
    one = decision(*CLASSES[:-2], "--class", CHAT.replace("0.75", "1"), "--slo", "itl=50ms")
    plain = decision(*CLASSES[:-2], "--prompt-tokens", "1000,2000", "--output-tokens", "300,600", "--slo",
                     "ttft=1s,itl=50ms")  # fmt: skip
    assert (one["layout"], one["gpus"]) == (plain["layout"], plain["gpus"])


def test_a_pool_for_each_class_is_one_of_the_ways():
    arguments = list(CLASSES)
    arguments[arguments.index("h100-80")] = "h100-80,h200-141"
    done = decision(*arguments, "--class", RAGS.format("3s"))
    found = [row for row in (*done["rows"], *done["rejected"]) if row["mode"] == "pool per class"]
    assert found and all(len(row["replicas"]) == 2 and "chat" in row["layout"] for row in found)
    aggregated = min(row["gpus"] for row in done["rows"] if row["mode"] == "aggregated")
    assert done["rows"][0]["gpus"] == min(aggregated, *(row["gpus"] for row in found))


@pytest.mark.parametrize(
    ("one", "words"),
    [
        ("chat share=0.5 prompt=9 output=9", "the shares add up to 0.5"),
        ("chat share=1 prompt=9", "expected for example"),
        ("chat share=1 prompt=x output=9", "--class chat prompt x: expected the mean"),
        ("chat share=2 prompt=9 output=9", "expected shares of 0 to 1"),
        ("chat share=1 prompt=9 output=9 ttft=soon", "is not a duration"),
        ("", "expected for example"),
    ],
)
def test_a_class_that_says_nothing_is_one_line(one, words):
    assert words in refusal(*CLASSES[:-2], "--class", one)


AGENT = "agent share=0.25 prompt=8000,12000 output=200,400 prefix=0.8 turns=20 budget={}"


def test_a_session_budget_gives_each_turn_its_objective():
    """15 s a turn less 200 tokens of 50 ms leave 5 s to the first token; 11 s leave 1 s."""
    loose = decision(*CLASSES, "--class", AGENT.format("5m"))
    tight = decision(*CLASSES, "--class", AGENT.format("220s"))
    assert any("class agent: TTFT p95 of a turn 5 s" in each for each in loose["assumed"])
    limits = {each["name"]: each["value"] for part in tight["parts"] for each in part["numbers"]}
    assert limits["ttft_p95_agent"] <= 1.0
    assert tight["gpus"] >= loose["gpus"]


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (AGENT.format("3m"), "take 200 s at the ITL objective alone, more than the budget of 3m"),
        (AGENT.replace("turns=20 ", "").format("3m"), "expected turns and budget"),
        (AGENT.replace("turns=20", "turns=none").format("5m"), "expected turns and budget"),
        (AGENT.format("5m") + " ttft=1s", "mutually exclusive"),
    ],
)
def test_a_session_that_cannot_keep_its_budget_is_one_line(one, words):
    assert words in refusal(*CLASSES, "--class", one)


NIGHT = "requests={} prompt=3000 output=300 window=8h load=0.2"
BATCH = ("size", "--model", "llama-3.1-8b", "--tier", "h100-80", "--dtype", "bf16", "--kv-dtype", "bf16", "--tp", "1",
         "--prompt-tokens", "2000", "--output-tokens", "300", "--rate", "20")  # fmt: skip


def test_an_off_peak_job_uses_the_replicas_of_the_peak_and_adds_those_it_lacks():
    plain = decision(*BATCH, "--tier", "h100-80,t4")["rows"][0]
    small = decision(*BATCH, "--batch", NIGHT.format(20_000))["rows"][0]
    large = decision(*BATCH, "--batch", NIGHT.format(2_000_000))["rows"][0]
    assert small["gpus"] == plain["gpus"] and 0 < small["batch"] < 8 * 3600
    assert large["gpus"] > small["gpus"] and 0.8 * 8 * 3600 < large["batch"] <= 8 * 3600
    twice = decision(*BATCH, "--batch", NIGHT.format(40_000))["rows"][0]
    assert twice["batch"] == pytest.approx(2 * small["batch"])


CASCADE = ("size", "--model", "llama-3.1-8b", "--tier", "h100-80", *LENGTHS, "--rate", "20", "--price", "h100-80=3",
           "--escalate-to", "llama-3.3-70b")  # fmt: skip


def test_a_cascade_costs_both_pools_and_waits_for_both_answers():
    def alone(model, rate):
        return decision("size", "--model", model, "--tier", "h100-80,t4", *LENGTHS, "--rate", rate,
                        "--price", "h100-80=3")["rows"][0]  # fmt: skip

    done = decision(*CASCADE, "--escalated", "0.2")
    found = next(row for row in done["rows"] if row["mode"] == "cascade")
    small, large, whole = alone("llama-3.1-8b", "20"), alone("llama-3.3-70b", "4"), alone("llama-3.3-70b", "20")
    assert found["gpus"] == small["gpus"] + large["gpus"] and found["month"] == small["month"] + large["month"]
    assert found["request"] == pytest.approx(small["request"] + 0.2 * large["request"])
    assert found["ttft_p95"] == pytest.approx(small["request"] + large["ttft_p95"])
    assert found["million"] == pytest.approx(found["month"] / 730 / (20 * 200 * 3600) * 1e6)
    single = [row for row in done["rows"] if row["layout"].startswith("llama-3.3-70b alone")]
    assert min(row["month"] for row in single) == whole["month"]


def test_a_cascade_that_escalates_most_requests_is_not_the_cheapest():
    few, most = (decision(*CASCADE, "--escalated", share)["rows"][0] for share in ("0.1", "0.95"))
    assert few["mode"] == "cascade" and most["mode"] == "aggregated"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*CASCADE,), "--escalate-to and --escalated are needed together"),
        ((*CASCADE, "--escalated", "1.5"), "expected the share of requests that the large model gets"),
        ((*CASCADE, "--escalated", "nan"), "expected the share of requests that the large model gets"),
        ((*BATCH, "--batch", "requests=5"), 'expected for example "requests=200000'),
        ((*BATCH, "--batch", NIGHT.format("nan")), 'expected for example "requests=200000'),
        ((*BATCH, "--batch", NIGHT.format(5).replace("8h", "1y")), "is not a duration"),
        ((*BATCH[:-2], "--batch", NIGHT.format(5)), "--batch needs --rate"),
        ((*CASCADE, "--escalated", "0.2", "--steps"), "--steps needs one tier"),
        (("size", "--model", "x" * 5000, "--tier", "h100-80", *LENGTHS), "cannot be read: File name too long"),
    ],
)
def test_what_no_decision_can_use_is_one_line(arguments, words):
    assert words in refusal(*arguments)


def test_the_thirteen_steps_are_those_of_the_sizing():
    options = (*RAG[:3], "--tier", "h100-80", *RAG[3:], "--accepted", "0.8,0.6", "--price", "h100-80=3")
    done, document = call(*options, "--steps"), decision(*options)
    numbers = {each["name"]: each["value"] for part in document["parts"] for each in part["numbers"]}
    assert done.code == 0 and [line for line in done.out.splitlines() if line.startswith("13  cost")]
    assert f"{document['replicas']} replicas, {document['gpus']} GPUs" in done.out
    assert f"{numbers['streams']:.0f} requests within the objectives" in done.out
    assert f"{numbers['hour']:.0f} USD an hour" in done.out
    bare = call("size", "--model", "llama-3.1-8b", "--tier", "h100-80", *LENGTHS, "--steps")
    assert "not sized: give --rate or --concurrency" in bare.out
