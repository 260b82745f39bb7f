"""One cause on one unit: symptoms, harm, what rules it out, how sure, which stage, and what an SLO changes."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from inferdoc.catalogue.conditions import AnyOf
from inferdoc.catalogue.recipe import Stage
from inferdoc.config_sections import SloSection
from inferdoc.judging.conditions import registry
from inferdoc.judging.judge import can_judge, judge, ongoing
from inferdoc.judging.match import judge_recipe
from tests.judging.frames import (
    CALM,
    STEP_S,
    WINDOW,
    N,
    catalogue,
    declared,
    recipe,
    scene,
    step,
    unit_of,
    when,
    wobble,
)

JUMP, FLAT = step(10, 30), np.full(N, 10.0)
LATE = step(0.1, 0.4, at=CALM + 3)
SYMPTOM, HARM = when("load", rises=2), when("latency", rises=2)
SUPPORT, PROOF = when("queue", rises=2), when("moving", rises=2)


def verdict(cause, who="p0", labels=None, slo=(), **rows):
    context = scene({name: {"p0": values} for name, values in rows.items()}, labels, slo=slo)
    unit = unit_of(context, who)
    return judge_recipe(cause, context, [unit])[unit]


def certainty(cause, **rows):
    found = verdict(cause, **rows).match
    assert found is not None
    return found.certainty


# ---- symptoms and harm ----------------------------------------------------------------------------------------------


def test_symptoms_and_harm_make_a_match():
    found = verdict(recipe(symptoms=[SYMPTOM], harm=[HARM]), load=JUMP, latency=LATE)
    assert found.match is not None and found.against == "" and found.missing == ()
    assert (found.match.onset, found.match.last) == (CALM, N - 1)
    assert found.match.evidence[1].outcome.first == CALM + 3
    assert [e.role for e in found.match.evidence] == ["symptom", "harm"]


def test_no_harm_no_finding():
    found = verdict(recipe(symptoms=[SYMPTOM], harm=[HARM]), load=JUMP, latency=np.full(N, 0.1))
    assert found.match is None
    assert found.against.startswith("no impact: ")


def test_a_change_for_the_better_is_no_harm():
    assert verdict(recipe(symptoms=[SYMPTOM], harm=[HARM]), load=JUMP, latency=step(0.4, 0.1)).match is None


def test_one_harm_of_several_is_enough():
    cause = recipe(symptoms=[SYMPTOM], harm=[when("speed", falls=0.5), HARM])
    found = verdict(cause, load=JUMP, latency=LATE, speed=FLAT)
    assert found.match is not None
    assert [e.outcome.signal for e in found.match.evidence if e.role == "harm"] == ["latency"]


def test_all_symptoms_must_hold():
    cause = recipe(symptoms=[SYMPTOM, when("speed", falls=0.5)], harm=[HARM])
    found = verdict(cause, load=JUMP, latency=LATE, speed=FLAT)
    assert found.match is None and "does not fall" in found.against


def test_symptoms_must_overlap_in_time():
    cause = recipe(symptoms=[SYMPTOM, when("queue", rises=2)], harm=[HARM])
    apart = verdict(cause, load=step(10, 30, until=CALM + 15), queue=step(1, 9, at=CALM + 30), latency=LATE)
    assert apart.match is None and "overlap" in apart.against
    together = verdict(cause, load=JUMP, queue=step(1, 9, at=CALM + 30), latency=LATE)
    assert together.match is not None and together.match.onset == CALM, "the first symptom to leave its calm"


def test_a_level_that_was_reached_for_a_moment_before_does_not_hide_that_it_is_reached_now():
    full = when("load", above=20, share_of=0.5)
    queue = when("queue", rises=2)
    level = step(10, 30)
    level[5:20] = 30
    found = verdict(recipe(symptoms=[full, queue], harm=[HARM]), load=level, queue=JUMP, latency=LATE).match
    assert found is not None and found.evidence[0].outcome.first == CALM
    before = np.where(np.arange(N) < 20, level, 10.0)
    found = verdict(recipe(symptoms=[full, queue], harm=[HARM]), load=before, queue=JUMP, latency=LATE)
    assert found.match is None and "do not overlap" in found.against


def test_harm_before_the_mechanism_is_not_compared_with_itself():
    """Latency that was bad long before: after the onset it is no worse than its calm."""
    assert verdict(recipe(symptoms=[SYMPTOM], harm=[HARM]), load=JUMP, latency=step(0.1, 0.4, at=10)).match is None


def test_what_is_missing_is_not_against_it():
    cause = recipe(symptoms=[SYMPTOM, when("ghost", above=1)], harm=[HARM])
    found = verdict(cause, load=JUMP, latency=LATE)
    assert found.match is None and found.missing == ("ghost",)
    ruled = verdict(recipe(symptoms=[when("ghost", above=1), SYMPTOM], harm=[HARM]), load=FLAT, latency=LATE)
    assert ruled.missing == ("ghost",), "the first symptom that cannot be told stops"


def test_a_role_that_a_cause_cannot_have():
    cause = recipe(symptoms=[SYMPTOM], harm=[HARM], roles=("decode",))
    labels = {"p0": {"role": "prefill"}}
    found = verdict(cause, labels=labels, load=JUMP, latency=LATE)
    assert found.match is None and not found.applies and "prefill" in found.against
    assert verdict(cause, labels={"p0": {"role": "decode"}}, load=JUMP, latency=LATE).match is not None


def test_what_rules_it_out_says_why():
    cause = recipe(symptoms=[SYMPTOM], harm=[HARM], unless=[when("speed", falls=0.5, because="the pod slows down")])
    found = verdict(cause, load=JUMP, latency=LATE, speed=step(10, 1))
    assert found.match is None and found.against.startswith("the pod slows down: ")
    assert verdict(cause, load=JUMP, latency=LATE, speed=FLAT).match is not None
    early = step(10, 1, at=25, until=CALM)
    assert verdict(cause, load=JUMP, latency=LATE, speed=early).match is not None, "only during the episode"


# ---- how sure -------------------------------------------------------------------------------------------------------


def test_proven_when_every_rival_was_seen_and_the_mechanism_came_first():
    assert certainty(recipe(symptoms=[SYMPTOM], harm=[HARM]), load=JUMP, latency=LATE) == "proven"


@pytest.mark.parametrize(("rival", "sure"), [("ghost", "likely"), ("optional_ghost", "proven")])
def test_a_rival_that_cannot_be_seen_is_a_doubt_unless_its_feature_is_off(rival, sure):
    cause = recipe(symptoms=[SYMPTOM], harm=[HARM], unless=[when(rival, above=1)])
    assert certainty(cause, load=JUMP, latency=LATE) == sure


@pytest.mark.parametrize(("role", "sure"), [("decode", "likely"), ("both", "proven")])
def test_what_passes_between_the_roles_is_not_off_where_they_run_apart(role, sure):
    handed = structs.replace(declared("handed", feature=True), between_roles=True)
    cause = recipe(symptoms=[SYMPTOM], harm=[HARM], unless=[when("handed", above=1)])
    context = scene({"load": {"p0": JUMP}, "latency": {"p0": LATE}}, {"p0": {"role": role}}, {"handed": handed})
    (match,) = (found.match for found in judge_recipe(cause, context, context.view.units).values())
    assert match.certainty == sure and bool(match.doubts) == (sure == "likely")


def test_declared_support_that_is_not_there_is_a_doubt():
    cause = recipe(symptoms=[SYMPTOM], harm=[HARM], support=[SUPPORT])
    assert certainty(cause, load=JUMP, latency=LATE, queue=FLAT) == "likely"
    assert certainty(cause, load=JUMP, latency=LATE, queue=JUMP) == "proven"


def test_declared_proof_that_is_not_there_is_a_doubt():
    cause = recipe(symptoms=[SYMPTOM], harm=[HARM], proof=[PROOF])
    assert certainty(cause, load=JUMP, latency=LATE) == "likely"
    assert certainty(cause, load=JUMP, latency=LATE, moving=FLAT) == "likely"
    assert certainty(cause, load=JUMP, latency=LATE, moving=JUMP) == "proven"


def test_a_cause_says_no_more_than_it_may():
    assert certainty(recipe(symptoms=[SYMPTOM], harm=[HARM], at_most="possible"), load=JUMP, latency=LATE) == "possible"
    assert certainty(recipe(symptoms=[SYMPTOM], harm=[HARM], at_most="likely"), load=JUMP, latency=LATE) == "likely"


def test_without_an_optional_signal_it_is_only_possible():
    cause = recipe(symptoms=[SYMPTOM], harm=[HARM], optional=("ghost",))
    assert certainty(cause, load=JUMP, latency=LATE) == "possible"
    seen = recipe(symptoms=[SYMPTOM], harm=[HARM], optional=("speed",))
    assert certainty(seen, load=JUMP, latency=LATE, speed=FLAT) == "proven"


def test_what_held_from_the_start_has_no_beginning_to_prove():
    cause = recipe(symptoms=[when("load", above=20)], harm=[when("latency", above=0.3)])
    found = verdict(cause, load=np.full(N, 30.0), latency=np.full(N, 0.4)).match
    assert found is not None and found.from_start and found.onset == 0 and found.certainty == "likely"


# ---- stages and severity --------------------------------------------------------------------------------------------


def test_the_furthest_stage_counts():
    stages = (Stage("fills", SYMPTOM), Stage("queues", SUPPORT), Stage("collapses", when("speed", falls=0.5)))
    cause = recipe(symptoms=[SYMPTOM], harm=[HARM], stages=stages)
    for more, number, name, first in (
        ({}, 1, "fills", CALM),
        ({"queue": step(1, 9, at=CALM + 9)}, 2, "queues", CALM + 9),
        ({"speed": step(10, 1, at=CALM + 15)}, 3, "collapses", CALM + 15),
    ):
        stage = verdict(cause, load=JUMP, latency=LATE, **more).match.stages[-1]
        assert (stage.number, stage.name, stage.first) == (number, name, first)


@pytest.mark.parametrize(("after", "critical"), [(0.4, False), (20.0, True)])
def test_bad_enough_is_critical(after, critical):
    cause = recipe(symptoms=[SYMPTOM], harm=[HARM], critical_when=when("latency", above=10))
    assert verdict(cause, load=JUMP, latency=step(0.1, after)).match.critical is critical


# ---- SLOs -----------------------------------------------------------------------------------------------------------

TTFT = recipe(symptoms=[SYMPTOM], harm=[when("ttft_mean", rises=1.5, share_of=0.5)])


def with_slo(limit, ttft, model=None, tier=None, labels=None):
    slo = [SloSection({"ttft_p99": limit}, model, tier)]
    return verdict(TTFT, labels=labels, slo=slo, load=JUMP, ttft_mean=ttft, ttft_p99=ttft).match


def test_an_slo_replaces_the_relative_test():
    doubled = step(0.2, 0.5)
    assert verdict(TTFT, load=JUMP, ttft_mean=doubled, ttft_p99=doubled).match is not None
    assert with_slo(2.0, doubled) is None, "slower than before, but within what was promised"
    found = with_slo(0.4, doubled)
    assert found is not None
    (harm,) = (e.outcome for e in found.evidence if e.role == "harm")
    assert harm.signal == "ttft_p99" and harm.threshold == 0.4


@pytest.mark.parametrize(("of_ten", "broken"), [(2, False), (4, True)])
def test_an_slo_is_broken_in_a_third_of_the_windows(of_ten, broken):
    count = 400
    ttft = np.where((np.arange(count) >= CALM) & (np.arange(count) % 10 < of_ten), 3.0, 0.2)
    slo = [SloSection({"ttft_p99": 2.0})]
    found = verdict(TTFT, slo=slo, load=step(10, 30, count=count), ttft_mean=ttft, ttft_p99=ttft)
    assert (found.match is not None) is broken


@pytest.mark.parametrize(
    ("model", "tier", "applies"),
    [(None, None, True), ("m", None, True), ("other", None, False), (None, "l4", True), (None, "h100-80", False)],
)
def test_an_slo_speaks_of_a_model_and_a_tier(model, tier, applies):
    """Where it does not apply the relative test counts, which holds here."""
    found = with_slo(2.0, step(0.2, 0.5), model, tier, labels={"p0": {"tier": "l4"}})
    assert (found is None) is applies


def test_the_more_particular_slo_wins():
    slo = [SloSection({"ttft_p99": 0.1}, "m"), SloSection({"ttft_p99": 9.0})]
    context = scene({"load": {"p0": FLAT}}, slo=slo)
    assert context.limits(unit_of(context)) == {"ttft_p99": 0.1}


def test_an_slo_leaves_other_harm_alone():
    cause = recipe(symptoms=[SYMPTOM], harm=[when("itl_mean", rises=1.5)])
    slo = [SloSection({"ttft_p99": 9.0})]
    assert verdict(cause, slo=slo, load=JUMP, itl_mean=step(0.01, 0.05)).match is not None


# ---- on all units ---------------------------------------------------------------------------------------------------


def judged(cause, rows, labels=None):
    context = scene(rows, labels)
    return judge(context, {cause.id: cause}), context


def test_a_cause_of_the_pool_needs_its_share():
    cause = recipe(symptoms=[SYMPTOM], harm=[HARM], pool_share=0.7, scope="pool")
    for hit, found in ((1, 0), (2, 0), (3, 1), (4, 1)):
        rows = {
            name: {f"p{i}": bad if i < hit else good for i in range(4)}
            for name, bad, good in (("load", JUMP, FLAT), ("latency", LATE, np.full(N, 0.1)))
        }
        roots = judged(cause, rows)[0].roots
        assert len(roots) == found, hit
        assert not found or len(roots[0].matches) == hit


DOWN = when("target_up", below=0.5)
OUTAGE = recipe(symptoms=[DOWN], harm=[DOWN], recovers=True, kind="process")


def outage(up):
    return judged(OUTAGE, {"target_up": {"p0": up}})[0]


def test_an_outage_that_ended_is_a_change_not_a_finding():
    back = outage(step(1, 0, until=CALM + 15))
    assert back.roots == []
    lasting = outage(step(1, 0))
    assert len(lasting.roots) == 1
    vanished = step(1, 0, until=CALM + 15)
    vanished[CALM + 15 :] = np.nan
    assert len(outage(vanished).roots) == 1, "a target that is taken off the list has not come back"


@pytest.mark.parametrize(("starts", "found"), [(step(0, 1, at=CALM + 15), 1), (np.zeros(N), 0)])
def test_an_outage_after_which_the_container_was_started_again_was_a_crash(starts, found):
    rows = {"target_up": {"p0": step(1, 0, until=CALM + 15)}, "kubelet_restarts": {"p0": starts}}
    assert len(judged(OUTAGE, rows)[0].roots) == found


@pytest.mark.parametrize("what", ["settings_changed", "image_changed", "container_image_changed"])
def test_a_container_that_comes_back_as_another_was_replaced(what):
    rows = {"target_up": {"p0": step(1, 0, until=CALM + 15)}, "kubelet_restarts": {"p0": step(0, 1, at=CALM + 15)}}
    assert judged(OUTAGE, rows | {what: {"p0": step(0, 1, at=CALM + 15)}})[0].roots == []


@pytest.mark.parametrize(
    ("failing", "found"),
    [(step(0, 0.03, at=CALM + 3, until=CALM + 12), 1), (np.full(N, 0.03), 0), (step(0, 0.001, at=CALM + 3), 0)],
)
def test_an_outage_during_which_requests_failed_at_the_router_is_a_finding(failing, found):
    rows = {"target_up": {"p0": step(1, 0, until=CALM + 15)}, "router_error_share": {"p0": failing}}
    assert len(judged(OUTAGE, rows)[0].roots) == found


def test_what_lasts_comes_before_what_ended():
    load = recipe("lasts", symptoms=[when("load", above=15)], harm=[when("latency", above=0.3)], severity="warning")
    outage = recipe("ended", symptoms=[when("queue", above=15)], harm=[when("queue", above=15)], severity="critical")
    rows = {"load": {"p0": JUMP}, "latency": {"p0": LATE}, "queue": {"p1": step(1, 30, until=CALM + 15)}}
    roots = judge(scene(rows), {one.id: one for one in (load, outage)}).roots
    assert [root.recipe.id for root in roots] == ["lasts", "ended"]


def test_an_outage_longer_than_a_cold_start_is_a_finding_though_it_ended():
    cold = int(catalogue().tiers.tiers["unknown"].cold_start_s.value / STEP_S)
    for lasted, found in ((cold - 5, 0), (cold + 5, 1)):
        count = CALM + lasted + 60
        assert len(outage(step(1, 0, until=CALM + lasted, count=count)).roots) == found


def test_an_episode_lasts_while_the_calm_since_is_short():
    context = scene({"load": {"p0": FLAT}})
    assert ongoing(N - 1, context) and ongoing(N - 5, context)
    assert not ongoing(N - 30, context)


@pytest.mark.parametrize(
    ("rows", "able"),
    [
        ({"running": {"p0": np.ones(N)}, "generation_tokens_rate": {"p0": FLAT}}, False),
        ({"running": {"p0": np.ones(N)}, "ttft_mean": {"p0": FLAT}}, True),
        ({"running": {"p0": np.ones(N)}, "e2e_mean": {"p0": np.where(np.arange(N) % 20, np.nan, 1.0)}}, False),
        ({"running": {"p0": np.ones(N)}, "kv_usage": {"p0": FLAT}}, False),
        ({"running": {"p0": np.zeros(N)}, "generation_tokens_rate": {"p0": np.zeros(N)}}, False),
    ],
)
def test_judging_needs_work_and_a_latency_for_most_of_it(rows, able):
    assert can_judge(scene(rows)) is able


def test_harm_that_is_only_extrapolated_is_marked():
    slope = np.concatenate([wobble(np.full(CALM, 0.2)), 0.2 + 0.006 * np.arange(N - CALM)])
    near = when("load", reaches=0.95, within="10m")
    match = verdict(recipe(symptoms=[when("load", rises=1.2)], harm=[near]), load=slope).match
    assert match is not None and match.imminent
    both = recipe(symptoms=[when("load", rises=1.2)], harm=[near, when("latency", above=0.3)])
    assert not verdict(both, load=slope, latency=LATE).match.imminent


def test_harm_long_before_the_mechanism_is_not_proven():
    cause = recipe(symptoms=[SYMPTOM], harm=[when("latency", above=0.3)])
    late = step(10, 30, at=CALM + 20)
    assert certainty(cause, load=late, latency=step(0.1, 0.4, at=CALM + 22)) == "proven"
    assert certainty(cause, load=late, latency=step(0.1, 0.4, at=CALM)) == "likely"


def test_what_began_a_moment_ago_is_not_proven():
    cause = recipe(symptoms=[SYMPTOM], harm=[when("latency", above=0.3)])
    for at, sure in ((N - 25, "proven"), (N - 10, "likely")):
        match = verdict(cause, load=step(10, 30, at=at), latency=step(0.1, 0.4, at=at)).match
        assert match.certainty == sure
    assert match.doubts == [f"too early: seen for {10 * STEP_S:g} s"]


def test_an_episode_begins_with_the_symptom_that_leads():
    """Latency that swung long before the prompts grew is not of the episode; what came shortly before may be."""
    longer = when("load", rises=1.5, leads=True)
    cause = recipe(symptoms=[when("latency", above=0.2), longer], harm=[when("latency", above=0.2)])
    for before, onset in ((CALM - 20, CALM + 10), (CALM + 4, CALM + 4)):
        assert verdict(cause, load=step(10, 30, at=CALM + 10), latency=step(0.1, 0.4, at=before)).match.onset == onset


def test_a_symptom_that_begins_after_the_episode_is_none_of_it():
    """The first symptom is over when the second, which is looked at from its onset on, begins."""
    load = np.full(N, 10.0)
    load[CALM : CALM + 15] = 30.0
    late = when("latency", above=0.3)
    cause = recipe(symptoms=[SYMPTOM, AnyOf((late, when("load", falls=0.5, average=True)))], harm=[SYMPTOM])
    assert verdict(cause, load=load, latency=step(0.1, 0.4, at=CALM + 20)).match is None
    assert verdict(cause, load=load, latency=step(0.1, 0.4, at=CALM + 5)).match is not None


def test_what_rules_out_only_before_the_onset_does_not_rule_out_its_own_cause():
    """The queue that fills because of the mechanism is no rival of it; one that stood before the mechanism began is."""
    rival = when("queue", above=5, because="the queue was there first", when="before")
    cause = recipe(symptoms=[SYMPTOM], harm=[when("latency", above=0.3)], unless=[rival])
    rows = {"load": step(10, 30), "latency": step(0.1, 0.4)}
    assert verdict(cause, **rows, queue=step(1, 20, at=CALM + 4)).match is not None
    assert "there first" in verdict(cause, **rows, queue=step(1, 20, at=CALM - 3 * WINDOW)).against
    gone = step(1, 20, at=CALM - 25, until=CALM - 15)
    assert verdict(cause, **rows, queue=gone).match is not None, "over long before"
    assert verdict(cause, **rows, queue=gone).match.doubts == []


# ---- many units at once ---------------------------------------------------------------------------------------------


def test_whatever_number_is_sick_no_condition_is_worked_out_unit_by_unit(monkeypatch):
    """Also where far more is kept than fits, episodes begin sooner than their symptoms and levels come back."""
    rng = np.random.default_rng(5)
    number = 24
    begins = CALM + rng.integers(0, 8, number)
    cause = recipe(
        symptoms=[
            when("load", above=20),
            when("speed", above=20),
            AnyOf(parts=(when("queue", rises=2), when("queue", rises=1.2, average=True))),
        ],
        harm=[HARM, when("latency", rises=1.1, average=True)],
        unless=[when("moving", rises=2), when("moving", rises=1.2, average=True)],
        support=[when("rough", rises=2)],
    )
    came_back = [np.where(np.arange(N) % (begin // 2) < 6, 30.0, step(10, 30, at=begin)) for begin in begins]
    rows = {
        "load": dict(enumerate(came_back)),
        "speed": {n: step(10, 30, at=begin) for n, begin in enumerate(begins)},
        "queue": {n: step(10, 30, at=begin - 4) for n, begin in enumerate(begins)},
        "latency": {n: step(0.1, 0.4, at=begin) for n, begin in enumerate(begins)},
        "moving": {n: wobble(FLAT, seed=n) for n in range(number)},
        "rough": {n: wobble(FLAT, seed=n) for n in range(number)},
    }
    rows = {name: {f"p{n}": values for n, values in own.items()} for name, own in rows.items()}
    alone = scene(rows)
    one_by_one = {unit.name: judge_recipe(cause, alone, [unit])[unit] for unit in alone.view.units}
    assert sum(each.match is not None for each in one_by_one.values()) > number / 2
    monkeypatch.setattr("inferdoc.judging.context.MOST_CACHED", 1)
    monkeypatch.setattr(registry, "SIMPLE", {})
    context = scene(rows)
    for unit, found in judge_recipe(cause, context, context.view.units).items():
        own = one_by_one[unit.name]
        assert (found.against, found.missing) == (own.against, own.missing)
        assert (found.match and found.match.evidence) == (own.match and own.match.evidence)
        assert (found.match and found.match.onset) == (own.match and own.match.onset)


def test_an_alternative_holds_from_its_own_baseline_on():
    """What rose a little before the episode spoils the baseline that ends where it begins, not the one before the
    rise."""
    rising = [29, 42, 40, 90, 76, 66, 93, 105, 121, 120, 92, 66, 49, 47, 49, 16, 8, 4, 5, 1, 1, 1, 70, 85, 100, 96]
    rising += [41, 143, 126, 159, 154, 40, 62, 59, 58, 55, 59, 57, 54, 58]
    rows = {
        "load": step(1.0, 9.0, at=59),
        "latency": np.concatenate((np.zeros(50), rising)) / 1000,
        "queue": np.ones(N),
    }
    either = AnyOf((when("queue", rises=1.2, average=True), when("latency", rises=2.0, by=0.05, share_of=0.5)))
    known = recipe(symptoms=[when("load", above=5.0), either], harm=[when("load", above=5.0)])
    found = verdict(known, **rows)
    assert found.match is not None and found.match.onset == 59
    over = np.where((np.arange(N) >= 30) & (np.arange(N) < 42), 0.9, 0.1)
    assert verdict(known, **{**rows, "latency": over}).match is None, "what was over before is not of the episode"
