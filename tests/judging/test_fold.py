"""Roots, effects, load changes: what is put under what, and what comes first."""

from __future__ import annotations

import pytest

from inferdoc.fleet.members import Member, Pool
from inferdoc.judging.context import Outcome
from inferdoc.judging.fold import Cause, fold, group, reach, score
from inferdoc.judging.verdict import Evidence, Match
from inferdoc.judging.view import Unit
from tests.judging.frames import catalogue, recipe

SLACK = 5


def member(pod="p0", model="m", role="both", namespace="ns"):
    return Member(("", namespace, pod), f"{pod}:8000", "", Pool("", namespace, model, role, "unknown"))


def match(cause, onset=40, last=80, certainty="likely", critical=False, **who):
    return Match(cause, Unit(member(**who), ""), onset, last, False, [], certainty, critical=critical)


def cause_of(cause, *matches, **kind):
    found = list(matches) or [match(cause, **kind)]
    return Cause(cause, found[0].unit.member.pool, found)


def shape(roots):
    """Ids of the roots, each with the ids of its effects and load changes."""
    return [
        (root.recipe.id, [e.recipe.id for e in root.effects], [d.recipe.id for d in root.load_changes])
        for root in roots
    ]


A = recipe("a", effects=("b",))
B = recipe("b", effects=("c",))
C = recipe("c")
LOAD_CHANGE = recipe("load", kind="load", scope="pool", effects=("a",))
HARDWARE = recipe("hardware", kind="hardware", effects=("a",))
LOST = recipe("lost", kind="process", effects=("a",))
BLIND = recipe("blind", kind="telemetry", severity="info", effects=("a",))
LOOP_1, LOOP_2 = recipe("loop-1", effects=("loop-2",)), recipe("loop-2", effects=("loop-1",))
SHORT = recipe("short", scope="pool")
RECIPES = {r.id: r for r in (A, B, SHORT, C, LOAD_CHANGE, HARDWARE, LOST, BLIND, LOOP_1, LOOP_2)}


def folded(*causes):
    return shape(fold(causes, RECIPES, SLACK))


def test_what_hurt_nobody_until_another_cause_came_is_its_effect():
    idle, late, early = match(B, onset=20), match(B, onset=20), match(A, onset=60)
    late.evidence = [Evidence("harm", Outcome(True, "hurts", first=61, last=80))]
    idle.evidence = [Evidence("harm", Outcome(True, "hurts", first=21, last=80))]
    assert folded(cause_of(A, early), cause_of(B, late)) == [("a", ["b"], [])]
    assert sorted(folded(cause_of(A, early), cause_of(B, idle))) == [("a", [], []), ("b", [], [])]


def test_a_cause_of_the_pool_in_one_role_explains_the_same_in_the_other():
    short, waits = match(SHORT, onset=40, role="decode", pod="d0"), match(SHORT, onset=55, role="prefill", pod="p0")
    (root,) = fold([cause_of(SHORT, waits), cause_of(SHORT, short)], RECIPES, SLACK)
    assert root.pool.role == "decode" and [e.pool.role for e in root.effects] == ["prefill"]
    apart = fold([cause_of(HARDWARE, match(HARDWARE, role=r, pod=r)) for r in ("decode", "prefill")], RECIPES, SLACK)
    assert len(apart) == 2, "a slow machine in one role makes none in the other"


def test_matches_of_one_cause_in_one_pool_are_one():
    found = group(
        [match(A, pod="p0"), match(A, onset=44, pod="p1"), match(A, role="decode", pod="d0")], lambda pool, step: 0
    )
    assert sorted(len(c.matches) for c in found) == [1, 2]
    both = next(c for c in found if len(c.matches) == 2)
    assert both.onset == 40 and both.last == 80
    assert both.best.unit.member.pod == "p0"


def test_the_best_match_is_the_most_certain_then_the_earliest():
    unsure, sure, later = match(A, 30, certainty="possible"), match(A, 40), match(A, 50)
    assert cause_of(A, unsure, later, sure).best is sure


@pytest.mark.parametrize(("pods", "kept"), [(1, False), (2, False), (3, True), (4, True)])
def test_a_cause_of_the_pool_must_show_on_its_share_of_it(pods, kept):
    wide = recipe("wide", pool_share=0.7)
    matches = [match(wide, pod=f"p{i}") for i in range(pods)]
    assert bool(group(matches, lambda pool, step: 4)) is kept


def test_two_engines_of_one_pod_are_one_pod():
    wide = recipe("wide", pool_share=0.7)
    pod = member()
    matches = [Match(wide, Unit(pod, engine), 40, 80, False, [], "likely") for engine in "01"]
    assert group(matches, lambda pool, step: 2) == []


def test_reach_follows_the_graph_and_survives_a_loop():
    assert reach("a", RECIPES) == {"b", "c"}
    assert reach("loop-1", RECIPES) == {"loop-1", "loop-2"}
    assert reach("nowhere", RECIPES) == set()


def test_an_effect_goes_under_its_root():
    assert folded(cause_of(A), cause_of(B, onset=50)) == [("a", ["b"], [])]


def test_an_effect_of_an_effect_too_even_where_the_middle_is_not_seen():
    assert folded(cause_of(A), cause_of(C, onset=60)) == [("a", ["c"], [])]
    assert folded(cause_of(A), cause_of(B, onset=50), cause_of(C, onset=60)) == [("a", ["b", "c"], [])]


def test_the_order_in_which_causes_come_does_not_matter():
    causes = [cause_of(C, onset=60), cause_of(B, onset=50), cause_of(A)]
    assert folded(*causes) == folded(*reversed([cause_of(C, onset=60), cause_of(B, onset=50), cause_of(A)]))


@pytest.mark.parametrize(("onset", "under"), [(50, True), (40, True), (40 - SLACK, True), (40 - SLACK - 1, False)])
def test_an_effect_begins_no_earlier_than_its_cause(onset, under):
    assert (folded(cause_of(A), cause_of(B, onset=onset)) == [("a", ["b"], [])]) is under


def test_what_began_too_early_to_be_an_effect_stands_beside_it():
    assert {root for root, _, _ in folded(cause_of(A), cause_of(B, onset=10))} == {"a", "b"}


@pytest.mark.parametrize("elsewhere", [{"model": "other"}, {"namespace": "other"}, {"pod": "p1"}])
def test_what_happens_elsewhere_is_no_effect(elsewhere):
    assert len(folded(cause_of(A), cause_of(B, onset=50, **elsewhere))) == 2


def test_a_lost_process_explains_its_direct_effects_on_other_pods():
    assert folded(cause_of(LOST, pod="p1"), cause_of(A, onset=50)) == [("lost", ["a"], [])]
    assert len(folded(cause_of(LOST, pod="p1"), cause_of(B, onset=50))) == 2, "and only the direct ones"


def test_one_role_explains_its_direct_effects_on_the_other():
    assert folded(cause_of(A, role="decode", pod="d0"), cause_of(B, onset=50, role="prefill", pod="f0")) == [
        ("a", ["b"], [])
    ]


def test_more_demand_is_what_drives_a_local_cause():
    assert folded(cause_of(LOAD_CHANGE, onset=30), cause_of(A)) == [("a", [], ["load"])]


def test_more_demand_alone_is_the_root():
    assert folded(cause_of(LOAD_CHANGE)) == [("load", [], [])]


def test_more_demand_on_many_pods_is_not_explained_by_one_of_them():
    everywhere = cause_of(LOAD_CHANGE, *(match(LOAD_CHANGE, pod=f"p{i}") for i in range(4)))
    assert len(folded(everywhere, cause_of(A))) == 2
    half = cause_of(LOAD_CHANGE, *(match(LOAD_CHANGE, pod=f"p{i}") for i in range(2)))
    assert folded(half, cause_of(A)) == [("a", [], ["load"])]


FULL = recipe("full", effects=("crowd",))
CROWD = recipe("crowd", kind="load", scope="pool")
FAULTY = recipe("faulty", kind="hardware", effects=("crowd",))
CROWDED = {r.id: r for r in (FULL, CROWD, FAULTY)}


def arriving(*pods: str) -> list[Match]:
    more = Outcome(True, "more requests arrive", "arrival_rate", "p")
    found = [match(CROWD, onset=45, pod=pod) for pod in pods]
    for one in found:
        one.evidence.append(Evidence("support", more))
    return found


def test_more_arrivals_drive_a_limit_even_where_its_queue_could_be_its_effect():
    alone = cause_of(CROWD, match(CROWD, onset=45))
    assert shape(fold([cause_of(FULL), alone], CROWDED, SLACK)) == [("full", ["crowd"], [])]
    pushed = cause_of(CROWD, *arriving("p0"))
    assert shape(fold([cause_of(FULL), pushed], CROWDED, SLACK)) == [("full", [], ["crowd"])]


def test_more_arrivals_are_the_effect_of_a_slower_machine_whose_work_its_like_take_over():
    pushed = cause_of(CROWD, *arriving("p0"))
    assert shape(fold([cause_of(FAULTY), pushed], CROWDED, SLACK)) == [("faulty", ["crowd"], [])]


def test_a_limit_on_one_pod_explains_no_queue_on_three():
    wide = cause_of(CROWD, *arriving("p0", "p1", "p2"))
    assert len(fold([cause_of(FULL), wide], CROWDED, SLACK)) == 2


def test_what_a_cause_is_a_kind_of_goes_under_it():
    special = cause_of(recipe("special", more_specific_than=("c",)))
    assert folded(cause_of(C), special) == [("special", ["c"], [])]
    later = cause_of(recipe("special", more_specific_than=("c",)), onset=60)
    assert folded(cause_of(C), later) == [("c", [], []), ("special", [], [])], "it does not explain what was there"


def test_hardware_before_what_it_causes():
    assert folded(cause_of(A), cause_of(HARDWARE)) == [("hardware", ["a"], [])]


def test_a_picture_with_gaps_explains_no_harm():
    assert len(folded(cause_of(BLIND), cause_of(A, onset=50))) == 2


def test_the_unexplained_is_said_only_where_nothing_explains_it():
    odd = recipe("odd", kind="unexplained")
    assert folded(cause_of(odd)) == [("odd", [], [])]
    assert folded(cause_of(odd), cause_of(A)) == [("a", [], [])]
    assert len(folded(cause_of(odd), cause_of(A, pod="p1"))) == 2, "another pod's cause explains nothing here"
    assert len(folded(cause_of(odd), cause_of(BLIND))) == 2, "a gap in the picture hurts nobody"
    spread = cause_of(A, role="decode", pod="d0"), cause_of(B, role="prefill"), cause_of(odd, role="prefill")
    assert folded(*spread) == [("a", ["b"], [])], "an effect of the root stands where the odd harm is"


def test_causes_that_feed_each_other_have_one_root_the_earlier():
    assert folded(cause_of(LOOP_2, onset=60), cause_of(LOOP_1)) == [("loop-1", ["loop-2"], [])]


def test_everything_is_somewhere_once():
    causes = [
        cause_of(A),
        cause_of(B, onset=45),
        cause_of(C, onset=50),
        cause_of(LOAD_CHANGE),
        cause_of(BLIND),
        cause_of(HARDWARE),
    ]
    roots = fold(causes, RECIPES, SLACK)
    seen = [id(c) for root in roots for c in (root, *root.effects, *root.load_changes)]
    assert sorted(seen) == sorted(id(c) for c in causes)


def test_the_surer_and_the_graver_come_first():
    one = recipe("grave", severity="critical")
    other = recipe("minor", severity="warning")
    roots = fold([cause_of(other, pod="p1", onset=10), cause_of(one)], {"grave": one, "minor": other}, SLACK)
    assert [r.recipe.id for r in roots] == ["grave", "minor"]
    assert score(cause_of(A, certainty="proven")) > score(cause_of(A)) > score(cause_of(A, certainty="possible"))
    assert score(cause_of(A, critical=True)) > score(cause_of(A))
    more = cause_of(A)
    more.effects = [cause_of(B)]
    assert score(more) > score(cause_of(A))


def test_an_slo_breach_or_the_like_makes_it_critical():
    assert cause_of(A).severity == "warning"
    assert cause_of(A, match(A), match(A, pod="p1", critical=True)).severity == "critical"


def test_a_score_stays_within_its_bounds():
    crowd = cause_of(A, certainty="proven", critical=True)
    crowd.effects = [cause_of(B)] * 50
    assert 0 < score(cause_of(BLIND, certainty="possible")) < score(crowd) <= 1


# ---- the graph of the catalogue -------------------------------------------------------------------------------------


def test_effects_and_look_alikes_of_the_catalogue_exist_and_name_no_cause_itself():
    recipes = catalogue().recipes
    for one in recipes.values():
        assert set(one.effects) <= recipes.keys() and set(one.look_alikes) <= recipes.keys()
        assert one.id not in one.effects and one.id not in one.look_alikes


def test_telemetry_is_nobodys_effect_and_hardware_only_that_of_hardware():
    recipes = catalogue().recipes
    for one in recipes.values():
        for effect in one.effects:
            assert recipes[effect].kind != "telemetry", (one.id, effect)
            assert recipes[effect].kind != "hardware" or one.kind == "hardware", (one.id, effect)
