"""The info series of pods as recording rules: what a pod is for, on which hardware, in which pool.

Three things describe a pod while it is there, each recorded with the time: the tiers of the GPUs of a place, the tier
of a pod, its role. The info series keeps the last values, so that a GPU exporter that stops, or a quiet hour, moves no
pod into another pool. It has exactly one series per engine pod: of alternatives the first counts (`or on (pod)`), of
several times the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from inferdoc.catalogue.record_names import INFO
from inferdoc.catalogue.signal import Tiers
from inferdoc.escaping import promql
from inferdoc.fleet.members import COMPUTES_NOTHING, NO_TOKEN, ONE_TOKEN, UNKNOWN_TIER, Assignment, Role
from inferdoc.judging.conditions.render import ENGINE_SIGN, MIN_OBSERVATIONS, clause, number, owner
from inferdoc.source.reads import Matcher, selector

GPU_TIER = "pod:inferdoc_gpu_tier:present"
TIER_SEEN, ROLE_SEEN = "pod:inferdoc_tier:seen", "pod:inferdoc_role:seen"
POD = ("cluster", "namespace", "pod")
POOL_PARTS = ("model_name", "role", "tier")
ENGINE_PODS = "pod:inferdoc_engine:info"
ENGINE_PODS_EXPR = f"{INFO}\nor on ({', '.join(POD)}) group by ({', '.join(POD)}) (<running>)"
"""Engines of every kind as they are now: pages cannot wait until the info series of a new pod is there."""
ONE_OF_A_POD = (INFO, ENGINE_PODS)
"""Records of which each pod has one series at a time: others are joined with them."""
MEMORY = "6h"
"""For so long the last values count: as long as the history that usual values rest on."""
BEHAVIOUR = "30m"
DEFAULT_ROLE = "both"
CARDS = "DCGM_FI_DEV_GPU_UTIL|DCGM_FI_DEV_SM_CLOCK|DCGM_FI_DEV_POWER_USAGE|gpu_gfx_activity|gpu_package_power"
"""Series of GPU exporters that stand for their GPUs: any one is enough."""
NODES, POD_LABELS, PLACES = "kube_node_labels", "kube_pod_labels", "kube_pod_info"
HOSTS = ("exported_node", "hostname", "Hostname", "exported_Hostname")
"""Labels that name the machine, the surest last; `node` stands where none of them does."""


def joined(text: str, labels: Sequence[str] = ("role", "tier")) -> str:
    """Series that keep at least cluster, namespace and pod, and none of `labels`, with these labels of their pod.

    text: a PromQL expression about engine pods; it is multiplied by 1, so values stay. Of several series of a pod (its
    engines, buckets) all are kept; pods without an engine within a day have no info series and are left out.
    """
    return f"{clause(text)}\n* on ({', '.join(POD)}) group_left ({', '.join(labels)}) {INFO}"


def joined_where_known(text: str, labels: Sequence[str] = ("role", "tier")) -> str:
    """The same of any pods: those without an info series stay, without the labels."""
    return f"{joined(text, labels)}\nor on ({', '.join(POD)}) {clause(text)}"


def joined_to_engines(text: str, labels: Sequence[str] = ("role", "tier")) -> str:
    """The same of engine pods, by ENGINE_PODS: those that have no info series yet stay, without the labels."""
    return f"{clause(text)}\n* on ({', '.join(POD)}) group_left ({', '.join(labels)}) {ENGINE_PODS}"


def chosen(match: Sequence[Matcher], engines: str) -> str:
    """The info series that fit, and a series without labels of its own for every engine pod that has none: where the
    recording rules are not loaded, all pods. engines: series of the targets that are engines."""
    pods = f"group by ({', '.join(POD)}) ({engines})"
    return f"{selector(INFO, tuple(match))}\nor on ({', '.join(POD)}) ({pods} unless on ({', '.join(POD)}) {INFO})"


def pod_records(tiers: Tiers, seen: str, assignments: Sequence[Assignment] = ()) -> dict[str, str]:
    """The recording rules, in the order in which one needs the other.

    seen: the recorded series of targets that are, or within a day were, engines, with cluster, namespace, pod and
    model_name; assignments: what the configuration says of pods.
    """
    engines = f"and on ({', '.join(POD)}) {seen}"
    return {
        GPU_TIER: _gpu_tiers(tiers),
        TIER_SEEN: f"time() * {clause(_first(_known_tiers(tiers, assignments, engines)))}\n{engines}",
        ROLE_SEEN: f"time() * {clause(_first(_known_roles(tiers, assignments)))}\n{engines}",
        INFO: _info(seen),
    }


# ---- tier -----------------------------------------------------------------------------------------------------------


def _gpu_tiers(tiers: Tiers) -> str:
    """The tiers of the GPUs of every pod and node that a GPU exporter or the labels of a node name. The GPUs of a pod
    are one before their labels are read: that costs most."""
    labels = (*tiers.cards.labels, *tiers.cards.node_labels)
    places = (*POD, "exported_namespace", "exported_pod", "node", *HOSTS)
    series = [selector("", (("__name__", "=~", CARDS),))]
    series += [selector(NODES, ((label, "!=", ""),)) for label in tiers.cards.node_labels]
    alike = f"group by ({', '.join((*places, *labels))}) (\n{_indented(f'{chr(10)}or '.join(series))}\n)"
    cards = owner(alike)
    named = ", ".join(f'"{label}"' for label in (*tiers.cards.labels, *tiers.cards.node_labels))
    text = f'label_join({clause(cards)}, "card", ";", {named})'
    for host in HOSTS:
        text = f'label_replace({text}, "node", "$1", "{host}", "(.+)")'
    for name, tier in reversed(tiers.tiers.items()):
        if tier.names:
            text = _replaced(text, "tier", name, "card", f"(?i)(.*;)?({tier.pattern})(;.*)?")
    return f"group by ({', '.join(POD)}, node, tier) (\n{text}\n)"


def _known_tiers(tiers: Tiers, assignments: Sequence[Assignment], engines: str) -> Iterator[str]:
    """Pods with a label `tier`, from what is surest on: as the fleet of a diagnosis decides (fleet/members.py).

    engines: narrows to pods with an engine; on a machine with GPUs run many others.
    """
    for each in assignments:
        if each.tier:
            yield _labelled(_pods(ENGINE_SIGN, (("pod", "=~", f"({each.pod})"),)), "tier", each.tier)
    yield _alone(f"group by ({', '.join(POD)}, tier) ({selector(ENGINE_SIGN, (('tier', '!=', ''),))})")
    hardware = [name for name, tier in tiers.tiers.items() if tier.names]
    yield from (f"group by ({', '.join(POD)}, tier) ({_gpus(name, 'pod')})" for name in hardware)
    by_machine = (f"group by (cluster, node, tier) ({_gpus(name, 'node')})" for name in hardware)
    nodes = _first(by_machine, ("cluster", "node"))
    places = [selector(name, (("node", "!=", ""),)) for name in (PLACES, ENGINE_SIGN)]
    placed = _alone(f"group by ({', '.join(POD)}, node) ({' or '.join(places)})\n{engines}")
    by_node = f"{clause(placed)}\n* on (cluster, node) group_left (tier) {clause(nodes)}"
    yield f"group by ({', '.join(POD)}, tier) {clause(by_node)}"


def _gpus(tier: str, place: str) -> str:
    return selector(GPU_TIER, (("tier", "=", tier), (place, "!=", "")))


# ---- role -----------------------------------------------------------------------------------------------------------


def _known_roles(tiers: Tiers, assignments: Sequence[Assignment]) -> Iterator[str]:
    """Pods with a label `role`, from what is surest on: as the fleet of a diagnosis decides."""
    signs = tiers.roles
    for label in signs.labels:
        yield from _worded(ENGINE_SIGN, label, signs.words)
    for label in signs.pod_labels:
        yield from _worded(POD_LABELS, label, signs.words)
    for each in assignments:
        if each.role:
            yield _labelled(_pods(ENGINE_SIGN, (("pod", "=~", f"({each.pod})"),)), "role", each.role)
    yield from _worded(ENGINE_SIGN, "pod", signs.words)
    yield from _behaving()


def _worded(series: str, label: str, words: Mapping[Role, str]) -> Iterator[str]:
    """Pods whose label fits the words of one role and of no other."""
    for role, own in words.items():
        others = [other for name, other in words.items() if name != role]
        match: list[Matcher] = [(label, "=~", f"(?i){own}")]
        match += [(label, "!~", f"(?i){other}") for other in others]
        yield _labelled(_pods(series, match), "role", role)


def _behaving() -> Iterator[str]:
    """What pods do shows their role if no name does: requests that end after one token are continued elsewhere;
    beside such pods, prompts that are not computed here were computed there. Whoever does neither serves both."""
    lengths = _ratio("vllm:request_generation_tokens_sum", "vllm:request_generation_tokens_count", MIN_OBSERVATIONS)
    prompts = "vllm:prompt_tokens_total"
    computed = _ratio('vllm:prompt_tokens_by_source_total{source="local_compute"}', prompts, MIN_OBSERVATIONS)
    family = ("cluster", "namespace", "model_name")
    prefills = f"{ENGINE_SIGN} and on ({', '.join(POD)}) {selector(ROLE_SEEN, (('role', '=', 'prefill'),))}"
    beside = f"{ENGINE_SIGN} and on ({', '.join(family)}) {clause(prefills)}"
    idle = f"{computed} <= {number(COMPUTES_NOTHING)}\nand on ({', '.join(POD)}) {clause(beside)}"
    for role, signs in (
        ("prefill", f"{lengths} >= {number(NO_TOKEN)} <= {number(ONE_TOKEN)}"),
        ("decode", idle),
        (DEFAULT_ROLE, f"{lengths} > {number(ONE_TOKEN)}"),
    ):
        yield _labelled(f"group by ({', '.join(POD)}) {clause(signs)}", "role", role)


def _ratio(above: str, below: str, least: int) -> str:
    by = ", ".join(POD)
    return (
        f"sum by ({by}) (increase({above}[{BEHAVIOUR}])) / (sum by ({by}) (increase({below}[{BEHAVIOUR}])) >= {least})"
    )


# ---- info -----------------------------------------------------------------------------------------------------------


def _info(seen: str) -> str:
    """One series per engine pod. A pod that serves several models, as seen now, names none."""
    pods = f"group by ({', '.join(POD)}) ({seen})"
    named = [_alone(f"group by ({', '.join(POD)}, model_name) ({series})") for series in (ENGINE_SIGN, seen)]
    text = pods
    for label, values in (
        ("model_name", _first([*named, pods])),
        ("role", _first([_latest(ROLE_SEEN, "role"), _labelled(pods, "role", DEFAULT_ROLE)])),
        ("tier", _first([_latest(TIER_SEEN, "tier"), _labelled(pods, "tier", UNKNOWN_TIER)])),
    ):
        text = f"{text}\n* on ({', '.join(POD)}) group_left ({label}) {clause(values)}"
    parts = ", ".join(f'"{part}"' for part in POOL_PARTS)
    return f'label_join(\n{_indented(text)},\n  "pool", "/", {parts}\n)'


def _latest(record: str, label: str) -> str:
    """The last value of a pod in a record of times; two times are never equal, as one value is recorded at a time."""
    times = f"max_over_time({record}[{MEMORY}])"
    by = ", ".join(POD)
    return f"group by ({by}, {label}) ({times} == on ({by}) group_left () max by ({by}) ({times}))"


# ---- PromQL ---------------------------------------------------------------------------------------------------------


def _pods(series: str, match: Sequence[Matcher]) -> str:
    return f"group by ({', '.join(POD)}) ({selector(series, tuple(match))})"


def _labelled(text: str, label: str, value: str) -> str:
    """The series with one more label."""
    return _replaced(text, label, value, "", "")


def _replaced(text: str, label: str, value: str, source: str, pattern: str) -> str:
    between = "\n" if "\n" in text else ""
    kept = promql(value.replace("$", "$$"))
    return f'label_replace({text}{between}, "{label}", {kept}, "{source}", {promql(pattern)})'


def _alone(text: str) -> str:
    """Series of pods that have one only: two of them contradict each other."""
    by = ", ".join(POD)
    return f"{text}\nand on ({by}) (count by ({by}) {clause(text)} == 1)"


def _first(texts: Iterable[str], by: Sequence[str] = POD) -> str:
    """For every pod (or node) the first of several expressions that has it."""
    return f"\nor on ({', '.join(by)}) ".join(texts)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
