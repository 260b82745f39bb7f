"""A scan and what it chose, of real servers: the findings of a deep read, from fewer samples."""

from __future__ import annotations

import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.api import Options
from inferdoc.judging.scan import impacts
from inferdoc.source.prometheus import PrometheusSource
from tests import prometheus_server, victoria_metrics_server
from tests.conftest import ROOT
from tests.live.test_both_sources import evidence, findings
from tests.merged_fleets import merged_store

pytestmark = pytest.mark.live

NAMES = ("control-steady", "control-scale-out", "control-bursts", "drafts-rejected")


@pytest.fixture
def texts(tmp_path, monkeypatch):
    """The pools as text; servers are taken for large ones."""
    merged_store([ROOT / "fixtures" / "fleets" / f"{name}.om.gz" for name in NAMES], tmp_path)
    monkeypatch.setattr(PrometheusSource, "target_count", lambda self: impacts.LEAST_TARGETS)
    return sorted(tmp_path.glob("*.om"))


def check(address):
    answers = []
    for deep in (True, False):
        source = open_source(prometheus=address)
        answers.append(diagnose(source, since="2h", options=Options(deep=deep)))
        source.close()
    whole, scanned = answers
    assert findings(scanned) == findings(whole) and evidence(scanned) == evidence(whole)
    assert [finding.id for finding in scanned.findings] == ["spec-acceptance-decay"]
    assert scanned.coverage.pods == whole.coverage.pods and scanned.coverage.scanned.pools_read == 2
    assert whole.coverage.scanned is None and scanned.source.warnings == whole.source.warnings == []


@pytest.mark.skipif(not prometheus_server.available(), reason=prometheus_server.MISSING)
def test_of_a_prometheus(texts, tmp_path):
    with prometheus_server.running(texts, tmp_path / "prometheus") as address:
        check(address)


@pytest.mark.skipif(not victoria_metrics_server.available(), reason=victoria_metrics_server.MISSING)
def test_of_a_victoria_metrics(texts, tmp_path):
    with victoria_metrics_server.running(tmp_path / "victoria") as address:
        for text in texts:
            victoria_metrics_server.load(address, text)
        check(address)
