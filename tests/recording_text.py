"""Small made-up recordings as OpenMetrics text with timestamps, for tests that need a known shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


def openmetrics(
    pods: Sequence[str], times_s: Iterable[int], up: Callable[[str, int], int | None] = lambda pod, second: 1
) -> str:
    """One target per pod. work_total rises by 3 a scrape from 1000, level is the last two digits of the second; up says
    what a scrape found: 1, 0 (then only `up` is there), or None for no scrape at all."""
    seconds = list(times_s)
    lines: dict[str, list[str]] = {name: [] for name in ("up", "work_total", "level", "junk", "build_info")}
    for pod in pods:
        labels = f'job="made",instance="{pod}:8000",pod="{pod}"'
        for number, second in enumerate(seconds):
            state = up(pod, second)
            if state is None:
                continue
            lines["up"].append(f"up{{{labels}}} {state} {second}")
            if state:
                lines["work_total"].append(f"work_total{{{labels}}} {1000 + 3 * number} {second}")
                lines["level"].append(f"level{{{labels}}} {second % 100} {second}")
                lines["junk"].append(f"junk{{{labels}}} 1 {second}")
                lines["build_info"].append(f'build_info{{{labels},version="1"}} 1 {second}')
    types = {"up": "gauge", "work_total": "counter", "level": "gauge", "junk": "gauge", "build_info": "info"}
    parts = []
    for name, own in lines.items():
        family = name.removesuffix("_total").removesuffix("_info")
        parts += [f"# TYPE {family} {types[name]}", *own]
    return "\n".join([*parts, "# EOF\n"])
