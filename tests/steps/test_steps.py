"""Steps as they are printed, run against a cluster: each leaves the state that its text promises."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping

import numpy as np
import pytest

from inferdoc.catalogue.content import content_file
from inferdoc.catalogue.document import decode
from inferdoc.catalogue.load import STEPS
from inferdoc.catalogue.recipe import Action, ActionFile, Step
from inferdoc.judging.findings import FindingMaker, Links
from inferdoc.judging.judge import judge
from inferdoc.judging.model import NextStep
from inferdoc.judging.places import Places
from tests.judging.frames import N, catalogue, recipe, scene, step, when
from tests.steps.cluster import Shell, State, cluster, endpoints

NAMESPACE = "llm"
ACTIONS: dict[str, Action] = decode(content_file("diagnostics", STEPS), ActionFile).steps
IN_SHELL = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|'[^']*'|\$\{[^}]*\}|\$!")
PLACEHOLDER = re.compile(r"\{\w+\}|\[[^\]]*\||\b(?:POD|NODE|NAME|NAMESPACE|ROUTER|TODO)\b|<\w[^>]*>")
FORMULA = re.compile(r"(?<=[a-z)]) (?:x|/|\*|\+|>) (?=[a-z(])|\(n - 1\)|\b(?:completions|arrivals) per\b")
BITS = re.compile(r"\b\d+ bits\b|\bbit (?:is|\d)|\((?:\d+, )*\d+\)")
ROUTING = re.compile(
    r"\b(?:rout(?:er|e|ing)|scorer|balancer|endpoint picker|peers?|rotation|other pods|weight)\b", re.I
)
DELETES = re.compile(r"kubectl(?: -n \S+)? (?:delete|drain)\b|&& kubectl(?: -n \S+)? delete\b")
FROM_POD = re.compile(r"\b(?:exec|logs)\b")


def cluster_of(pods: int, pool: bool = True) -> State:
    return cluster(pods, NAMESPACE, pool=pool)


def places_of(state: State) -> Places:
    """What kube-state-metrics shows of a cluster."""
    pods = [p["metadata"]["name"] for p in state["pods"]]
    nodes = {(NAMESPACE, p["metadata"]["name"]): p["spec"]["nodeName"] for p in state["pods"]}
    owners = {(NAMESPACE, p): ("Deployment", p.split("-7d4b")[0]) for p in pods}
    routers = {NAMESPACE: next(p for p in pods if "epp" in p)}
    return Places(nodes, owners, {(NAMESPACE, "llama"): "llama-hpa"}, routers)


def engines(state: State) -> list[str]:
    return [p["metadata"]["name"] for p in state["pods"] if p["metadata"]["labels"].get("app") == "llama"]


LENGTHS = {"prompt_len_mean": np.full(N, 800.0), "output_len_mean": np.full(N, 400.0)}
INPUTS = {
    "router_restarts_lately": step(0.0, 2.0),
    "arrival_rate": np.full(N, 9.0),
    "request_rate": np.full(N, 3.0),
    "running": np.full(N, 20.0),
    "kv_capacity_tokens": np.full(N, 100_000.0),
    "spec_acceptance_length": step(2.2, 1.6),
    "spec_acceptance_rate": np.full(N, 0.2),
    "nixl_bytes_rate": np.full(N, 1.34e9),
    "nixl_xfer_rate": np.full(N, 2.0),
    "nixl_xfer_mean": np.full(N, 0.5),
    **LENGTHS,
}
"""What the numbers of steps are worked out from."""


def printed(
    steps: tuple[Step, ...],
    state: State,
    places: Places | None = None,
    inputs: Mapping[str, np.ndarray] = INPUTS,
    cause: str = "cause",
) -> list[NextStep]:
    """The steps of a finding on the first engine of a cluster."""
    pods = engines(state)
    sick, well = (
        {"waiting": step(0, 30), "ttft_mean": step(0.1, 5)},
        {"waiting": np.zeros(N), "ttft_mean": np.full(N, 0.1)},
    )
    rows = {name: {pod: (sick if pod == pods[0] else well)[name] for pod in pods} for name in sick}
    rows |= {name: dict.fromkeys(pods, values) for name, values in inputs.items()}
    labels = {pod: {"namespace": NAMESPACE, "instance": f"10.0.0.{i}:8080"} for i, pod in enumerate(pods)}
    context = scene(rows, labels)
    made = recipe(cause, [when("waiting", rises=2)], [when("ttft_mean", rises=2)], next_steps=steps)
    judgement = judge(context, {cause: made})
    known = {**catalogue().recipes, cause: made}
    maker = FindingMaker(context, judgement, known, [], Links(), places=places or Places())
    return maker.make(judgement.roots[0]).next_steps


def action_step(name: str) -> Step:
    one = ACTIONS[name]
    return Step(one.do, one.why or "why", one.cost, one.undo, one.command, one.flags, one.peers)


def texts(one: NextStep) -> list[str]:
    return [text for text in (one.do, one.why, one.cost, one.undo, one.command) if text]


def replicas(state: State) -> int:
    return next(d["spec"]["replicas"] for d in state["deployments"] if d["metadata"]["name"] == "llama")


def image(state: State) -> str:
    return next(d["spec"]["template"]["image"] for d in state["deployments"] if d["metadata"]["name"] == "llama")


def nodes_closed(state: State) -> set[str]:
    return {n["metadata"]["name"] for n in state["nodes"] if n["spec"].get("unschedulable")}


# ---- what each step promises: a change of (state before, state after, pod) -------------------------------------------


def adds_replicas(before: State, after: State, pod: str) -> bool:
    return replicas(after) > replicas(before) and len(engines(after)) == replicas(after)


def takes_the_release_back(before: State, after: State, pod: str) -> bool:
    return (image(before), image(after)) == ("new", "old")


def takes_out(before: State, after: State, pod: str) -> bool:
    there = [p["metadata"]["name"] for p in after["pods"]]
    return pod in endpoints(before) and pod in there and pod not in endpoints(after)


def moves_to_another_node(before: State, after: State, pod: str) -> bool:
    closed = nodes_closed(after)
    return closed == {"gpu-1"} and pod not in engines(after) and len(engines(after)) == len(engines(before))


def empties_the_node(before: State, after: State, pod: str) -> bool:
    return nodes_closed(after) == {"gpu-1"} and not any(p["spec"]["nodeName"] == "gpu-1" for p in after["pods"])


def restarts(before: State, after: State, pod: str) -> bool:
    return pod not in engines(after) and len(engines(after)) == len(engines(before))


def dumps_every_process(before: State, after: State, pod: str) -> bool:
    (found,) = (p for p in after["pods"] if p["metadata"]["name"] == pod)
    return set(found.get("dumped", ())) == set(found["processes"])


def pins_the_replicas(before: State, after: State, pod: str) -> bool:
    pinned = {h["metadata"]["name"]: (h["spec"]["minReplicas"], h["spec"]["maxReplicas"]) for h in after["hpa"]}
    least, most = pinned["llama-hpa"]
    return least == most >= replicas(before) and pinned["other-hpa"] == (1, 8)


def pauses(before: State, after: State, pod: str) -> bool:
    return [d["spec"]["paused"] for d in after["deployments"] if d["metadata"]["name"] == "llama"] == [True]


def lifts_the_cpu_limit(before: State, after: State, pod: str) -> bool:
    (limits,) = (d["spec"]["limits"] for d in after["deployments"] if d["metadata"]["name"] == "gaie-epp")
    return limits == {"memory": "8Gi"}


PROMISES = {
    **dict.fromkeys(
        ("leave_the_guard_and_add_replicas", "scale_to_demand", "add_replicas", "add_replicas_or_parallelism",
         "restore_capacity_first", "add_pod_to_short_role", "start_a_replica_by_hand"), adds_replicas),
    **dict.fromkeys(
        ("roll_changed_pods_back", "roll_back", "roll_model_back", "restore_previous_state"), takes_the_release_back),
    **dict.fromkeys(("take_pod_out", "quarantine_hung_pod", "move_load_away"), takes_out),
    **dict.fromkeys(("move_off_the_node", "cordon_and_replace"), moves_to_another_node),
    "reset_gpu_for_remap": empties_the_node,
    "restart_pod": restarts,
    "capture_before_you_kill": dumps_every_process,
    "stop_autoscaler_for_an_hour": pins_the_replicas,
    "pause_rollout": pauses,
    "give_router_more_cpu": lifts_the_cpu_limit,
}  # fmt: skip
"""Of steps that change the cluster; every other one leaves it as it is."""
WITH_KUBECTL = sorted(name for name, one in ACTIONS.items() if "kubectl" in (one.command or ""))


def observed(state: State) -> State:
    """What users and operators see of a state: pods in rotation, replicas, images, nodes, autoscalers, limits."""
    kept = {kind: copy.deepcopy(state[kind]) for kind in ("deployments", "nodes", "hpa")}
    for workload in kept["deployments"]:
        workload["metadata"].pop("revisions")
    for node in kept["nodes"]:
        node["spec"] = {} if not node["spec"].get("unschedulable") else node["spec"]
    return kept | {"endpoints": len(endpoints(state))}


@pytest.mark.parametrize("knows", ["kube-state-metrics", "names"])
@pytest.mark.parametrize("name", WITH_KUBECTL)
def test_a_step_does_what_it_says_and_its_undo_takes_it_back(name, knows, tmp_path):
    before = cluster_of(3)
    pod = engines(before)[0]
    (one,) = printed((action_step(name),), before, places_of(before) if knows != "names" else None)
    shell = Shell(tmp_path, before)
    assert shell.run(one.command).strip() or name == "capture_before_you_kill"
    promise = PROMISES.get(name)
    if promise is None:
        assert shell.state == before, f"{one.command} changes the cluster; name what it promises in PROMISES"
        return
    assert promise(before, shell.state, pod), one.command
    undo = re.search(r"kubectl.*$", one.undo)
    if undo and not one.undo.startswith("undo the change"):
        shell.run(undo.group(0))
        assert observed(shell.state) == observed(before), one.undo


@pytest.mark.parametrize("name", ["take_pod_out", "quarantine_hung_pod", "move_load_away"])
def test_a_pod_is_taken_out_without_inference_pools(name, tmp_path):
    before = cluster_of(2, pool=False)
    (one,) = printed((action_step(name),), before)
    shell = Shell(tmp_path, before)
    shell.run(one.command)
    assert takes_out(before, shell.state, engines(before)[0])


def test_a_pod_is_taken_out_once(tmp_path):
    """A second run would keep the labels that are left, and the undo would return the pod to nobody."""
    before = cluster_of(2)
    (one,) = printed((action_step("take_pod_out"),), before)
    shell = Shell(tmp_path, before)
    shell.run(one.command)
    with pytest.raises(AssertionError, match="already has a value"):
        shell.run(one.command)


# ---- every cause of the catalogue -----------------------------------------------------------------------------------

STEPS_OF = {name: one.next_steps for name, one in catalogue().recipes.items()} | {
    f"family {name}": one.next_steps for name, one in catalogue().families.items()
}
CAUSES = sorted(STEPS_OF)
"""Causes, and the families that are findings where no cause is complete."""


def assert_printable(one: NextStep, cause: str) -> None:
    """No placeholder, no formula and no mask is left in the words of a step."""
    for text in texts(one):
        bare = IN_SHELL.sub("", text)
        assert not PLACEHOLDER.search(bare), (cause, text)
        assert not BITS.search(bare), (cause, text)
        if text is not one.command:
            assert not FORMULA.search(bare), (cause, text)
            assert not re.search(r"kubectl.*,", bare) and "{" not in bare, (cause, text)


@pytest.mark.parametrize("pods", [1, 3])
@pytest.mark.parametrize("known", [True, False], ids=["numbers", "no-numbers"])
def test_no_step_of_a_cause_leaves_anything_to_fill_in(pods, known):
    state = cluster_of(pods)
    for name in CAUSES:
        for places in (places_of(state), None):
            for one in printed(STEPS_OF[name], state, places, INPUTS if known else {}):
                assert_printable(one, name)


BESIDE_OTHERS = {
    "dp-rank-imbalance", "flow-control-stall", "prefix-index-divergence", "priority-starvation", "router-overloaded",
    "routing-on-stale-load",
}  # fmt: skip
"""Causes that only a router's metrics or several ranks show: where they are found, there is something to balance."""
OF_PEERS = {"prefix-hot-replica", "routing-imbalance"}
"""Causes that are found by comparing pods, so never on a fleet of one."""


def test_a_fleet_of_one_pod_gets_no_step_for_a_router_or_its_peers():
    state = cluster_of(1)
    for name in CAUSES:
        for each in printed(STEPS_OF[name], state) if name not in BESIDE_OTHERS else ():
            assert not ROUTING.search(each.do), (name, each.do)


@pytest.mark.parametrize("pods", [1, 2])
@pytest.mark.parametrize("known", [True, False], ids=["numbers", "no-numbers"])
def test_every_cause_has_a_step_left(known, pods):
    state = cluster_of(pods)
    for name in set(CAUSES) - (OF_PEERS if pods == 1 else set()):
        assert printed(STEPS_OF[name], state, None, INPUTS if known else {}), name


@pytest.mark.parametrize("name", CAUSES)
def test_the_steps_of_a_cause_can_be_followed_in_their_order(name, tmp_path):
    """What reads or dumps the pod comes before what deletes it."""
    before = cluster_of(3)
    shell = Shell(tmp_path, before)
    for one in printed(STEPS_OF[name], before, places_of(before)):
        if one.command and "kubectl" in one.command:
            shell.run(one.command)


# ---- what set it off ------------------------------------------------------------------------------------------------

DRIVERS = ("prompt-growth", "runaway-generation")
GROWN = {
    "prompt-growth": {"prompt_len_mean": step(500, 4000), "prompt_tokens_per_request": step(500, 4000)},
    "runaway-generation": {"output_len_mean": step(100, 900)},
}


@pytest.mark.parametrize("driver", DRIVERS)
def test_longer_requests_are_answered_at_the_client_first(driver):
    """In a cause that they bring about, and in the family of one."""
    state, recipes = cluster_of(2), catalogue().recipes
    effects = [recipes[name] for name in recipes[driver].effects if name in recipes]
    families = {str(one.family): f"family {one.family}" for one in effects}
    for name, key in {**{one.id: one.id for one in effects}, **families}.items():
        first, *_ = printed(STEPS_OF[key], state, None, {**INPUTS, **GROWN[driver]}, name)
        longer = first.do.removeprefix(f"For what set it off ({driver}): ")
        assert re.search(r"max_tokens|client|sends more", longer), (name, first.do)
        usual, *_ = printed(STEPS_OF[key], state, None, INPUTS, name)
        assert not usual.do.startswith("For what set it off"), (name, usual.do)
