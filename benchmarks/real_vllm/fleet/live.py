"""The fleet part of `make real-vllm`: a few incidents played now, diagnosed from the store that was collected."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.real_vllm.fleet.incidents import INCIDENTS, Incident
from benchmarks.real_vllm.fleet.record import Places, label, record
from benchmarks.real_vllm.fleet.starts import Starts
from benchmarks.real_vllm.judge import diagnosis

PLAYED = ("slow-replica", "rollout-smaller-cache", "control-rolling-restart")
"""A pod apart from its peers, a release that is worse, and a release that is not."""
LATE_SECONDS = 60.0


@dataclass(frozen=True)
class FleetRun:
    """label: what was done and what clients saw, as in labels.json; before, whole, late: the documents of the time
    before the onset, of the whole recording, and of a window begun 60 s after the onset; no onset, none of the two."""

    incident: Incident
    label: dict[str, Any]
    before: dict[str, Any] | None
    whole: dict[str, Any]
    late: dict[str, Any] | None

    @property
    def silent(self) -> bool:
        return self.before is None or not self.before["findings"]

    @property
    def right(self) -> bool:
        """An expected cause first, on none but affected pods; for a control, nothing at all."""
        findings = self.whole["findings"]
        if self.incident.control or not findings:
            return self.incident.control and not findings
        accepted = {*self.incident.expected, *self.incident.edge_accepts}
        return findings[0]["id"] in accepted and set(findings[0]["scope"]["pods"]) <= set(self.label["affected_pods"])


def diagnosed(incident: Incident, store: Path, entry: dict[str, Any]) -> FleetRun:
    begin, end = entry["window"]
    onset = entry["onset"]
    return FleetRun(
        incident,
        entry,
        None if onset is None else diagnosis(store, begin, onset),
        diagnosis(store, begin, end),
        None if onset is None else diagnosis(store, onset + LATE_SECONDS, end),
    )


async def _played(incident: Incident, places: Places) -> FleetRun:
    recording = await record(incident, places)
    entry = label(recording, incident.name)
    return await asyncio.to_thread(diagnosed, incident, recording.store, entry)


def play_fleets(environment: Path, model: Path, work: Path) -> Sequence[FleetRun]:
    """All of PLAYED side by side. Raises RuntimeError where a pod does not start."""
    wanted = [incident for incident in INCIDENTS if incident.name in PLAYED]
    work.mkdir(parents=True, exist_ok=True)

    async def all_of_them(places: Places) -> list[FleetRun]:
        return list(await asyncio.gather(*(_played(incident, places) for incident in wanted)))

    with Starts(environment / "bin" / "python", work / "nursery.log") as starts:
        return asyncio.run(all_of_them(Places(starts, model, work)))
