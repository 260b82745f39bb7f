"""One read of a fake server, and how it fails."""

from __future__ import annotations

import pytest

from inferdoc.errors import ExitCode, SourceError
from inferdoc.source.open import open_source
from inferdoc.source.reads import Grid, Read
from tests.source.fake_server import matrix

GRID = Grid(1_700_000_000_001, 2000, 3, 2000, 10_000, 5000)
READ = Read("vllm:num_requests_running", "last", ("pod",))
GOOD = matrix(({"pod": "p0"}, [(1_700_000_000.001, "1"), (1_700_000_004.001, "2.5")]))


def read(url, **options):
    """The rows of READ, and the closed source with its costs and warnings."""
    source = open_source(prometheus=url, **options)
    try:
        return source.evaluate([READ], GRID)[READ], source
    finally:
        source.close()


def failure(url, **options):
    """The error of a read: one line, exit 4."""
    with pytest.raises(SourceError) as caught:
        read(url, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 500
    assert caught.value.exit_code == ExitCode.SOURCE
    return text
