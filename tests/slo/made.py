"""A store with days of history whose every event is known: requests an hour, and how many below each bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inferdoc.store.importer import import_file
from inferdoc.store.store import Store

BEGIN = 1_790_000_000
STEP = 60
TTFT = (0.1, 0.5, 1.0, 2.5, 5.0)
TPOT = (0.05, 0.1, 0.2, 0.3)


@dataclass(frozen=True)
class Hour:
    """What one engine does in an hour. ttft, tpot: shares of its requests at or below each bound; failed: requests
    that end with an error, on top of the others."""

    requests: float = 600.0
    ttft: Sequence[float] = (0.5, 0.9, 0.97, 0.995, 1.0)
    tpot: Sequence[float] = (0.6, 0.95, 0.998, 1.0)
    failed: float = 0.0
    up: bool = True


@dataclass
class Engine:
    """One engine. hours: what it does in each hour; labels: besides model, pod and namespace."""

    pod: str
    hours: Callable[[int], Hour] = lambda _: Hour()
    model: str = "llama"
    labels: Mapping[str, str] = field(default_factory=dict)
    ttft: Sequence[float] = TTFT


def store(path: Path, engines: Sequence[Engine], hours: int, more: Sequence[str] = ()) -> Path:
    """A store with these engines. more: further lines of OpenMetrics text."""
    page = path.with_suffix(".om")
    lines = [*(line for engine in engines for line in _lines(engine, hours)), *more, "# EOF"]
    page.write_text("\n".join(lines) + "\n", "utf-8")
    with Store.open(path, "w") as target:
        import_file(target, page)
    return path


def _lines(engine: Engine, hours: int) -> Iterator[str]:
    where = {"namespace": "llm", "pod": engine.pod, "instance": f"{engine.pod}:8000", "job": "vllm", **engine.labels}
    target = _text(where)
    labels = _text({**where, "model_name": engine.model, "engine": "0"})
    series: dict[str, list[tuple[int, float]]] = {}
    total: dict[str, float] = {}
    for step in range(hours * 3600 // STEP + 1):
        at, hour = BEGIN + step * STEP, engine.hours(max(0, step * STEP - 1) // 3600)
        added = hour.requests * STEP / 3600 if step else 0.0
        values = {f"up{{{target}}}": float(hour.up)}
        grown = dict(_events(engine, hour, added, labels))
        for name, value in grown.items():
            total[name] = total.get(name, 0.0) + value
        if hour.up:
            values |= total | {f"vllm:num_requests_running{{{labels}}}": 4.0}
        for name, value in values.items():
            series.setdefault(name, []).append((at, value))
    for name, samples in series.items():
        yield from (f"{name} {value:.12g} {at}" for at, value in samples)


def _events(engine: Engine, hour: Hour, added: float, labels: str) -> Iterator[tuple[str, float]]:
    for name, bounds, shares in (
        ("time_to_first_token_seconds", engine.ttft, hour.ttft),
        ("request_time_per_output_token_seconds", TPOT, hour.tpot),
    ):
        for bound, share in zip((*bounds, "+Inf"), (*shares, 1.0), strict=True):
            yield f'vllm:{name}_bucket{{{labels},le="{bound}"}}', share * added
        yield f"vllm:{name}_count{{{labels}}}", added
    yield f'vllm:request_success_total{{{labels},finished_reason="stop"}}', added
    yield f'vllm:request_success_total{{{labels},finished_reason="error"}}', hour.failed * STEP / 3600 if added else 0.0


def _text(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{value}"' for name, value in labels.items())
