"""Prefill and decode pods are played together: what each counted, what they do as one, and what a change of either
does."""

from __future__ import annotations

import pytest
from msgspec.structs import replace as with_fields

from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import Config
from inferdoc.config_sections import PricesSection, TierPrice
from inferdoc.errors import InferdocError
from inferdoc.report.estimates import whatif_text
from inferdoc.simulate.hardware import PartsTime
from inferdoc.simulate.output import write_store
from inferdoc.simulate.pod import step_time
from inferdoc.simulate.scenario import EngineFlags, Expect, Length, PoolSpec, Scenario, Stream
from inferdoc.source.open import open_source
from inferdoc.store import Store
from inferdoc.whatif import calibrate_pair, predict, steps
from inferdoc.whatif.answer import as_document, calibrated_as_observed, changed_for_request
from inferdoc.whatif.live import observed_for_request
from inferdoc.whatif.predict import plays_now, predicted
from inferdoc.whatif.run_simulation import played
from inferdoc.whatif.setting import BOTH_SIDES, of_side, settings_for_request
from inferdoc_dev.incidents.recording import record

pytestmark = pytest.mark.takes_long("a fit takes some ninety plays of the pair")
CATALOGUE = load_catalogue()
LIMITS = (1.5, 0.06)
FEW_REQUESTS, FEWEST_REQUESTS = 1000, 60
PREFILL = PoolSpec("prefill", 2, "l4", role="prefill", flags=EngineFlags(memory_share=0.95), link=2e9)
DECODE = PoolSpec("decode", 2, "l40s", role="decode", link=2e9)
STREAM = Stream(Length(1600, 0.5), Length(100, 0.5), rate=2.4, pattern="waves", burst=0.4, wave=1800.0)


def scenario(seed: int = 1, pools: tuple[PoolSpec, ...] = (PREFILL, DECODE)) -> Scenario:
    return Scenario(
        id="pair",
        title="pair",
        expect=Expect(cause=None),
        pools=pools,
        traffic=(STREAM,),
        duration=910.0,
        warmup=120.0,
        seed=seed,
        start=1_795_000_200.0,
    )


@pytest.fixture(scope="module")
def parted(tmp_path_factory):
    path = tmp_path_factory.mktemp("pair") / "fleet.db"
    with Store.open(path, "w") as fleet:
        write_store(record(scenario()).targets, fleet)
    return path


@pytest.fixture(scope="module")
def pair(parted):
    return observed_for_request(open_source(store=parted), Config(), CATALOGUE, {"history": "1h"})


@pytest.fixture(scope="module")
def calibrated(pair):
    """Fitted as of a larger pair: to every second stretch of prefill, to one of the decode pods."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "MOST_REQUESTS", FEW_REQUESTS)
        return calibrated_as_observed(pair, CATALOGUE, {}, LIMITS)


@pytest.fixture(scope="module")
def rough(pair):
    """Fitted to so little that its numbers are far off."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "MOST_REQUESTS", FEWEST_REQUESTS)
        patch.setattr(steps, "ROUNDS", 1)
        patch.setattr(calibrate_pair, "HOLDOUT_SEEDS", (101,))
        return calibrated_as_observed(pair, CATALOGUE, {}, LIMITS)


@pytest.fixture(scope="module")
def before(calibrated):
    return plays_now(calibrated)


def test_both_pools_are_found_over_the_same_minutes(pair):
    assert [side.pool.role for side in pair.sides] == ["prefill", "decode"]
    assert pair.prefill.begin == pair.decode.begin
    assert pair.prefill.intervals == pair.decode.intervals


def test_one_of_the_two_names_both(parted, pair):
    asked = {"history": "1h", "pool": pair.decode.name}
    named = observed_for_request(open_source(store=parted), Config(), CATALOGUE, asked)
    assert named.name == pair.name


@pytest.mark.slow
def test_the_link_is_told_by_what_reads_take_less_what_they_wait_for_each_other(calibrated):
    assert calibrated.setting.decode.link == pytest.approx(DECODE.link, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("side", "spec", "step"),
    [
        ("prefill", PREFILL, (0, 0.0, 900, 450.0, 1)),
        ("prefill", PREFILL, (0, 0.0, 2500, 600.0, 3)),
        ("decode", DECODE, (4, 4000.0, 0, 0.0, 4)),
        ("decode", DECODE, (12, 12000.0, 0, 0.0, 12)),
    ],
)
def test_steps_of_each_side_last_as_long_as_those_of_the_real_machine(calibrated, side, spec, step):
    real, fitted = step_time(spec), PartsTime(getattr(calibrated.setting, side).parts)
    assert fitted.step(*step).seconds == pytest.approx(real.step(*step).seconds, rel=0.12)


@pytest.mark.slow
def test_what_clients_wait_is_more_than_what_either_side_counts(calibrated):
    play = played(calibrated.setting.scenario(1), apart=True)
    first = play.times["vllm:time_to_first_token_seconds"].quantile(0.5)
    assert first > play.waits["prefill"].quantile(0.5) > 0
    assert first > play.waits["decode"].quantile(0.5) > 0


@pytest.mark.slow
def test_the_held_half_is_predicted(calibrated):
    held = {each.name: each for each in calibrated.holdout}
    assert {"ttft_prefill_p50", "ttft_decode_p50", "itl_p50", "served", "goodput"} <= set(held)
    for name, off in (("itl_p50", 0.1), ("served", 0.08), ("ttft_prefill_p50", 0.25)):
        assert abs(held[name].off) < off, held[name]


def change(calibrated, before, *texts):
    wanted = settings_for_request(texts, "--set")
    return predicted(calibrated, changed_for_request(calibrated, wanted, CATALOGUE), before)


@pytest.fixture(scope="module")
def more(calibrated, before):
    """One prefill pod more, for one decode pod less."""
    return change(calibrated, before, "prefill.replicas=3", "decode.replicas=1")


@pytest.mark.slow
def test_another_ratio_of_prefill_to_decode_moves_the_first_token_as_it_does_in_truth(calibrated, before, more):
    """Prefill is short of time: one pod less is too few, one more takes the wait away, with as many pods in all."""
    fewer = change(calibrated, before, "prefill.replicas=1", "decode.replicas=3")
    assert (fewer.row("ttft_p99").move, fewer.row("goodput").move) == ("worse", "worse")
    assert more.row("ttft_p99").move == "better"
    truth = played(scenario(5, (with_fields(PREFILL, pods=3), with_fields(DECODE, pods=1))), begin=60.0, apart=True)
    band = more.row("ttft_p50").then
    assert band.low <= truth.times["vllm:time_to_first_token_seconds"].quantile(0.5) <= band.high


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["replicas=3"], "prefill.replicas or decode.replicas"),
        (["tier=h100-80"], "prefill.tier or decode.tier"),
        (["prefill.draft-tokens=3"], "drafts are of decode"),
    ],
)
def test_what_cannot_be_is_one_line(rough, texts, words):
    with pytest.raises(InferdocError) as refused:
        changed_for_request(rough, settings_for_request(texts, "--set"), CATALOGUE)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_side_is_refused_where_pods_do_both(calibrated_pool):
    with pytest.raises(InferdocError, match="do both phases") as refused:
        changed_for_request(calibrated_pool, settings_for_request(["prefill.replicas=3"], "--set"), CATALOGUE)
    assert "inferdoc headroom" in str(refused.value)


def test_a_side_without_the_other_is_one_line(tmp_path):
    targets = record(scenario()).targets
    with Store.open(tmp_path / "half.db", "w") as half:
        write_store([each for each in targets if each.labels.get("pod", "").startswith("decode")], half)
    with pytest.raises(InferdocError, match="no prefill pool") as refused:
        observed_for_request(open_source(store=tmp_path / "half.db"), Config(), CATALOGUE, {"history": "1h"})
    assert "\n" not in str(refused.value)


def test_the_document_tells_both_sides_and_their_money(pair, rough, monkeypatch):
    monkeypatch.setattr(predict, "SEEDS", predict.SEEDS[:2])
    monkeypatch.setattr(predict, "DRAWS", predict.DRAWS[:2])
    more = change(rough, plays_now(rough), "prefill.replicas=3", "decode.replicas=1")
    prices = PricesSection("USD", tiers={"l4": TierPrice(0.8), "l40s": TierPrice(2.0)})
    wanted = {"prefill.replicas": "3", "decode.replicas": "1"}
    asked = changed_for_request(
        rough, settings_for_request([f"{k}={v}" for k, v in wanted.items()], "--set"), CATALOGUE
    )
    document = as_document(pair, rough, asked, more, wanted, Config(prices=prices))
    rows = {each.name: each for each in document.rows}
    assert [rows[f"{side}_replicas"].then.value for side in ("prefill", "decode")] == [3, 1]
    assert (rows["gpus"].now.value, rows["gpus"].then.value) == (4, 4)
    assert rows["money"].now.value == pytest.approx(2 * 0.8 + 2 * 2.0)
    assert rows["money"].then.value == pytest.approx(3 * 0.8 + 1 * 2.0)
    assert {"prefill.token", "decode.weights"} <= set(document.machine)
    text = whatif_text(document, verbose=True)
    assert "prefill.replicas 3, decode.replicas 1" in text and "first token, decode pods, p99" in text


def test_settings_of_a_side_are_its_own_and_those_of_both():
    asked = settings_for_request(["prefill.replicas=3", "decode.replicas=5", "traffic=1.5", "draft-tokens=2"], "--set")
    assert of_side(asked, "prefill") == {"replicas": 3, "traffic": 1.5}
    assert of_side(asked, "decode") == {"replicas": 5, "traffic": 1.5, "draft-tokens": 2}


@pytest.mark.parametrize("text", ["prefill.traffic=2", "prefil.replicas=2", "prefill.=2", "decode.router=random"])
def test_a_key_that_no_side_has_is_one_line(text):
    with pytest.raises(InferdocError, match="no setting"):
        settings_for_request([text], "--set")


CHANGES = {
    "replicas": 4,
    "tier": "h100-80",
    "max-num-seqs": 64,
    "batch-tokens": 4096,
    "chunk-tokens": 512,
    "kv-dtype": "fp8",
    "kv-tokens": 9000,
    "router": "round-robin",
    "traffic": 1.5,
    "prompts": 2.0,
    "answers": 0.5,
}


@pytest.mark.parametrize("key", CHANGES)
def test_whatever_may_change_does_so_on_one_pool_and_on_either_side(rough, calibrated_pool, key):
    one = changed_for_request(calibrated_pool, {key: CHANGES[key]}, CATALOGUE)
    assert one.setting != calibrated_pool.setting
    for side in (None,) if key in BOTH_SIDES else ("prefill", "decode"):
        asked = key if side is None else f"{side}.{key}"
        parted = changed_for_request(rough, {asked: CHANGES[key]}, CATALOGUE).setting
        assert parted != rough.setting, asked
        other = {"prefill": "decode", "decode": "prefill"}.get(side)
        assert other is None or getattr(parted, other) == getattr(rough.setting, other)


def test_drafts_are_played_on_one_pool_and_on_decode(rough, calibrated_pool):
    drafts = {"draft-tokens": 3, "accepted": (0.8, 0.6, 0.4)}
    assert changed_for_request(calibrated_pool, drafts, CATALOGUE).setting.draft_tokens == 3
    parted = changed_for_request(rough, drafts, CATALOGUE).setting
    assert (parted.prefill.draft_tokens, parted.decode.draft_tokens) == (0, 3)
