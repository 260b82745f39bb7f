"""One fault under the labels of many scrape configurations, in a real Prometheus: the same as from a store."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import Config
from inferdoc.report.doctor import examine
from inferdoc.simulate.output import write_file
from inferdoc.simulate.scrape import Scraped
from tests import prometheus_server
from tests.identity.layouts import SHAPES
from tests.identity.told import assert_lines, assert_told

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
    for number, (name, shape) in enumerate(SHAPES.items()):
        moved = [
            Scraped(target.labels, [(stamp + number * APART_MS, page) for stamp, page in target.pages])
            for target in shape.stored()
        ]
        ends[name] = max(stamp for target in moved for stamp, _ in target.pages)
        files.append(folder / f"{name}.om")
        write_file(moved, files[-1])
    with prometheus_server.running(files, folder / "server") as address:
        yield address, ends


def moment(milliseconds):
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


@pytest.mark.parametrize("name", SHAPES)
def test_the_same_is_told_under_every_layout(name, layouts):
    address, ends = layouts
    until = moment(ends[name] + 1)
    shape, source = SHAPES[name], open_source(prometheus=address)
    answer = diagnose(source, since="15m", until=until)
    assert_told(shape, answer)
    lines, good = examine(source, Config(), load_catalogue(), until)
    assert good
    assert_lines(shape, lines)
    source.close()
