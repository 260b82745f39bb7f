"""A large server with our rules: what they recorded tells which pools are read, and the findings are those of a deep
read."""

from __future__ import annotations

import time

import pytest

from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.record_names import records_of
from inferdoc.judging.api import Options
from inferdoc.judging.scan import impacts
from inferdoc.judging.scan.stages import impact_names
from inferdoc.source.prometheus import PrometheusSource
from tests import prometheus_server
from tests.live.recorded_clusters import LASTS_SECONDS, recorded, rules_behind, well, with_past
from tests.live.test_both_sources import evidence, findings

pytestmark = [
    pytest.mark.live,
    pytest.mark.takes_long("what rules recorded of five clusters is worked out first"),
    pytest.mark.skipif(not prometheus_server.available(), reason=prometheus_server.MISSING),
]

PODS = r"(pod|instance):inferdoc_.+|target:inferdoc_target_up:last"
HEALTHY = ("control-unique", "control-pd")
SINCE, LATE_SECONDS = "15m", 1400.0
"""The window begins when the rules have had half an hour of past, and lies after the onset."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Two clusters with a fault and two without, with what our rules recorded of them; and when to look."""
    folder = tmp_path_factory.mktemp("fleet")
    onset = time.time() - LASTS_SECONDS
    clusters = [recorded(name, onset, folder) for name in ("engine-hung", "cpu-starvation")]
    clusters += [well(name, onset, folder) for name in HEALTHY]
    names = (records_of(impact_names(load_catalogue())), PODS)
    with_past(clusters, folder, rules_behind("|".join(names), folder))
    with prometheus_server.running([], folder) as address:
        yield address, onset + LATE_SECONDS


@pytest.fixture(autouse=True)
def every_server_is_large(monkeypatch):
    monkeypatch.setattr(PrometheusSource, "target_count", lambda self: impacts.LEAST_TARGETS)


def answer(address, until, since=SINCE, **options):
    source = open_source(prometheus=address)
    try:
        return diagnose(source, since=since, until=until, options=Options(**options))
    finally:
        source.close()


def test_the_findings_are_those_of_a_deep_read(fleet):
    deep, scanned = (answer(*fleet, deep=deep) for deep in (True, False))
    assert findings(scanned) == findings(deep) and evidence(scanned) == evidence(deep)
    assert {finding.id for finding in scanned.findings} == {"engine-hung", "cpu-starvation"}
    assert (scanned.verdict, scanned.coverage.pods) == (deep.verdict, deep.coverage.pods)
    assert scanned.source.warnings == deep.source.warnings == []


def test_pools_without_impact_are_not_read(fleet):
    scanned = answer(*fleet)
    read = scanned.coverage.scanned
    assert (read.by, read.pools, read.pools_read) == ("records", 5, 3)
    assert "by what our rules recorded; read in full: 3 of 5 pools" in scanned.coverage.depth
    assert scanned.timing.samples < answer(*fleet, deep=True).timing.samples


@pytest.mark.slow
def test_before_the_rules_had_a_past_samples_are_scanned(fleet):
    address, until = fleet
    scanned = answer(address, until, since="40m")
    assert scanned.coverage.scanned.by == "samples"
    assert {finding.id for finding in scanned.findings} == {"engine-hung", "cpu-starvation"}


@pytest.mark.slow
def test_after_a_scan_of_samples_pods_without_impact_are_not_read_though_others_have_their_addresses(fleet):
    address, until = fleet
    deep, scanned = (answer(address, until, since="40m", deep=deep) for deep in (True, False))
    read = scanned.coverage.scanned
    assert (read.by, read.pools_read, read.pods_read) == ("samples", 3, 8), "both that are affected and one beside"
    assert scanned.timing.samples < 1.4 * deep.timing.samples, "the scan, and two thirds of the pods read in full"


@pytest.mark.slow
def test_what_was_read_of_a_part_is_read_of_all_again(fleet):
    address, until = fleet
    source = open_source(prometheus=address)
    try:
        first, second = (diagnose(source, since=SINCE, until=until) for _ in range(2))
        whole = diagnose(source, since=SINCE, until=until, options=Options(deep=True))
    finally:
        source.close()
    assert findings(first) == findings(second) == findings(whole)
    assert whole.coverage.pods == first.coverage.pods and whole.coverage.scanned is None
