"""Every signal of the catalogue that a recording holds agrees between the embedded store and a real Prometheus."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.source.open import open_source
from tests.conftest import recording_names

pytestmark = pytest.mark.live

TOLERANCE = 1e-9
LOOK_S = 180


@pytest.mark.parametrize("name", recording_names())
def test_every_signal_of_the_catalogue(name, store_of, prometheus_of):
    store, server = open_source(store=store_of(name)), open_source(prometheus=prometheus_of(name))
    latest = store.latest_ms() / 1000
    wanted = load_catalogue().signals
    ours, theirs = (source.read(wanted, latest - LOOK_S, latest) for source in (store, server))
    assert ours.grid == theirs.grid
    assert set(ours.signals) == set(theirs.signals)
    assert len(ours.signals) > 50
    assert ours.widths == theirs.widths
    for signal, matrix in ours.signals.items():
        other = theirs[signal]
        row_of = {entity: row for row, entity in enumerate(other.entities)}
        assert set(matrix.entities) == set(row_of), signal
        order = [row_of[entity] for entity in matrix.entities]
        np.testing.assert_allclose(matrix.values, other.values[order], rtol=TOLERANCE, atol=0, err_msg=signal)
    assert store.warnings == server.warnings == []
    store.close()
    server.close()


def test_frames_read_the_same_at_any_step(store_of, prometheus_of):
    name = recording_names()[0]
    store, server = open_source(store=store_of(name)), open_source(prometheus=prometheus_of(name))
    latest = store.latest_ms() / 1000
    ours, theirs = (s.read(["running", "kv_usage"], latest - 100, latest, 7.5) for s in (store, server))
    assert ours.grid.step_ms == 7500
    assert ours.times[-1] == pytest.approx(latest + 0.001)
    pd.testing.assert_frame_equal(ours.to_pandas(), theirs.to_pandas(), rtol=TOLERANCE)
    assert set(ours.to_pandas()["signal"]) == {"running", "kv_usage"}
    store.close()
    server.close()
