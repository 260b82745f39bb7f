"""Raw series of a test case in promtool's notation, a sample a minute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inferdoc.generate.cases import POOL_SIZE, Case
from inferdoc.generate.world import COUNTER_PER_SECOND, NARROW, Key, Raw

GPUS = 4
YOUNG_MINUTES = 20
CLUSTER, MODEL = "c1", "model-a"


@dataclass(frozen=True)
class Span:
    """calm: minutes before the fault; faulty: minutes of it."""

    calm: int
    faulty: int


def identity(metric: str, case: Case, pod: str, gpu: int = 0) -> dict[str, str]:
    """The labels of a raw series besides those its matchers ask for."""
    where = {"cluster": CLUSTER, "namespace": case.name, "pod": pod}
    if metric.startswith("DCGM_"):
        return {**where, "job": "dcgm", "gpu": str(gpu), "modelName": "NVIDIA H100 80GB HBM3"}
    if metric.startswith("container_"):
        return {**where, "job": "cadvisor"}
    scraped = {**where, "job": "vllm", "instance": f"{pod}.{case.name}:8000"}
    if case.role:
        scraped["role"] = case.role
    engine = {"model_name": MODEL, "engine": "0"}
    return {**scraped, **engine} if metric.startswith("vllm:") else scraped


def lines(case: Case, pool: bool, span: Span) -> Iterator[dict[str, str]]:
    """Every input series of a case. pool: with two more pods, like it but for the fault."""
    raws = case.world.raw
    down = any(name == "up" and raw.fault == 0 for (name, _), raw in raws.items())
    for number in range(POOL_SIZE if pool else 1):
        pod = f"p{number}"
        for key, raw in raws.items():
            sick = number < case.affected
            ends = sick and (case.gone or (down and key[0] != "up"))
            for gpu in range(GPUS if key[0].startswith("DCGM_") else 1):
                yield from _series(case, key, raw, pod, gpu, _Shape(span, sick and gpu == 0, ends, case.young))


@dataclass(frozen=True)
class _Shape:
    span: Span
    sick: bool
    ends: bool
    young: bool

    @property
    def before(self) -> int:
        """Minutes without the series at the beginning."""
        return self.span.calm - YOUNG_MINUTES if self.young else 0

    def text(self, calm: str, fault: str) -> str:
        parts = [f"_x{self.before}"] if self.before else []
        return " ".join([*parts, calm, "stale" if self.ends else fault])


def _series(case: Case, key: Key, raw: Raw, pod: str, gpu: int, shape: _Shape) -> Iterator[dict[str, str]]:
    metric, matched = key
    labels = {**identity(metric, case, pod, gpu), **dict(matched)}
    fault = raw.fault if shape.sick else raw.calm
    if raw.kind == "histogram":
        count = case.world.raw.get((metric.removesuffix("_bucket") + "_count", matched))
        rates = (count.calm, count.fault if shape.sick else count.calm) if count else (COUNTER_PER_SECOND,) * 2
        for bound, calm_share, fault_share in _buckets(raw, fault):
            values = _counter(rates[0] * calm_share, rates[1] * fault_share, shape)
            yield {"series": _named(metric, {**labels, "le": bound}), "values": values}
    elif raw.kind == "counter":
        yield {"series": _named(metric, labels), "values": _counter(raw.calm, fault, shape)}
    else:
        yield {
            "series": _named(metric, labels),
            "values": _gauge(raw.calm, fault, raw.ramp if shape.sick else 0, shape),
        }


def _gauge(calm: float, fault: float, ramp: float, shape: _Shape) -> str:
    length = shape.span.calm - shape.before
    grows = f"{_number(fault)}{'+' if ramp > 0 else '-'}{_number(abs(ramp) * 60)}" if ramp else _number(fault)
    return shape.text(f"{_number(calm)}x{length}", f"{grows}x{shape.span.faulty - 1}")


def _counter(calm: float, fault: float, shape: _Shape) -> str:
    length = shape.span.calm - shape.before
    step, then = calm * 60, fault * 60
    reached = step * length + then
    return shape.text(f"0+{_number(step)}x{length}", f"{_number(reached)}+{_number(then)}x{shape.span.faulty - 1}")


def _buckets(raw: Raw, fault: float) -> Iterator[tuple[str, float, float]]:
    """Bounds with the share of observations at or below them, calm and faulty, that give the quantiles wanted."""
    spans = [(value * NARROW, value * NARROW + value * (1 - NARROW) / raw.q) for value in (raw.calm, fault)]
    bounds = sorted({bound for span in spans for bound in span})
    for bound in bounds:
        calm, faulty = (
            (min(1.0, max(0.0, (bound - low) / (high - low))) if high > low else 1.0) for low, high in spans
        )
        yield _number(bound), calm, faulty
    yield "+Inf", 1.0, 1.0


def _named(metric: str, labels: dict[str, str]) -> str:
    inside = ", ".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{metric}{{{inside}}}"


def _number(value: float) -> str:
    return f"{value:.12g}"
