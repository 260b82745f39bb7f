"""Settings of engines: what their pages show, what changed against the pod before, and flags of other engines."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from inferdoc.catalogue.aliases import MAIN
from inferdoc.catalogue.signal import Exporter, Signal
from inferdoc.fleet.lineage import Key, Lineage
from inferdoc.source.assemble import CONTAINER, moved_labels
from inferdoc.source.base import InfoSeries
from inferdoc.source.frame import Entity, SignalFrame


def elsewhere(flags: Iterable[str], engines: Sequence[Exporter]) -> str:
    """What to say of flags where none of the engines is the one that has them; empty where one is, or there is nothing
    to say. engines: those that are there."""
    if not engines or any(engine.exporter == MAIN for engine in engines):
        return ""
    named = list(flags)
    known = [_of_engine(named, engine) for engine in engines] if named else []
    return "".join(f" ({words})" for words in known)


def _of_engine(flags: Sequence[str], engine: Exporter) -> str:
    same = [flag for flag in flags if engine.flags.get(flag) == flag]
    known = [f"{engine.flags[flag]} for {flag}" for flag in flags if flag in engine.flags and flag not in same]
    unknown = [flag for flag in flags if flag not in engine.flags]
    parts = [f"{engine.title} has {', '.join(known)}"] if known else []
    if unknown:
        parts.append(f"{', '.join(unknown)} {'are flags' if len(unknown) > 1 else 'is a flag'} of vLLM")
    return "; ".join(parts) or f"{engine.title} calls it the same"


CACHE_SETTINGS = "vllm:cache_config_info"
LABELS = {"--kv-cache-dtype": "cache_dtype", "--no-enable-prefix-caching": "enable_prefix_caching"}
"""Flags whose label is called otherwise."""
PREVIOUS = "previous"
"""What the undo of a step names in braces."""
UNKNOWN = "the previous value"
UNSET = ("", "None")

Settings = Mapping[tuple[Key, str, str], Mapping[str, str]]
"""Pod, engine and container -> labels."""


def newest_settings(series: Iterable[InfoSeries]) -> Settings:
    """The labels that each engine and container showed last. series: of one info metric, on one grid."""
    newest: dict[tuple[Key, str, str], tuple[int, Mapping[str, str]]] = {}
    for one in series:
        steps = np.flatnonzero(np.isfinite(one.values))
        entity = Entity.of_labels(one.labels)
        place = entity.member, entity.engine, one.labels.get(CONTAINER, "")
        if len(steps) and steps[-1] >= newest.get(place, (-1, {}))[0]:
            newest[place] = int(steps[-1]), one.labels
    return {place: labels for place, (_, labels) in newest.items()}


def settings_of(settings: Settings, pod: Key) -> Mapping[str, str]:
    """The labels of a pod: those of any of its engines, which are started with the same flags."""
    return next((labels for (key, *_), labels in settings.items() if key == pod), {})


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


def compare_settings(
    frame: SignalFrame, signals: Mapping[str, Signal], infos: Mapping[str, Sequence[InfoSeries]], lineage: Lineage
) -> None:
    """Rewrite the rows of newborns in every signal that counts moved labels. infos: by current name, on the grid."""
    if not lineage.predecessor:
        return
    for name, signal in signals.items():
        for reading in signal.readings:
            if reading.moved and name in frame:
                newest = newest_settings(infos.get(str(reading.info), ()))
                for row, entity in enumerate(frame[name].entities):
                    former = lineage.predecessor.get(entity.member)
                    pairs = [] if former is None else _pairs(newest, former.key, entity)
                    if pairs:
                        values, moved = (
                            frame[name].values[row],
                            max(moved_labels(reading.moved, *pair) for pair in pairs),
                        )
                        frame[name].values[row] = np.where(np.isfinite(values), float(moved), np.nan)


def _pairs(newest: Settings, former: Key, entity: Entity) -> list[tuple[Mapping[str, str], Mapping[str, str]]]:
    """What each container of an engine shows, after what the same container of the pod before it showed."""
    own = {place[2]: labels for place, labels in newest.items() if place[:2] == (entity.member, entity.engine)}
    before = {name: newest.get((former, entity.engine, name)) for name in own}
    return [(then, own[name]) for name, then in before.items() if then is not None]
