"""A Prometheus server and a store with the same samples tell the same of a pool."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import Config
from inferdoc.simulate.output import write_file
from inferdoc.source.open import open_source
from inferdoc.whatif.live import observed
from inferdoc_dev.incidents.recording import record
from tests import prometheus_server
from tests.whatif.lab import scenario


@pytest.mark.skipif(not prometheus_server.available(), reason=prometheus_server.MISSING)
def test_both_sources_tell_the_same(pool, tmp_path):
    write_file(record(scenario()).targets, tmp_path / "fleet.om")
    with prometheus_server.running([tmp_path / "fleet.om"], tmp_path / "server") as address:
        served = observed(open_source(prometheus=address), Config(), load_catalogue(), {"history": "1h"})
    assert (served.name, served.begin, served.gpus) == (pool.name, pool.begin, pool.gpus)
    order = [list(served.keys).index(key) for key in pool.keys]
    for kind in ("counters", "gauges", "glances"):
        for name, rows in getattr(pool, kind).items():
            np.testing.assert_allclose(getattr(served, kind)[name][order], rows, rtol=1e-9, err_msg=name)
    for name, spread in pool.spreads.items():
        np.testing.assert_allclose(served.spreads[name].cells, spread.cells, rtol=1e-9, atol=1e-9, err_msg=name)
