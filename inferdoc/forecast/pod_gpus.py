"""How many GPUs a pod of a pool has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from inferdoc.config_sections import PodSection
from inferdoc.forecast.fromsource import Gathered, HistorySource, Key


def gpus_of_pod(source: HistorySource, pods: Iterable[PodSection], made: Gathered, keys: Sequence[Key]) -> int | None:
    """As the configuration says, else as many as the GPU exporter joins to it at the end of what was gathered; None
    where neither tells. keys: the pods of the pool."""
    for section in pods:
        if section.gpus is not None and re.fullmatch(section.pod, keys[0][2]):
            return section.gpus
    frame = source.read(["gpu_util"], made.end - made.step, made.end, made.step, window=made.step)
    if "gpu_util" not in frame:
        return None
    numbers = [sum(1 for entity in frame["gpu_util"].entities if entity.member == key) for key in keys]
    return max(numbers, default=0) or None
