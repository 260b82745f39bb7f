"""The rows of the perturbation benchmark: what is done to a recording, where somebody looks, and what is right then."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import perturb
from labels import Label, judge_cut, judge_late, judge_silent, judge_whole, leaves

from inferdoc.catalogue.load import load_catalogue
from inferdoc.collect.openmetrics_file import SampleColumns, read_openmetrics
from inferdoc.judging.model import Diagnosis
from inferdoc.times import length_of

SEED = 16
SHIFT_SECONDS, SHIFT_SHARE = 300.0, 1 / 3
"""A window is shifted by five minutes, in short recordings by a third of what lies before the onset, or after it."""


@dataclass(frozen=True)
class Recording:
    """A recording as it is or might have been, and what may be said of it then.

    pivot: seconds since the epoch, the onset; the middle of a control, so that the same is done to it.
    """

    samples: SampleColumns
    label: Label
    pivot: float

    @property
    def first(self) -> float:
        """Time of the oldest sample, seconds."""
        return float(self.samples.timestamps_ms.min()) / 1000

    @property
    def last(self) -> float:
        """Time of the newest sample, seconds."""
        return float(self.samples.timestamps_ms.max()) / 1000

    def chance(self, what: str) -> np.random.Generator:
        """The same draws in every run, others for every recording and row."""
        return np.random.default_rng([SEED, zlib.crc32(f"{what} {self.label.file}".encode())])


@dataclass(frozen=True)
class Look:
    """The window somebody asks for. begin: seconds since the epoch; None: as long before the end as the label says."""

    begin: float | None = None
    until: float | None = None


@dataclass(frozen=True)
class Row:
    """One row. change: what is done to the recording, None where it does not apply; look: the window, None where too
    little of the fault is left in it; judge: what is wrong with the answer; hurt: whether users are hurt in the window
    of a fault."""

    name: str
    title: str
    change: Change
    look: Callable[[Recording], Look | None]
    judge: Callable[[Label, Diagnosis], list[str]]
    hurt: bool = True


@dataclass(frozen=True)
class Change:
    """What is done to a recording. name: rows with the same one share what it gives."""

    name: str
    apply: Callable[[Recording], Recording]


def read_recording(file: Path, label: Label) -> Recording:
    """A recording as it was taken."""
    with file.open("rb") as stream:
        samples = read_openmetrics(stream)
    middle = float(samples.timestamps_ms.min() + samples.timestamps_ms.max()) / 2000
    return Recording(samples, label, middle if label.onset is None else label.onset)


def _kept(recording: Recording) -> Recording:
    return recording


def _with_slack(recording: Recording, samples: SampleColumns, intervals: float) -> Recording:
    """The onset may be so many of the recording's own scrape intervals more off."""
    slack = intervals * perturb.interval_ms(recording.samples) / 1000
    label = msgspec.structs.replace(recording.label, onset_tolerance=recording.label.onset_tolerance + slack)
    return replace(recording, samples=samples, label=label)


def _thinned(every: int) -> Callable[[Recording], Recording]:
    return lambda r: _with_slack(r, perturb.thinned(r.samples, every), every - 1)


def _spaced(seconds: float) -> Callable[[Recording], Recording]:
    def change(r: Recording) -> Recording:
        own = perturb.interval_ms(r.samples) / 1000
        return _with_slack(r, perturb.spaced(r.samples, round(seconds * 1000)), max(0.0, seconds / own - 1))

    return change


def _begun(seconds: float) -> Callable[[Recording], Recording]:
    return lambda r: replace(r, samples=perturb.begun(r.samples, (r.pivot + seconds) * 1000))


def _stretched(factor: float) -> Callable[[Recording], Recording]:
    def change(r: Recording) -> Recording:
        def moved(second: float | None) -> float | None:
            return None if second is None else r.first + (second - r.first) * factor

        label = msgspec.structs.replace(
            r.label,
            **{name: moved(getattr(r.label, name)) for name in ("onset", "onset_latest", "end", "fault_end")},
            since=f"{length_of(r.label.since) * factor:g}s",
            onset_tolerance=r.label.onset_tolerance * max(factor, 1.0),
        )
        return Recording(perturb.stretched(r.samples, factor), label, moved(r.pivot) or 0.0)

    return change


def _older(r: Recording) -> Recording:
    former = perturb.former_names(load_catalogue().exporters.values())
    return replace(r, samples=perturb.older(r.samples, former))


def _named(r: Recording, samples: SampleColumns, names: dict[str, str]) -> Recording:
    """The label speaks of the new names as well."""

    def both(pods: tuple[str, ...]) -> tuple[str, ...]:
        return (*pods, *(names[pod] for pod in pods if pod in names))

    label = msgspec.structs.replace(
        r.label, affected_pods=both(r.label.affected_pods), healthy_pods=both(r.label.healthy_pods)
    )
    return replace(r, samples=samples, label=label)


def _renamed(r: Recording) -> Recording:
    names = perturb.replacements(r.samples)
    return _named(r, perturb.renamed(r.samples, names), names)


def _opaque(r: Recording) -> Recording:
    names = perturb.opaque(r.samples)
    return _named(r, perturb.renamed(r.samples, names), names)


def _by_address(r: Recording) -> Recording:
    return _named(r, *perturb.by_address(r.samples))


def _rolled_out(r: Recording) -> Recording:
    names = perturb.replacements(r.samples)
    return _named(r, perturb.rolled_out(r.samples, r.pivot * 1000, names), names)


def _moved(r: Recording) -> Recording:
    """As a StatefulSet does."""
    addresses = {old: new for old, new in perturb.replacements(r.samples).items() if ":" in old}
    return replace(r, samples=perturb.rolled_out(r.samples, r.pivot * 1000, addresses))


def _relabelled(r: Recording) -> Recording:
    labels = {"cluster": "prod", "role": "both"}
    if any(dict(each.labels).get("role") for each in r.samples.series):
        del labels["role"]
    return replace(r, samples=perturb.relabelled(r.samples, r.pivot * 1000, labels))


def _whole(r: Recording) -> Look:
    return Look()


def _before(r: Recording) -> Look:
    return Look(until=r.pivot - 5.0)


def _late(seconds: float) -> Callable[[Recording], Look | None]:
    def look(r: Recording) -> Look | None:
        begin = float(int(r.pivot + seconds))
        return Look(begin=begin) if leaves(r.label, r.last, begin) else None

    return look


def _cut(seconds: float) -> Callable[[Recording], Look | None]:
    def look(r: Recording) -> Look | None:
        until = (r.label.onset_latest or r.pivot) + seconds
        return Look(until=until) if until <= r.last else None

    return look


def _shifted(share_before: float, share_after: float) -> Callable[[Recording], Look | None]:
    def look(r: Recording) -> Look:
        begin = max(r.first, r.last - length_of(r.label.since))
        later = share_before * min(SHIFT_SECONDS, SHIFT_SHARE * (r.pivot - begin))
        earlier = share_after * min(SHIFT_SECONDS, SHIFT_SHARE * (r.last - (r.label.onset_latest or r.pivot)))
        return Look(begin=begin + later, until=r.last - earlier)

    return look


def _whole_row(name: str, title: str, apply: Callable[[Recording], Recording]) -> Row:
    """A row that changes the recording and asks about the whole window."""
    return Row(name, title, Change(name, apply), _whole, judge_whole)


def _noisy_row(
    name: str, title: str, change: Callable[[SampleColumns, np.random.Generator], SampleColumns], intervals: float = 1
) -> Row:
    """A row whose change is drawn. intervals: the slack of the onset."""
    return _whole_row(name, title, lambda r: _with_slack(r, change(r.samples, r.chance(name)), intervals))


AS_IT_IS = Change("as it is", _kept)
ROLLOUT = Change("rollout", _rolled_out)
LATE = (30, 60, 120, 180)
"""Seconds after the onset."""

ROWS = (
    Row("whole", "whole window", AS_IT_IS, _whole, judge_whole),
    *(
        Row(f"late-{s}", f"late look: the window begins {s} s after the onset", AS_IT_IS, _late(s), judge_late)
        for s in LATE
    ),
    *(
        Row(f"no-history-{s}", f"no history: the source begins {s} s after the onset", begun, _late(s), judge_late)
        for s, begun in ((s, Change(f"begun {s}", _begun(s))) for s in LATE)
    ),
    Row("rollout", "rollout at the onset: new names, counters from 0", ROLLOUT, _whole, judge_whole),
    *(
        Row(f"rollout-late-{s}", f"rollout at the onset, window begins {s} s after it", ROLLOUT, _late(s), judge_late)
        for s in (60, 180)
    ),
    _whole_row("moved", "restart at the onset: same names, other addresses, counters from 0", _moved),
    _whole_row("relabelled", "labels `cluster` and `role` are there from the onset on", _relabelled),
    _whole_row("renamed", "other pod names throughout", _renamed),
    _whole_row("opaque", "pod names without the workload", _opaque),
    _whole_row("addresses", "no pod label: addresses alone", _by_address),
    _noisy_row("lost", "5 % of the scrapes lost", lambda s, chance: perturb.lost(s, 0.05, chance)),
    _noisy_row("failed", "5 % of the scrapes failed (`up` 0)", lambda s, chance: perturb.failed(s, 0.05, chance)),
    _noisy_row("gaps", "three gaps of three scrapes, all targets", lambda s, chance: perturb.gaps(s, 3, 3, chance), 3),
    _noisy_row("jitter", "scrapes up to 1 s early or late", lambda s, chance: perturb.jittered(s, 1000, chance)),
    _whole_row("every-2", "every second scrape", _thinned(2)),
    _whole_row("every-3", "every third scrape", _thinned(3)),
    _whole_row("every-15s", "a scrape each 15 s", _spaced(15)),
    _whole_row("time-half", "all twice as fast", _stretched(0.5)),
    _whole_row("time-double", "all half as fast", _stretched(2)),
    _whole_row("older", "names of older releases", _older),
    Row("begins-later", "window begins minutes later", AS_IT_IS, _shifted(1, 0), judge_whole),
    Row("ends-earlier", "window ends minutes earlier", AS_IT_IS, _shifted(0, 1), judge_whole),
    Row("shifted", "both: window shorter on both sides", AS_IT_IS, _shifted(1, 1), judge_whole),
    *(Row(f"cut-{s}", f"seen for {s} s only (silence is right)", AS_IT_IS, _cut(s), judge_cut) for s in (30, 60)),
    Row("before", "ended before the onset (must be silent)", AS_IT_IS, _before, judge_silent, hurt=False),
)
"""In the order of the table."""
