"""Where a look is taken: about the pod, its pool, its cluster, and nowhere else."""

from __future__ import annotations

from inferdoc.incidents.model import AlertScope
from inferdoc.serve.run_process import RunRequest, run
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario_files import load_scenario
from inferdoc.store import Store
from inferdoc_dev.incidents.recording import record


def test_a_fault_of_another_cluster_is_not_reported(tmp_path):
    """One server holds two clusters: an alert of the calm one is not about the hung engine of the other."""
    store = tmp_path / "fleet.db"
    with Store.open(store, "w") as opened:
        for cluster, name in (("calm", "control-steady"), ("sick", "engine-hung")):
            scenario = load_scenario(name)
            targets = record(scenario).targets
            for target in targets:
                target.labels["cluster"] = cluster
            write_store(targets, opened)
    until = scenario.start + scenario.duration

    def result(cluster: str) -> list[str]:
        place = AlertScope(cluster=cluster, namespace="sim")
        request = RunRequest({"store": str(store)}, {}, until - 1200, until, place, page=False)
        return [finding.id for finding in run(request).document.findings]

    assert result("sick") == ["engine-hung"]
    assert result("calm") == []
