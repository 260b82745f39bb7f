"""A page with its diagnosis: recorded fleet -> Prometheus with our rules -> Alertmanager -> `inferdoc serve` -> Slack.

    python benchmarks/serve.py [--together] [--no-repeat] [--later SECONDS] [--write docs/serve.md] [SCENARIO...]

Everything is the real program but the fleet and Slack. Each fleet is simulated ahead, with 25 minutes of calm, and lies
in the Prometheus before its samples are due; rules have the past that `alerts backfill` gives them. Windows are as long
as they are; what an alert waits for (`for`, waits of routes) is a fifteenth, and rules are judged every five seconds.
One fleet after the other, or all at once, each a cluster of its own (`--together`). Per scenario: which alert came
first, how long after that the first message that names a cause was received, with what it named. Then the look that is
taken where the alert is repeated after four hours, of a store in which the fault lasted all the while.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from measured import measured_line

from inferdoc.judging.model import seconds
from tests.live.recorded_clusters import SCENARIOS, Cluster, Served, recorded, served, with_past
from tests.serve.repeats import delivered_after

LEAD = 60.0
"""How old the faults are before the first fleet is recorded."""
PATIENCE = 300.0
LATER = 190.0
"""Seconds after the first message: the service has looked again by then."""
BEGIN, END = "<!-- benchmarks/serve.py begin -->", "<!-- benchmarks/serve.py end -->"


@dataclass
class Row:
    """result: seconds from the alert to the message; what the message named; later: what the look after three minutes
    named; repeat: what the look after four hours named. None where nothing came."""

    scenario: str
    alert: str | None = None
    result: float | None = None
    cause: str | None = None
    later: str | None = None
    pods: tuple[str, ...] = ()
    right_pods: bool = False
    onset_off: float | None = None
    runbook: bool = False
    repeat: str | None = None

    @property
    def right(self) -> bool:
        return self.cause == self.scenario


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", default=SCENARIOS)
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--no-repeat", action="store_true")
    parser.add_argument("--later", type=float, default=LATER, help="seconds until the second look is read")
    request = parser.parse_args()
    groups = [request.scenarios] if request.together else [[name] for name in request.scenarios]
    rows = [row for names in groups for row in measured(names, request.later)]
    if not request.no_repeat:
        rows = [repeated(row) for row in rows]
    text = f"{table(rows)}\n\n{measured_line()}"
    print(text)
    if request.write:
        page = request.write.read_text("utf-8")
        before, after = page.partition(BEGIN)[0], page.partition(END)[2]
        request.write.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", "utf-8")


def measured(scenarios: Sequence[str], later: float) -> list[Row]:
    """The rows of fleets that are watched by one service."""
    with tempfile.TemporaryDirectory(prefix="inferdoc-") as name:
        folder, onset = Path(name), time.time() - LEAD
        clusters = [recorded(scenario, onset, folder) for scenario in scenarios]
        with_past(clusters, folder)
        with served(folder) as running:
            taken = {cluster.name: _named(running, cluster) for cluster in clusters}
            time.sleep(later)
            rows = [_row(running, cluster, taken[cluster.name]) for cluster in clusters]
    for row in rows:
        print(row, file=sys.stderr, flush=True)
    return rows


def _named(running: Served, cluster: Cluster) -> str | None:
    """The incident of a cluster once a look told a cause; None where none came in time."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        incident = running.incident(cluster.name)
        if incident is not None and _first_cause(incident) is not None:
            return str(incident["id"])
        time.sleep(0.5)
    return None


def _first_cause(incident: dict[str, Any]) -> dict[str, Any] | None:
    return next((one["story"] for one in incident["looks"] if one["story"] and one["story"]["cause"]), None)


def _row(running: Served, cluster: Cluster, name: str | None) -> Row:
    incident = running.incident(cluster.name) if name else None
    first = _first_cause(incident) if incident else None
    if incident is None or first is None:
        return Row(cluster.name)
    at, body = next(
        (at, text)
        for at, message in zip(running.slack.times, running.slack.bodies, strict=False)
        if name in (text := json.dumps(message, ensure_ascii=False)) and "*cause*" in text
    )
    heard = min(datetime.fromisoformat(run["asked"]).timestamp() for run in incident["looks"])
    alerts = sorted((datetime.fromisoformat(a["starts"]).timestamp(), a["name"]) for a in incident["alerts"])
    return Row(
        cluster.name,
        alerts[0][1],
        at - heard,
        first["cause"],
        incident["story"]["cause"],
        tuple(first["pods"]),
        set(first["pods"]) == set(cluster.pods),
        None if first["onset"] is None else seconds(first["onset"]) - cluster.onset,
        "/runbooks/" in body,
    )


def repeated(row: Row) -> Row:
    with tempfile.TemporaryDirectory(prefix="inferdoc-") as folder:
        return replace(row, repeat=delivered_after(row.scenario, Path(folder)).cause)


def table(rows: Sequence[Row]) -> str:
    heads = (
        "scenario", "first alert", "message after the alert", "cause", "three minutes later", "pods", "onset off",
        "runbook", "repeated after 4 h",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "| --- | --- | ---: | --- | --- | --- | ---: | --- | --- |"]
    for row in rows:
        cells = (
            row.scenario,
            row.alert or "none",
            "" if row.result is None else f"{row.result:.1f} s",
            "right" if row.right else row.cause or "none",
            "right" if row.later == row.scenario else row.later or "none",
            "right" if row.right_pods else ", ".join(row.pods),
            "" if row.onset_off is None else f"{row.onset_off:+.0f} s",
            "yes" if row.runbook else "no",
            "right" if row.repeat == row.scenario else row.repeat or "",
        )
        lines.append("| " + " | ".join(cells) + " |")
    right = sum(row.right for row in rows)
    quick = sum(row.result is not None and row.result <= 30 for row in rows)
    again = sum(row.repeat == row.scenario for row in rows)
    lines += ["", f"Right cause in {right} of {len(rows)}; told within 30 s of the alert in {quick}; "]
    lines[-1] += f"right when the alert is repeated in {again}."
    return "\n".join(lines)


if __name__ == "__main__":
    main()
