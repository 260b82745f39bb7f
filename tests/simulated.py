"""Stores of simulated incidents, with kube-state-metrics beside the engines, simulated once per session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scenario_files import load_scenario
from inferdoc.store import Store
from inferdoc_dev.incidents.recording import record
from tests.built import built


@dataclass
class Simulated:
    """The scenario as it was run, and the store that holds it."""

    scenario: Scenario
    store: Path


class SimulatedStores:
    """Incident id -> its store."""

    def of(self, name: str) -> Simulated:
        """The incident of this id, simulated once per session."""
        scenario = load_scenario(name)
        exporters = structs.replace(scenario.exporters, kube=True, kube_lineage=True)
        scenario = structs.replace(scenario, exporters=exporters)

        def make(folder: Path) -> None:
            with Store.open(folder / f"{name}.db", "w") as store:
                write_store(record(scenario).targets, store)

        return Simulated(scenario, built(f"simulated {name}", make) / f"{name}.db")
