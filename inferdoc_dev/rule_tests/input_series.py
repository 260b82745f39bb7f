"""Raw series of a test case in promtool's notation, a sample a minute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from inferdoc.catalogue.load import Catalogue
from inferdoc.escaping import label_pairs
from inferdoc.fleet.members import UNKNOWN_TIER
from inferdoc.generate.pod_info import DEFAULT_ROLE
from inferdoc.judging.conditions.render import ENGINE_SIGN
from inferdoc_dev.rule_tests.cases import POOL_SIZE, Case
from inferdoc_dev.rule_tests.raw_series import BUSY, COUNTER_PER_SECOND, NARROW, Key, Raw

GPUS = 3
YOUNG_MINUTES = 3
SWING_MINUTES = 60
"""More than a quarter and less than half of what usual values rest on: it moves their edges, not their middle."""
CLUSTER, MODEL = "c1", "model-a"
OF_ROUTERS = ("llm_d_epp_", "inference_objective_", "inference_model_", "inference_extension_", "inference_pool_")
"""How the series of routers begin, under their names of now and of before."""


@dataclass(frozen=True)
class FaultSpan:
    """healthy: minutes before the fault; faulty: minutes of it; after: minutes in which all is healthy again."""

    healthy: int
    faulty: int
    after: int = 0


def identity(metric: str, case: Case, pod: str, gpu: int = 0) -> dict[str, str]:
    """The labels of a raw series besides those its matchers ask for; of the scrape's own those that are looked at."""
    where = {"cluster": CLUSTER, "namespace": case.name, "pod": pod}
    if of_gpus(metric, case.world.catalogue):
        return {**where, "gpu": str(gpu), "modelName": "H100"}
    if metric.startswith("container_"):
        return where
    if above_pods(metric):
        named = {"model_name": MODEL} if metric.startswith(OF_ROUTERS) else {}
        return {"cluster": CLUSTER, "namespace": case.name, "pod": "router-0", **named}
    scraped = where
    if any(name == "up" for name, _ in case.world.raw):
        scraped = {**where, "job": "vllm", "instance": f"{pod}:8000"}
    if case.role:
        scraped = {**scraped, "role": case.role}
    if case.tier:
        scraped = {**scraped, "tier": case.tier}
    engine = {"model_name": MODEL, "engine": "0"}
    return {**scraped, **engine} if metric.startswith("vllm:") else scraped


def pod_info(case: Case) -> dict[str, str]:
    """What the info series has about the pods of a case."""
    if case.stranger:
        return {}
    return {"model_name": MODEL, "role": case.role or DEFAULT_ROLE, "tier": case.tier or UNKNOWN_TIER}


def of_gpus(metric: str, catalogue: Catalogue) -> bool:
    """Whether an exporter reports every GPU by itself, whatever it calls the label."""
    return metric.startswith("DCGM_") or catalogue.aliases.label(metric, "gpu") != "gpu"


def above_pods(metric: str) -> bool:
    """Whether an exporter speaks for all pods of a namespace: a router, an autoscaler."""
    return metric.startswith((*OF_ROUTERS, "wva_", "keda_", "kube_horizontalpodautoscaler_", "kube_deployment_"))


def lines(case: Case, pool: bool, span: FaultSpan) -> Iterator[dict[str, str]]:
    """Every input series of a case. pool: with two more pods, like it but for the fault."""
    raws: dict[Key, Raw] = {} if case.stranger else {(ENGINE_SIGN, ()): Raw("gauge", BUSY, BUSY)}
    raws |= case.world.raw
    down = any(name == "up" and raw.fault == 0 for (name, _), raw in raws.items())
    for number in range(POOL_SIZE if pool else 1):
        pod = f"p{number}"
        for key, raw in raws.items():
            if number and above_pods(key[0]):
                continue
            sick = number < case.affected
            ends = sick and (case.gone or (down and key[0] != "up"))
            for gpu in range(GPUS if of_gpus(key[0], case.world.catalogue) else 1):
                shape = _Shape(span, sick and gpu == 0, ends, case.young, case.restarts)
                yield from _series(case, key, raw, pod, gpu, shape)


@dataclass(frozen=True)
class _Shape:
    span: FaultSpan
    sick: bool
    ends: bool
    young: bool
    restarts: bool

    @property
    def before(self) -> int:
        """Minutes without the series at the beginning."""
        return self.span.healthy - YOUNG_MINUTES if self.young else 0

    def text(self, healthy: str, fault: str, after: str) -> str:
        parts = [f"_x{self.before}"] if self.before else []
        gone = f"stale _x{self.span.faulty - 2}" if self.span.after else "stale"
        again = [after] if self.span.after else []
        return " ".join([*parts, healthy, gone if self.ends else fault, *again])

    def segments(self, raw: Raw) -> tuple[tuple[float, int], ...]:
        """Values with minutes of the healthy part, oldest first."""
        length = self.span.healthy - self.before
        if raw.swing is None:
            return ((raw.healthy, length),)
        return ((raw.swing, SWING_MINUTES), (raw.healthy, length - SWING_MINUTES))


def _series(case: Case, key: Key, raw: Raw, pod: str, gpu: int, shape: _Shape) -> Iterator[dict[str, str]]:
    metric, matched = key
    label = case.world.catalogue.aliases.label
    identity_labels = {label(metric, name): value for name, value in identity(metric, case, pod, gpu).items()}
    labels = {**identity_labels, **dict(matched)}
    fault = raw.fault if shape.sick else raw.healthy
    past = shape.segments(raw)
    if raw.kind == "devices":
        labels |= {"instance": f"{case.name}-{pod}"}
        shape = replace(shape, ends=shape.ends or (shape.sick and raw.fault > 0))
    if raw.kind == "histogram":
        count = case.world.raw.get((metric.removesuffix("_bucket") + "_count", matched))
        rate, then = (
            (count.healthy, count.fault if shape.sick else count.healthy) if count else (COUNTER_PER_SECOND,) * 2
        )
        for bound, shares in _buckets(raw.q, [*(value for value, _ in past), fault]):
            rates = [(rate * share, minutes) for share, (_, minutes) in zip(shares, past, strict=False)]
            yield {
                "series": _named(metric, {**labels, "le": bound}),
                "values": _counter(rates, then * shares[-1], shape),
            }
    elif raw.kind == "counter":
        yield {"series": _named(metric, labels), "values": _counter(past, fault, shape)}
    else:
        yield {"series": _named(metric, labels), "values": _gauge(past, fault, raw.ramp if shape.sick else 0, shape)}


def _gauge(past: Sequence[tuple[float, int]], fault: float, ramp: float, shape: _Shape) -> str:
    """The first sample is at minute 0, so the first interval has one more than its minutes."""
    healthy = [f"{_number(value)}x{minutes - (number > 0)}" for number, (value, minutes) in enumerate(past)]
    grows = f"{_number(fault)}{'+' if ramp > 0 else '-'}{_number(abs(ramp) * 60)}" if ramp else _number(fault)
    return shape.text(
        " ".join(healthy), f"{grows}x{shape.span.faulty - 1}", f"{_number(past[-1][0])}x{shape.span.after - 1}"
    )


def _counter(past: Sequence[tuple[float, int]], fault: float, shape: _Shape) -> str:
    """A counter that starts at 0 and grows by so much per second."""
    parts, reached = [], 0.0
    for number, (rate, minutes) in enumerate(past):
        step = rate * 60
        first = reached if number == 0 else reached + step
        parts.append(f"{_number(first)}+{_number(step)}x{minutes - (number > 0)}")
        reached += step * minutes
    step, usual = fault * 60, past[-1][0] * 60
    reached = 0.0 if shape.restarts else reached
    then = 0.0 if shape.ends else reached + step * shape.span.faulty
    return shape.text(
        " ".join(parts),
        f"{_number(reached + step)}+{_number(step)}x{shape.span.faulty - 1}",
        f"{_number(then + usual)}+{_number(usual)}x{shape.span.after - 1}",
    )


def _buckets(q: float, values: Sequence[float]) -> Iterator[tuple[str, list[float]]]:
    """Bounds with the share of observations at or below them, for each of the values that the quantile is to have."""
    spans = [(value * NARROW, value * NARROW + value * (1 - NARROW) / q) for value in values]
    for bound in sorted({bound for span in spans for bound in span}):
        shares = [min(1.0, max(0.0, (bound - low) / (high - low))) if high > low else 1.0 for low, high in spans]
        yield _number(bound), shares
    yield "+Inf", [1.0] * len(spans)


def _named(metric: str, labels: dict[str, str]) -> str:
    return f"{metric}{{{label_pairs(labels)}}}"


def _number(value: float) -> str:
    return f"{value:.12g}"
