"""The settings that an engine shows now, so that a step which changes one can say how to change it back.

vLLM shows its cache settings alone, as labels of vllm:cache_config_info (vllm/v1/metrics/loggers.py, v0.33.0). A label
has the name of its flag (vllm/engine/arg_utils.py), but for those of `LABELS`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from inferdoc.fleet.lineage import Key
from inferdoc.source.base import InfoSeries
from inferdoc.source.frame import Entity

CACHE_SETTINGS = "vllm:cache_config_info"
LABELS = {"--kv-cache-dtype": "cache_dtype", "--no-enable-prefix-caching": "enable_prefix_caching"}
"""Flags whose label is called otherwise."""
PREVIOUS = "previous"
"""What the undo of a step names in braces."""
UNKNOWN = "the previous value"
UNSET = ("", "None")

Settings = Mapping[tuple[Key, str], Mapping[str, str]]
"""Pod and engine -> labels."""


def newest_settings(series: Iterable[InfoSeries]) -> Settings:
    """The labels that each engine showed last. series: of one info metric, on one grid."""
    newest: dict[tuple[Key, str], tuple[int, Mapping[str, str]]] = {}
    for one in series:
        steps = np.flatnonzero(np.isfinite(one.values))
        entity = Entity.of_labels(one.labels)
        place = entity.member, entity.engine
        if len(steps) and steps[-1] >= newest.get(place, (-1, {}))[0]:
            newest[place] = int(steps[-1]), one.labels
    return {place: labels for place, (_, labels) in newest.items()}


def settings_of(settings: Settings, pod: Key) -> Mapping[str, str]:
    """The labels of a pod: those of any of its engines, which are started with the same flags."""
    return next((labels for (key, _), labels in settings.items() if key == pod), {})


def with_previous(text: str, flags: Sequence[str], shown: Mapping[str, str]) -> str:
    """The text with `{previous}` filled in: the flags of the step with the values that `shown` has, or plain words."""
    return text.replace(
        f"{{{PREVIOUS}}}", " ".join(_flag(flag, shown) for flag in flags if _value(flag, shown)) or UNKNOWN
    )


def _value(flag: str, shown: Mapping[str, str]) -> str | None:
    value = shown.get(LABELS.get(flag, flag.removeprefix("--").replace("-", "_")), "")
    return None if value in UNSET else value


def _flag(flag: str, shown: Mapping[str, str]) -> str:
    value = _value(flag, shown) or ""
    if value in ("True", "False"):
        name = flag.removeprefix("--").removeprefix("no-")
        return f"--{name}" if value == "True" else f"--no-{name}"
    return f"{flag} {shlex.quote(value)}"
