"""One objective, edited in one place, moves everything that reads it."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml

from inferdoc.catalogue.load import load_catalogue
from inferdoc.fleet.members import Member, Pool
from inferdoc.forecast.capacity import capacities
from inferdoc.forecast.fromsource import Gathered
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.slo import slo_records, slo_rules, watched
from inferdoc.prewarm.pools import seen
from tests.cli.command import alone, call

__all__ = ["alone"]
TIGHT, LOOSE = 0.25, 5.0


@pytest.fixture
def declared(tmp_path):
    """Writes the objective into the overlay, or into the configuration; the flags that read it."""

    def write(target: float, form: str) -> list[str]:
        if form == "toml":
            path = tmp_path / "own.toml"
            path.write_text(f'[[slo]]\nid = "ttft"\nsignal = "ttft"\npercentile = 99\ntarget = {target}\n', "utf-8")
            return ["--config", str(path)]
        folder = tmp_path / f"mine-{target}" / "alerts"
        folder.mkdir(parents=True, exist_ok=True)
        entry = {"id": "ttft", "title": "First tokens", "signal": "ttft", "percentile": 99, "target": target}
        (folder / "slo.yaml").write_text(yaml.safe_dump({"slos": [entry]}), "utf-8")
        return ["--catalogue", str(folder.parent)]

    return write


@pytest.mark.parametrize("form", ["yaml", "toml"])
def test_diagnose_signals_audit_and_show(declared, store_of, form):
    store = ("--store", str(store_of("prefix-unstable-prompt")), "--until", "latest")
    seen = {}
    for target in (TIGHT, LOOSE):
        flags = declared(target, form)
        document = json.loads(call(*flags, "diagnose", *store, "-o", "json").out)
        evidence = [e for f in document["findings"] for e in f["evidence"] if e["signal"] == "ttft_p99"]
        rows = json.loads(call(*flags, "signals", *store, "-o", "json").out)
        all_along = ("--store", str(store_of("control-kv-high")), "--until", "latest")
        states = json.loads(call(*flags, "audit", *all_along, "--since", "10m", "-o", "json").out)
        shown = json.loads(call(*flags, "slo", "show", *store, "-o", "json").out)
        seen[target] = (
            {e["threshold"] for e in evidence if e["role"] == "harm"},
            {row["high"] for row in rows if row["signal"] == "ttft_p99"},
            "objective-missed" in {state["id"] for state in states["states"]},
            {one["status"] for one in shown["objectives"] if one["objective"] == "ttft"},
        )
    assert seen[TIGHT] == ({TIGHT}, {TIGHT}, True, {"missed"})
    assert seen[LOOSE] == (set(), {LOOSE}, False, {"met"})


@pytest.mark.parametrize(("namespace", "theirs"), [("sim", True), ("chat", False)])
def test_an_objective_to_one_namespace_is_read_there_alone(simulated, tmp_path, namespace, theirs):
    own = tmp_path / "own.toml"
    own.write_text(f'[[slo]]\nnamespace = "{namespace}"\nlimits = {{ttft_p99 = 0.001}}\n', "utf-8")
    store = ("--store", str(simulated.of("kv-transfer-backlog").store), "--until", "latest")
    document = json.loads(call("--config", own, "diagnose", *store, "-o", "json").out)
    thresholds = {e["threshold"] for f in document["findings"] for e in f["evidence"] if e["signal"] == "ttft_p99"}
    assert (0.001 in thresholds) == theirs
    rows = json.loads(call("--config", own, "signals", *store, "-o", "json").out)
    assert ({row["high"] for row in rows if row["signal"] == "ttft_p99"} == {0.001}) == theirs
    shown = json.loads(call("--config", own, "slo", "show", *store, "-o", "json").out)
    judged = {one["objective"]: one["place"]["namespace"] for one in shown["objectives"]}
    assert ("ttft-p99-" + namespace in judged) == theirs
    unjudged = {one["objective"]: one["because"] for one in shown["not_judged"]}
    assert theirs or unjudged[f"ttft-p99-{namespace}"] == "no pool is in its scope"


@pytest.mark.parametrize("form", ["yaml", "toml"])
def test_rules_burn_rates_and_boards(declared, tmp_path, form):
    for target, bound in ((0.25, "0[.]25"), (5.0, "5|5[.]0")):
        flags = declared(target, form)
        out = tmp_path / f"out-{target}"
        assert call(*flags, "dashboards", "build", "--out", out / "boards").code == 0
        catalogue = _catalogue(flags)
        (slo,) = [slo for slo in watched(catalogue) if slo.id == "ttft"]
        bad = slo_records(slo, catalogue)["model:inferdoc_slo_ttft_bad:rate5m"]
        assert f'vllm:time_to_first_token_seconds_bucket{{le=~"{bound}"}}' in bad
        assert "InferdocSloBurnFast" in {rule.name for rule in slo_rules(slo, catalogue, GeneratedLinks())}
        board = json.loads((out / "boards" / "fleet-overview.json").read_text("utf-8"))
        (panel,) = [p for p in board["panels"] if p["title"] == "TTFT p99"]
        steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert [step["value"] for step in steps] == [None, target]


@pytest.mark.parametrize("form", ["yaml", "toml"])
def test_capacity_and_with_it_the_plan(declared, form):
    """Latency that grows with load: the tighter promise is broken at less of it, so a plan starts more replicas."""
    load = np.tile(np.linspace(1.0, 10.0, 300), 2)
    late = 0.2 + 0.02 * load  # never twice its value at low load
    key = ("", "llm", "p0")
    rows = {"request_rate": {key: load}, "ttft_p99": {key: late}}
    member = Member(key, "p0", "", Pool("", "llm", "m", "both", "h100-80"))
    history = Gathered(0, 300, len(load), rows, {key: member})
    found = {}
    for target in (0.25, 0.35, LOOSE):
        flags = declared(target, form)
        catalogue = _catalogue(flags)
        (found[target],) = capacities(history, catalogue.slos)
    served = {target: each.served[0] for target, each in found.items()}
    assert (served[0.25].verdict, served[LOOSE].verdict) == ("slo", "at least")
    assert served[0.25].rate.per_second < served[0.35].rate.per_second == pytest.approx(7.5, abs=1.0)
    tight, wide = (seen(served[target]) for target in (0.25, 0.35))
    assert tight.rate.per_second < wide.rate.per_second and "the objective for ttft_p99" in tight.source


def _catalogue(flags: list[str]):
    from inferdoc.config import load_config

    flag, path = flags
    if flag == "--catalogue":
        return load_catalogue([path])
    return load_catalogue(promises=[(f"{path}: slo[{n}]", one) for n, one in enumerate(load_config(path).slo)])


def test_a_contradiction_between_the_two_places_names_both(declared, store_of):
    flags = [*declared(TIGHT, "toml"), *declared(LOOSE, "yaml")]
    done = call(*flags, "diagnose", "--store", store_of("control-steady"), "--until", "latest")
    assert done.code == 2 and "own.toml: slo[0]" in done.err and "slo.yaml:2: slos[0]" in done.err
    assert done.err.count("\n") == 1
