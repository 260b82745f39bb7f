"""One fault under the labels of many scrape configurations, in a real Prometheus: the same as from a store."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
import requests

from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import Config
from inferdoc.report.doctor import examine
from inferdoc.simulate.output import write_file
from inferdoc.simulate.scrape import Scraped
from tests import prometheus_server
from tests.identity.assertions import assert_identified, assert_lines
from tests.identity.layouts import SHAPES
from tests.sampling import sampled

pytestmark = pytest.mark.live

APART_MS = 6 * 3_600_000
"""The layouts stand one after another in one server, further apart than any look back reaches."""


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    """The address of a server that holds every layout, and when each ends, milliseconds."""
    if not prometheus_server.available():
        pytest.skip(prometheus_server.MISSING)
    folder = tmp_path_factory.mktemp("layouts")
    ends, files = {}, []
    now = round(time.time()) * 1000  # a server takes long to find the newest sample if that is old
    for number, (name, shape) in enumerate(SHAPES.items()):
        stored = shape.stored()
        ends[name] = now - (len(SHAPES) - 1 - number) * APART_MS
        shift = ends[name] - max(stamp for target in stored for stamp, _ in target.pages)
        moved = [Scraped(one.labels, [(stamp + shift, page) for stamp, page in one.pages]) for one in stored]
        files.append(folder / f"{name}.om")
        write_file(moved, files[-1])
    with prometheus_server.running(files, folder / "server") as address:
        yield address, ends


def moment(milliseconds):
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


@pytest.mark.parametrize("name", ["two-clusters", "two-clusters-unknown-label", "kube-prometheus-stack"])
def test_the_queries_of_a_finding_read_what_is_its_own(name, layouts):
    """Pods of two clusters have the same names. A label that the server does not have is asked for by no query."""
    address, ends = layouts
    source, at = open_source(prometheus=address), ends[name] / 1000 + 0.001
    answer = diagnose(source, since="15m", until=moment(ends[name] + 1))
    source.close()
    assert answer.findings
    told = 0
    for finding in answer.findings:
        for query in {item.query for item in finding.evidence if item.query}:
            form = {"query": query, "time": at}
            result = requests.post(f"{address}/api/v1/query", data=form, timeout=30).json()["data"]["result"]
            clusters = {series["metric"].get("cluster", "") for series in result}
            told += len(result)
            if name == "two-clusters":
                assert clusters <= {finding.scope.cluster}, query
                assert f'cluster="{finding.scope.cluster}"' in query
    assert told, "the queries find something"


@pytest.mark.parametrize("name", sampled(SHAPES, 4))
def test_the_same_is_told_under_every_layout(name, layouts):
    address, ends = layouts
    until = moment(ends[name] + 1)
    shape, source = SHAPES[name], open_source(prometheus=address)
    answer = diagnose(source, since="15m", until=until)
    assert_identified(shape, answer)
    lines, good = examine(source, Config(), load_catalogue(), until)
    assert good
    assert_lines(shape, lines)
    source.close()
