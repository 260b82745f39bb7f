"""Signals above the pod: what a router or an autoscaler says counts for the pods it speaks of."""

from __future__ import annotations

import numpy as np

from inferdoc.fleet.members import resolve
from inferdoc.judging.conditions import evaluate
from inferdoc.judging.view import make_view
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from tests.judging.frames import catalogue, grid, scene, unit_of, when

STEPS = 120


def entity(**labels: str) -> Entity:
    return Entity.of(tuple(labels), tuple(labels.values()))


def view_of(signal: str, rows: dict[Entity, list[float]]):
    frame = SignalFrame(grid(STEPS))
    pods = [entity(pod=pod, namespace=space, model_name="m") for pod, space in (("p0", "one"), ("p1", "two"))]
    frame.signals["running"] = SignalMatrix(pods, np.ones((2, STEPS)))
    frame.signals[signal] = SignalMatrix(list(rows), np.array(list(rows.values()), dtype=float))
    view = make_view(frame, resolve(frame, catalogue().tiers), signals=catalogue().signals)
    return view, {unit.member.pod: unit for unit in view.units}


def test_a_router_speaks_for_the_pods_of_its_namespace():
    view, units = view_of("router_flow_queue", {entity(pod="epp", namespace="one"): [3.0] * STEPS})
    assert view.get(units["p0"], "router_flow_queue").values[0] == 3.0
    assert view.get(units["p1"], "router_flow_queue") is None


def test_an_exporter_speaks_for_the_pods_of_the_namespace_it_names():
    found = entity(pod="kube-state-metrics", namespace="two")
    view, units = view_of("hpa_desired", {found: [4.0] * STEPS})
    assert view.get(units["p1"], "hpa_desired").values[0] == 4.0
    assert view.get(units["p0"], "hpa_desired") is None


def test_the_rows_of_another_model_do_not_count_unless_all_names_are_aliases():
    rows = {
        entity(pod="epp", namespace="one", model_name="m"): [1.0] * STEPS,
        entity(pod="epp", namespace="one", model_name="other"): [9.0] * STEPS,
    }
    view, units = view_of("router_errors", rows)
    assert view.get(units["p0"], "router_errors").values[0] == 1.0
    alias = {entity(pod="epp", namespace="one", model_name="gpt"): [2.0] * STEPS}
    view, units = view_of("router_errors", alias)
    assert view.get(units["p0"], "router_errors").values[0] == 2.0


def test_of_two_routers_the_worse_counts():
    rows = {
        entity(pod="epp-0", namespace="one"): [5.0] * STEPS,
        entity(pod="epp-1", namespace="one"): [2.0] * STEPS,
    }
    view, units = view_of("router_flow_queue", rows)
    assert view.get(units["p0"], "router_flow_queue").values[0] == 5.0
    view, units = view_of("router_ready_endpoints", rows)
    assert view.get(units["p0"], "router_ready_endpoints").values[0] == 2.0


def test_a_router_that_says_nothing_is_no_signal():
    silent = {entity(pod="epp-0", namespace="one"): [np.nan] * STEPS}
    view, units = view_of("router_flow_queue", silent)
    assert view.get(units["p0"], "router_flow_queue") is None
    view, units = view_of("router_flow_queue", {**silent, entity(pod="epp-1", namespace="one"): [2.0] * STEPS})
    assert view.get(units["p0"], "router_flow_queue").values[0] == 2.0


def test_a_class_of_requests_that_waits_longer_than_the_others_differs():
    def rows(last: float) -> dict[str, list[float]]:
        return {"a": [0.1] * STEPS, "b": [0.2] * STEPS, "c": [0.1] * 60 + [last] * 60}

    for last, holds in ((6.0, True), (0.3, False)):
        context = scene({"running": {"p0": np.ones(STEPS)}})
        entities = [entity(pod="epp", fairness_id=name, priority="0") for name in rows(last)]
        matrix = SignalMatrix(entities, np.array(list(rows(last).values())))
        context.view.frame.signals["tenant_wait_mean"] = matrix
        outcome = evaluate(when("tenant_wait_mean", differs=5, share_of=0.3), context, unit_of(context))
        assert outcome.holds is holds
        assert not holds or "tenant c" in outcome.entity
