"""What the rules say of the incidents of fixtures/incidents: recordings with an hour of course and their labels.

    python benchmarks/rule_scenarios.py --out incidents kv-preemption-thrash engine-down   # or all of them
    inferdoc alerts backtest incidents
    inferdoc alerts backtest incidents --cold

What happens in a scenario comes so much later that half an hour of past lies before it, and as long again after it as
the slowest ticket waits. GPUs, containers, kube-state-metrics and a router are scraped beside the engines.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from msgspec import structs

from inferdoc.backtest.recording import FILE
from inferdoc.simulate.output import write_file
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scenario_files import load_scenario
from inferdoc_dev.incidents.recording import record

INCIDENTS = Path(__file__).parents[1] / "fixtures" / "incidents"
PAST_SECONDS, AFTER_SECONDS = 1800.0, 1800.0
"""Short pasts count after 25 minutes; the slowest alert waits 15, on windows of 5."""


def longer(scenario: Scenario) -> Scenario:
    """The scenario with what it does moved to the end of its past, traffic that joins then with it, and time for the
    slowest ticket after it."""
    onset = scenario.expect.onset
    later = max(0.0, PAST_SECONDS - onset) if onset is not None else 0.0
    faults = tuple(
        structs.replace(fault, at=fault.at + later, until=None if fault.until is None else fault.until + later)
        for fault in scenario.faults
    )
    traffic = tuple(
        structs.replace(stream, start=stream.start + later) if stream.start > 0 else stream
        for stream in scenario.traffic
    )
    length = PAST_SECONDS + AFTER_SECONDS if onset is None else onset + later + AFTER_SECONDS
    expect = scenario.expect if onset is None else structs.replace(scenario.expect, onset=onset + later)
    exporters = structs.replace(scenario.exporters, kube=True, cadvisor=True)
    return structs.replace(
        scenario,
        traffic=traffic,
        faults=faults,
        expect=expect,
        duration=max(length, scenario.duration),
        exporters=exporters,
    )


def label(scenario: Scenario, file: str) -> dict[str, Any]:
    """What labels.json says of a scenario."""
    expect = scenario.expect
    causes = [name for name in (expect.cause, expect.root, *expect.accepts) if name]
    onset = None if expect.onset is None else scenario.start + expect.onset
    return {"file": file, "control": expect.cause is None, "expected": causes, "onset": onset}


def main() -> None:
    """Write one recording after the other, and labels.json as they come; what is there already is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("names", nargs="*", help="ids of scenarios (default: all)")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    labels = []
    for name in given.names or sorted(path.stem for path in INCIDENTS.glob("*.yaml")):
        scenario, file = longer(load_scenario(name)), f"{name}.om.gz"
        if not (given.out / file).is_file():
            write_file(record(scenario).targets, given.out / file)
        labels.append(label(scenario, file))
        (given.out / FILE).write_text(json.dumps({"recordings": labels}, indent=1), "utf-8")
        print(name, flush=True)


if __name__ == "__main__":
    main()
