"""The same diagnosis from the embedded store and from a real VictoriaMetrics that holds the same recording."""

from __future__ import annotations

import gzip
import time

import pytest

from inferdoc import diagnose, open_source
from inferdoc.errors import SourceError
from tests import victoria_metrics_server
from tests.conftest import RECORDINGS, ROOT, recording_path, store_of_file
from tests.live.test_both_sources import evidence, findings
from tests.sampling import sampled

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not victoria_metrics_server.available(), reason=victoria_metrics_server.MISSING),
]

SCRAPED_RARELY = sorted((ROOT / "fixtures" / "fleets").glob("*.om.gz"))
"""Every 10 to 30 s: the fewer scrapes in a rate window, the more two ways of reckoning a rate differ."""
SCRAPED_OFTEN = sorted(RECORDINGS.glob("*.om.gz"))


@pytest.mark.parametrize(
    "recording", sampled([*SCRAPED_RARELY, *SCRAPED_OFTEN], 6), ids=lambda path: path.name.split(".")[0]
)
def test_the_same_answer(recording, tmp_path):
    with victoria_metrics_server.running(tmp_path) as address:
        victoria_metrics_server.load(address, recording)
        here, there = open_source(store=store_of_file(recording)), open_source(prometheus=address)
        ours, theirs = diagnose(here, since="2h"), diagnose(there, since="2h")
        here.close()
        there.close()
    assert findings(ours) == findings(theirs) and evidence(ours) == evidence(theirs)
    for name in ("verdict", "window", "changes", "coverage", "not_judged"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert theirs.source.warnings == []


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """Address of a server whose newest sample is a hundred days old, and the time of that sample in milliseconds."""
    folder = tmp_path_factory.mktemp("old")
    with gzip.open(recording_path("slow-replica"), "rt") as stream:
        lines = [line.rpartition(" ") for line in stream if not line.startswith("#")]
    newest = max(float(at) for _, _, at in lines)
    shift = round(time.time() - 100 * 86_400 - newest)
    (folder / "old.om").write_text("".join(f"{sample} {float(at) + shift:.3f}\n" for sample, _, at in lines))
    with victoria_metrics_server.running(folder) as address:
        victoria_metrics_server.load(address, folder / "old.om")
        yield address, round((newest + shift) * 1000)


def test_data_of_months_ago_is_found(old):
    address, newest_ms = old
    source = open_source(prometheus=address)
    assert source.latest_ms() == newest_ms
    answer = diagnose(source, since="10m", until="latest")
    source.close()
    assert [f.id for f in answer.findings] == ["slow-gpu"] and answer.source.warnings == []


def test_a_selection_is_asked_of_the_server(old):
    source = open_source(prometheus=old[0])
    frame = source.read(["running", "ttft_p99"], old[1] / 1000 - 120, old[1] / 1000, match=(("pod", "=", "vllm-1"),))
    source.close()
    assert {entity.get("pod") for name in frame.signals for entity in frame.signals[name].entities} == {"vllm-1"}


def test_a_limit_of_the_server_is_told_in_a_line(tmp_path):
    recording = recording_path("slow-replica")
    with victoria_metrics_server.running(tmp_path, "-search.maxExportSeries=3") as address:
        victoria_metrics_server.load(address, recording)
        source = open_source(prometheus=address)
        with pytest.raises(SourceError, match="matching timeseries exceeds 3") as caught:
            source.read(["ttft_p99"], "latest", "latest")
        source.close()
    assert "\n" not in str(caught.value) and source.cost.split == 0
