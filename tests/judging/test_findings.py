"""From a root to the finding of the document: scope, evidence, look-alikes, changes, beginning and end."""

from __future__ import annotations

import numpy as np

from inferdoc.catalogue.recipe import Step
from inferdoc.judging.changes import Event
from inferdoc.judging.findings import FindingMaker, Links
from inferdoc.judging.judge import judge
from inferdoc.judging.model import stamp
from tests.judging.frames import CALM, START_MS, STEP_S, N, recipe, scene, step, unit_of, when

FLAT, JUMP = np.full(N, 10.0), step(10, 30)
SICK, WELL = {"waiting": JUMP, "ttft_mean": step(0.1, 0.5)}, {"waiting": FLAT, "ttft_mean": np.full(N, 0.1)}
SYMPTOM, HARM = when("waiting", rises=2), when("ttft_mean", rises=2)
ONSET_S = START_MS / 1000 + CALM * STEP_S


def found(*recipes, pods=None, events=(), links=None):
    """The findings of these recipes on pods: pod -> its signals."""
    pods = pods or {"p0": SICK, "p1": WELL}
    names = {name for rows in pods.values() for name in rows}
    context = scene({name: {pod: rows[name] for pod, rows in pods.items() if name in rows} for name in sorted(names)})
    known = {r.id: r for r in recipes}
    judgement = judge(context, known)
    made = [Event(at, kind, "p0", "told", unit_of(context, pod)) for at, kind, pod in events]
    maker = FindingMaker(context, judgement, known, made, links or Links())
    return [maker.make(root) for root in judgement.roots]


def cause(name="cause", **more):
    return recipe(name, **{"symptoms": [SYMPTOM], "harm": [HARM], **more})


def test_the_pods_are_those_that_show_the_mechanism():
    (finding,) = found(cause())
    assert finding.scope.pods == ["p0"] and finding.scope.of_pods == 2
    assert finding.onset == stamp(ONSET_S) and finding.ongoing and finding.ended is None


def test_several_pods_are_one_finding():
    (finding,) = found(cause(), pods={"p0": SICK, "p1": WELL, "p2": SICK})
    assert finding.scope.pods == ["p0", "p2"] and finding.scope.of_pods == 3


def test_harm_comes_first_among_the_evidence():
    (finding,) = found(cause(support=[when("waiting", above=20)]))
    assert [e.role for e in finding.evidence] == ["harm", "symptom", "support"]
    harm = finding.evidence[0]
    assert (harm.signal, harm.entity, harm.unit) == ("ttft_mean", "p0", "s")
    assert harm.since == stamp(ONSET_S) and harm.query is not None and 'pod="p0"' in harm.query


def test_evidence_stays_short():
    (finding,) = found(cause(), pods={f"p{i}": SICK for i in range(40)})
    assert len(finding.scope.pods) == 40 and 2 <= len(finding.evidence) <= 12
    assert finding.evidence[0].role == "harm"


def test_an_episode_that_ended_says_when():
    over = {"waiting": step(10, 30, until=CALM + 15), "ttft_mean": step(0.1, 0.5, until=CALM + 15)}
    (finding,) = found(cause(), pods={"p0": over, "p1": WELL})
    assert not finding.ongoing and finding.ended == stamp(ONSET_S + 14 * STEP_S)


def test_a_look_alike_that_does_not_hold_is_ruled_out_with_the_observation():
    rival = cause("rival", symptoms=[when("ttft_mean", falls=0.5)])
    (finding,) = found(cause(look_alikes=("rival",)), rival)
    (out,) = finding.ruled_out
    assert out.id == "rival" and "does not fall" in out.because


def test_a_look_alike_that_holds_as_well_is_not_ruled_out():
    first, second = found(cause(look_alikes=("rival",)), cause("rival", look_alikes=("cause",)))
    assert {first.id, second.id} == {"cause", "rival"}
    assert first.ruled_out == second.ruled_out == []


def test_a_look_alike_that_cannot_be_judged_is_not_ruled_out():
    (finding,) = found(cause(look_alikes=("rival",)), cause("rival", symptoms=[when("ghost", above=1)]))
    assert finding.ruled_out == []


def test_an_effect_is_named_and_its_harm_stands_in_the_evidence():
    effect = cause("effect", harm=[when("e2e_mean", rises=2)])
    sick = {**SICK, "e2e_mean": step(1, 9)}
    (finding,) = found(cause(effects=("effect",), look_alikes=("effect",)), effect, pods={"p0": sick, "p1": WELL})
    assert finding.effects == ["effect"] and finding.ruled_out == []
    assert {e.signal for e in finding.evidence if e.role == "harm"} == {"ttft_mean", "e2e_mean"}


def test_a_restart_just_before_is_what_changed():
    (finding,) = found(cause(), events=[(ONSET_S - 10, "restart", "p0")])
    assert finding.change is not None and finding.change.kind == "restart"


def test_a_restart_long_before_after_or_of_another_pod_is_not():
    for event in ((ONSET_S - 300, "restart", "p0"), (ONSET_S + 30, "restart", "p0"), (ONSET_S - 10, "restart", "p1")):
        (finding,) = found(cause(), events=[event])
        assert finding.change is None, event


def test_twice_the_traffic_is_what_changed():
    busy = {**SICK, "arrival_rate": step(2, 5)}
    (finding,) = found(cause(), pods={"p0": busy, "p1": {**WELL, "arrival_rate": np.full(N, 2.0)}})
    assert finding.change is not None and finding.change.kind == "workload"


def test_addresses_where_they_are_configured():
    (finding,) = found(cause(), links=Links("https://wiki/r/", "https://grafana/d/x/"))
    assert finding.runbook_url == "https://wiki/r/cause" and finding.runbook == "cause"
    assert finding.dashboard_url == "https://grafana/d/x?var-namespace=&var-model_name=m"


def test_an_unknown_beginning_is_as_uncertain_as_the_window_is_long():
    always = {"waiting": np.full(N, 30.0), "ttft_mean": np.full(N, 9.0)}
    level = cause(symptoms=[when("waiting", above=20)], harm=[when("ttft_mean", above=5)])
    (finding,) = found(level, pods={"p0": always, "p1": WELL})
    assert finding.onset == stamp(START_MS / 1000)
    assert finding.onset_uncertainty_seconds == (N - 1) * STEP_S
    (sharp,) = found(cause())
    assert sharp.onset_uncertainty_seconds <= 15


def test_the_words_and_the_command_of_a_step_name_the_places_of_the_finding():
    words = ("{pod} is one of {replicas_now}", "{pod} waits", "{pod} ends", "{pod} is back")
    told, silent = Step(*words, command="kubectl{ns} delete pod {pod}"), Step(*words)
    (finding,) = found(cause(next_steps=(told, silent)))
    for step_, command in zip(finding.next_steps, ("kubectl delete pod p0", None), strict=True):
        assert (step_.do, step_.why) == ("p0 is one of 2", "p0 waits")
        assert (step_.cost, step_.undo, step_.command) == ("p0 ends", "p0 is back", command)
