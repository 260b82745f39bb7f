"""The page of the llm-d router (endpoint picker), release 0.10. Series with a label of an event are born with the first
one; those of flow control are there only with its feature gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt

from inferdoc.collect.samples import Labels
from inferdoc.simulate.fleet import SimulatedFleet
from inferdoc.simulate.gateway import FlowControl
from inferdoc.simulate.items import Item, counter, gauge, histogram, labels
from inferdoc.simulate.pod import Pod
from inferdoc.simulate.router import RouterStats

POOL = "sim-pool"


def router_items(fleet: SimulatedFleet, model_name: str, namespace: str) -> Iterator[Item]:
    """Every series of the picker, all samples of a metric together."""
    stats = fleet.router.stats
    yield from _requests(stats, model_name)
    yield from _endpoints(fleet)
    yield from _decisions(stats, model_name, namespace)
    yield histogram("llm_d_epp_scheduler_e2e_duration_seconds", fleet.gateway.scheduling)
    yield histogram("llm_d_epp_request_processing_duration_seconds", fleet.gateway.processing)
    if stats.expected_hits.count:
        plugin = labels(plugin_name="approx-prefix-cache-producer", plugin_type="approx-prefix-cache-producer")
        yield histogram("llm_d_epp_prefix_indexer_hit_ratio", stats.expected_hits, plugin)
    if stats.poll_errors >= 1.0:
        found = labels(source_type="metrics-data-source")
        yield counter("llm_d_epp_datalayer_poll_errors_total", float(int(stats.poll_errors)), found)
    if fleet.gateway.flow is not None:
        yield from _flow(fleet.gateway.flow, model_name)


def _requests(stats: RouterStats, model_name: str) -> Iterator[Item]:
    rows = [(_class_labels(model_name, *kind), found) for kind, found in sorted(stats.classes.items())]
    for where, found in rows:
        yield counter("llm_d_epp_request_total", found.requests, where)
    for where, found in rows:
        for code, count in sorted(found.errors.items()):
            yield counter("llm_d_epp_request_error_total", count, _with(where, error_code=code))
    for where, found in rows:
        yield histogram("llm_d_epp_request_duration_seconds", found.duration, where)
    for where, found in rows:
        yield gauge("llm_d_epp_request_running", found.running, where)
    for where, found in rows:
        yield histogram("llm_d_epp_request_ttft_seconds", found.ttft, _with(where, streaming="true"))


def _endpoints(fleet: SimulatedFleet) -> Iterator[Item]:
    """The pool as the router last read it."""
    pool = labels(name=POOL)
    ready = [p for p in fleet.pods if p.in_rotation and p.alive]
    rows = [_seen(pod, fleet) for pod in ready]
    for place, name in enumerate(("queue_size", "running_requests", "kv_cache_utilization")):
        values = [row[place] for row in rows]
        yield gauge(f"llm_d_epp_average_{name}", _mean(values), pool)
        yield gauge(f"llm_d_epp_std_dev_{name}", _spread(values), pool)
    yield gauge("llm_d_epp_ready_endpoints", len(ready), pool)
    for pod, row in zip(ready, rows, strict=True):
        yield gauge("llm_d_epp_per_endpoint_queue_size", row[0], labels(name=POOL, model_server_endpoint=pod.name))


def _seen(pod: Pod, fleet: SimulatedFleet) -> tuple[float, float, float]:
    """Waiting and running requests and KV usage of a pod: as last read, or now where readings are a blink apart."""
    seen = fleet.router.seen.get(pod.name) if fleet.router.careful else None
    if seen is not None:
        return float(seen.waiting), float(seen.running), seen.usage
    return float(len(pod.engine.waiting)), float(len(pod.engine.running)), pod.engine.usage


def _decisions(stats: RouterStats, model_name: str, namespace: str) -> Iterator[Item]:
    for name, chosen in sorted(stats.chosen.items()):
        where = labels(
            status="success", target_model_name=model_name, endpoint_name=name, namespace=namespace, port="8000"
        )
        yield counter("llm_d_epp_scheduler_attempts_total", chosen, where)
    if stats.unplaced:
        where = labels(status="failure", target_model_name=model_name, endpoint_name="", namespace="", port="")
        yield counter("llm_d_epp_scheduler_attempts_total", stats.unplaced, where)
    if stats.split:
        where = labels(
            plugin_name="pd",
            plugin_type="disagg-profile-handler",
            model_name=model_name,
            decision_type="prefill-decode",
        )
        yield counter("llm_d_epp_disagg_decision_total", stats.split, where)


def _flow(flow: FlowControl, model_name: str) -> Iterator[Item]:
    def flow_labels(tenant: str, priority: int) -> Labels:
        return _with(_class_labels(model_name, tenant, priority), inference_pool=POOL)

    for (kind, outcome), waits in sorted(flow.waits.items()):
        found = _with(flow_labels(*kind), outcome=outcome)
        yield histogram("llm_d_epp_flow_control_request_queue_duration_seconds", waits, found)
    for kind, queue in sorted(flow.queues.items()):
        yield gauge("llm_d_epp_flow_control_queue_size", len(queue), flow_labels(*kind))
    for stage in ("decode", "effective"):
        found = labels(inference_pool=POOL, stage=stage)
        yield gauge("llm_d_epp_flow_control_pool_saturation", flow.saturation, found)
    yield gauge("llm_d_epp_flow_control_stale_endpoints", flow.stale, labels(detector="utilization-detector"))
    for (outcome, priority), count in sorted(flow.outcomes.items()):
        found = labels(outcome=outcome, priority=str(priority), inference_pool=POOL)
        yield counter("llm_d_epp_flow_control_requests_total", count, found)


def _class_labels(model_name: str, tenant: str, priority: int) -> Labels:
    return labels(model_name=model_name, target_model_name=model_name, fairness_id=tenant, priority=str(priority))


def _with(where: Labels, **more: str) -> Labels:
    return tuple(sorted((*where, *more.items())))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _spread(values: Sequence[float]) -> float:
    """Standard deviation over the endpoints."""
    middle = _mean(values)
    return sqrt(_mean([(v - middle) ** 2 for v in values]))
