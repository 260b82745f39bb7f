"""Stores of simulated incidents, with kube-state-metrics beside the engines, made once for a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from inferdoc.simulate.output import write_store
from inferdoc.simulate.recording import record
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scenario_files import load_scenario
from inferdoc.store import Store


@dataclass
class Simulated:
    """The scenario as it was run, and the store that holds it."""

    scenario: Scenario
    store: Path


class SimulatedStores:
    """Incident id -> its store."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.made = folder, dict[str, Simulated]()

    def of(self, name: str) -> Simulated:
        """The incident of this id, simulated on first use."""
        if name not in self.made:
            scenario = load_scenario(name)
            exporters = structs.replace(scenario.exporters, kube=True, kube_lineage=True)
            scenario = structs.replace(scenario, exporters=exporters)
            path = self.folder / f"{name}.db"
            with Store.open(path, "w") as store:
                write_store(record(scenario).targets, store)
            self.made[name] = Simulated(scenario, path)
        return self.made[name]
