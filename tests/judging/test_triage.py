"""A scan before the reading leaves out whom no recipe finds anything on, and nobody else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import load_catalogue
from inferdoc.fleet.members import FleetFilter, Member, Pool
from inferdoc.judging.api import Options
from inferdoc.judging.clock import Clock, Rule
from inferdoc.judging.judged import Judged
from inferdoc.judging.scan import impacts, parts
from inferdoc.judging.scan.model import Looked
from inferdoc.source import parallel_store, store_source
from inferdoc.source.identified import Identified
from inferdoc.source.part_process import PartProcess
from tests.cli.command import alone, call
from tests.conftest import RECORDINGS, ROOT
from tests.live.test_both_sources import evidence, findings
from tests.merged_fleets import merged_store
from tests.sampling import sampled

__all__ = ["alone"]
PARTS, SCAN_PART, BEGUN = Identified.parts, parts.scan_part, parts._start_workers
FLEETS, HELD_OUT = ROOT / "fixtures" / "fleets", ROOT / "fixtures" / "heldout"
CALM = {RECORDINGS: RECORDINGS / "control-steady.om.gz", FLEETS: FLEETS / "control-scale-out.om.gz"}
EVERY = [path for folder in (FLEETS, RECORDINGS, HELD_OUT) for path in sorted(folder.glob("*.om.gz"))]


def both(store, parallel=1, **options):
    """The answer of a deep read, and of a scan and what it chose."""
    answers = []
    for deep in (True, False):
        source = open_source(store=store, parallel=parallel)
        answers.append(diagnose(source, since="2h", options=Options(deep=deep, **options)))
        source.close()
    return answers


def same(deep, scanned):
    assert findings(scanned) == findings(deep) and evidence(scanned) == evidence(deep)
    assert (scanned.verdict, scanned.summary, scanned.window.until) == (deep.verdict, deep.summary, deep.window.until)
    assert (scanned.coverage.pods, scanned.coverage.targets) == (deep.coverage.pods, deep.coverage.targets)


@pytest.fixture(autouse=True)
def every_fleet_is_large(monkeypatch):
    monkeypatch.setattr(impacts, "LEAST_TARGETS", 1)


@pytest.mark.parametrize(
    "recording", sampled(EVERY, 9), ids=lambda path: f"{path.parent.name}-{path.name.split('.')[0]}"
)
def test_the_findings_are_those_of_a_deep_read(recording: Path):
    """Beside a calm pool, which is the one that is read if this one is taken for calm too."""
    calm = CALM.get(recording.parent, CALM[RECORDINGS])
    deep, scanned = both(merged_store([recording, calm]))
    same(deep, scanned)
    assert deep.coverage.scanned is None and scanned.coverage.scanned.pools >= 2


def test_of_many_pools_those_that_are_hurt_are_read_and_one_beside_them():
    names = ("control-steady", "control-scale-out", "control-bursts", "drafts-rejected")
    deep, scanned = both(merged_store([FLEETS / f"{name}.om.gz" for name in names]))
    same(deep, scanned)
    assert [finding.id for finding in scanned.findings] == ["spec-acceptance-decay"]
    read = scanned.coverage.scanned
    assert read.pools == 4 and read.pools_read == 2 and read.pods_read < scanned.coverage.pods
    assert scanned.timing.samples > 0


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("hurt", ["drafts-rejected", "control-bursts"])
def test_a_fleet_that_does_not_fit_is_scanned_part_by_part_with_the_same_findings(hurt, processes, monkeypatch):
    """Where nobody is hurt as well: then one family is read in full."""
    names = ("control-steady", "control-scale-out", hurt)
    store = merged_store([FLEETS / f"{name}.om.gz" for name in names])
    whole = both(store)[1]
    monkeypatch.setattr(impacts, "SCANNED_AT_ONCE", 1)
    monkeypatch.setattr(parallel_store, "LEAST_SCRAPES", 1)
    seen = []
    monkeypatch.setattr(parts, "scan_part", lambda *asked: seen.append(asked) or SCAN_PART(*asked))
    deep, scanned = both(store, processes)
    same(deep, scanned)
    assert len(seen) == 3 if processes == 1 else 0 < len(seen) < 3
    assert scanned.coverage.scanned == whole.coverage.scanned and not scanned.source.warnings


@pytest.mark.parametrize("hurt", ["drafts-rejected", "control-bursts"])
def test_a_process_that_ends_leaves_its_part_to_the_others(hurt, monkeypatch):
    names = ("control-steady", "control-scale-out", hurt)
    store = merged_store([FLEETS / f"{name}.om.gz" for name in names])
    monkeypatch.setattr(impacts, "SCANNED_AT_ONCE", 1)
    killed = []

    def begun(begin, asked):
        (worker,) = BEGUN(begin, asked)
        assert isinstance(worker, PartProcess)
        worker._process.kill()
        killed.append(worker)
        return [worker]

    monkeypatch.setattr(parts, "_start_workers", begun)
    same(*both(store, 2))
    assert killed


def test_lower_rungs_that_were_not_asked_are_asked_where_nothing_explains_what_hurts(monkeypatch):
    """As long as nobody is hurt they are asked along with the scan; of what was scanned later they are asked if the
    harm that was found has no cause."""
    names = ("control-steady", "control-scale-out", "drafts-rejected")
    store = merged_store([FLEETS / f"{name}.om.gz" for name in names])
    monkeypatch.setattr(impacts, "SCANNED_AT_ONCE", 1)
    asked = []
    monkeypatch.setattr(parts, "scan_part", lambda *one: asked.append((one[2], one[3])) or SCAN_PART(*one))
    explained = vars(Judged)["is_explained"].fget
    monkeypatch.setattr(Judged, "is_explained", property(lambda self: len(asked) > 3 and explained(self)))
    monkeypatch.setattr(Identified, "parts", lambda self, most: PARTS(self, most)[::-1])  # the one that is hurt first
    diagnose(open_source(store=store, parallel=1), since="2h")
    assert [climbs for _, climbs in asked] == [True, False, False, True, True]
    assert [part for part, _ in asked[3:]] == [part for part, _ in asked[1:3]]


def test_whoever_is_named_is_read_in_full():
    store = merged_store([FLEETS / "control-steady.om.gz", FLEETS / "control-bursts.om.gz"])
    _, named = both(store, selected=FleetFilter(namespace="n1"))
    assert named.coverage.scanned is None


def test_a_small_fleet_is_not_scanned(monkeypatch):
    monkeypatch.setattr(impacts, "LEAST_TARGETS", 256)
    _, answer = both(merged_store([FLEETS / "control-steady.om.gz"]))
    assert answer.coverage.scanned is None


def test_one_family_is_read_in_full_at_once():
    """There is nothing that a scan could leave out of it."""
    deep, scanned = both(merged_store([RECORDINGS / "control-steady.om.gz"]))
    same(deep, scanned)
    assert scanned.coverage.scanned is None and scanned.timing.samples == deep.timing.samples


HURT = ("drafts-rejected", "cpu-quota")


@pytest.mark.parametrize("processes", [1, 2])
def test_pages_are_unpacked_once_for_scan_and_deep_read(processes, monkeypatch):
    monkeypatch.setattr(parallel_store, "LEAST_SCRAPES", 1)
    store = merged_store([FLEETS / f"{name}.om.gz" for name in HURT])
    deep, scanned = both(store, parallel=processes)
    same(deep, scanned)
    assert scanned.coverage.scanned.pools_read == 2 and scanned.timing.samples == deep.timing.samples


def test_what_a_scan_has_read_is_not_read_again_where_memory_does_not_hold_all(monkeypatch):
    store = merged_store([FLEETS / f"{name}.om.gz" for name in HURT])
    _, along = both(store)
    monkeypatch.setattr(store_source, "MOST_SHARE", 0.0)
    deep, scanned = both(store)
    same(deep, scanned)
    assert along.timing.samples == deep.timing.samples == scanned.timing.samples


def test_all_impacts_are_read():
    catalogue = load_catalogue()
    read = set(impacts.scan_signals(catalogue))
    wanted = {signal for recipe in catalogue.recipes.values() for one in recipe.harm for signal in one.signals}
    assert wanted & set(catalogue.signals) <= read


@pytest.mark.parametrize(("ratio", "to", "moved"), [(1.3, 1.5, True), (1.3, 1.05, False), (0.7, 0.5, True)])
@pytest.mark.parametrize("begins", [120, 150, 200])
def test_means_that_move_within_the_window_are_seen(ratio, to, moved, begins):
    rng = np.random.default_rng(1)
    values = rng.normal(1.0, 0.05, (3, 240))
    values[1, begins:] *= to
    clock = Clock(15.0, 15.0, 5, begin=120)
    assert impacts.may_have_moved(values, Rule(ratio), clock).tolist() == [False, moved, False]


@pytest.mark.parametrize(("to", "moved"), [(1.6, True), (1.2, False)])
def test_a_mean_is_known_better_than_a_single_value(to, moved):
    """Values that spread by 30 % around their mean tell of one that rose by 60 %."""
    values = np.tile([0.7, 1.3], (1, 240))
    values[0, 240:] *= to
    assert impacts.may_have_moved(values, Rule(1.5), Clock(15.0, 15.0, 5, begin=240)).tolist() == [moved]


def test_a_host_is_quiet_where_all_that_runs_there_is_not_read_in_full():
    hurt, calm = (Member(("", "llm", pod), "", "", Pool("", "llm", model, "both", "")) for pod, model in ("aA", "bB"))
    families = hurt.pool.family, calm.pool.family
    other = ("", "llm", "c")
    about = {"n1": {calm.key}, "n2": {hurt.key}, "n3": {hurt.key, calm.key}, "n4": {calm.key, other}}
    looked = Looked((hurt, calm), frozenset(), dict.fromkeys(families, 1), frozenset(), about, 0, 1)
    scan = looked.scan([families[0]])
    assert scan.read == set(families), "one that is not hurt is read beside those that are"
    only = replace(scan, read=frozenset(families[:1]))
    assert only.quiet == [calm] and looked.quiet_hosts(only) == {"n1"}


def test_what_was_scanned_and_what_was_read_is_told():
    names = ("control-steady", "control-scale-out", "control-bursts", "drafts-rejected")
    store = merged_store([FLEETS / f"{name}.om.gz" for name in names])
    words = ("diagnose", "--store", store, "--since", "2h", "--until", "latest", "-v")
    scanned, deep = " ".join(call(*words).out.split()), " ".join(call(*words, "--deep").out.split())
    assert "read in full: 2 of 4 pools" in scanned and "--deep reads all" in scanned
    assert "spec-acceptance-decay" in scanned and "spec-acceptance-decay" in deep and "read in full" not in deep
