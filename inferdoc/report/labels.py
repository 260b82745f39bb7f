"""What the labels of a source make hard to tell, in a line each, with the cure."""

from __future__ import annotations

from collections.abc import Iterator

from inferdoc.source.identified import Findings
from inferdoc.source.processes import Copies, Crowd
from inferdoc.words import some

POD_FIX = "relabel __meta_kubernetes_pod_name to pod, or name the label that holds it under [labels] in inferdoc.toml"
GPU_FIX = "mount the kubelet's pod-resources socket (/var/lib/kubelet/pod-resources) into the GPU exporter"
NAMED = 4


def label_lines(found: Findings, replica: tuple[str, ...], scraped: bool) -> Iterator[str]:
    """One line for each thing that the labels make hard to tell, nothing for ordinary labels. replica: labels of the
    server that stored a series; scraped: whether there is any `up`."""
    yield from (_copies(each, replica) for each in found.copies)
    clusters = [crowd for crowd in found.crowds if crowd.is_cluster]
    if clusters:
        names, label = sorted({crowd.name for crowd in clusters}), clusters[0].by
        yield (
            f"several processes behind each of {len(names)} pod labels ({_some(names)}), which {label} tells apart: "
            f'taken for the cluster; say so with cluster = "{label}" under [labels] in inferdoc.toml'
        )
    crowds: dict[tuple[str, str | None], Crowd] = {}
    for crowd in found.crowds:
        crowds.setdefault((crowd.name, crowd.by), crowd)
    for crowd in crowds.values():
        head = f"{crowd.processes} processes behind one pod label ({crowd.name})"
        if crowd.is_cluster:
            continue
        if crowd.by is None:
            yield f"{head} and nothing that tells them apart: keep the label instance; {POD_FIX}"
        else:
            yield f"{head}: kept apart by {crowd.by}; {POD_FIX}"
    if found.mixed:
        yield (
            f"several processes write the same series ({_some(found.mixed)}), whose totals fall all the time: "
            "no rate of them is right; keep the label instance"
        )
    if found.without_pod and not found.crowds and found.gpus and not found.gpus_joined:
        yield f"engines carry no pod label, so no GPU can be joined to them; {POD_FIX}"
    elif not found.without_pod:
        yield from _gpus(found)
    if found.without_model:
        yield (
            f"{found.without_model} of {found.engines} engines show no model_name: pools of several models cannot be "
            "told apart; remove the labeldrop of model_name"
        )
    if found.engines and not scraped:
        yield "no up series: outages and gaps of targets cannot be told; keep up where series are dropped"


def _copies(copies: Copies, replica: tuple[str, ...]) -> str:
    first, values = copies.labels[0], _some(copies.values)
    engines = f"{copies.processes} engine{'' if copies.processes == 1 else 's'}"
    if set(copies.labels) <= set(replica):
        return f"{engines} stored by several servers ({first}: {values}), counted once; let the store deduplicate"
    return f"{engines} scraped twice ({first}: {values}), counted once; drop one of the scrape jobs"


def _gpus(found: Findings) -> Iterator[str]:
    hosts = found.hosts
    if hosts.alone:
        yield (
            f"GPU exporters name no pod; by Hostname the GPUs of {_some(sorted(hosts.alone))} are those of the one "
            f"engine there; to be sure, {GPU_FIX}"
        )
    if hosts.crowded:
        names = ", ".join(f"{count} engines on {host}" for host, count in sorted(hosts.crowded.items())[:NAMED])
        yield f"GPU exporters name no pod, and there are {names}: their GPUs are not joined; {GPU_FIX}"
    if hosts.unknown and not found.gpus_joined:
        yield (
            f"GPU exporters name no pod of an engine, and no engine is known on {_some(sorted(hosts.unknown))}: GPUs "
            f"are not joined; {GPU_FIX}, or scrape kube-state-metrics (kube_pod_info tells the node of a pod)"
        )


def _some(names: tuple[str, ...] | list[str]) -> str:
    return some(names, NAMED)
