"""The bytes of pages and layouts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferdoc.store.codec import DamagedError, pack, pack_layout, unpack, unpack_layout


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(0, 6), st.integers(0, 2**32), st.data())
def test_any_bits_survive_any_chain(pages, width, seed, data):
    values = np.random.default_rng(seed).integers(0, 2**64, (pages, width), dtype=np.uint64)
    complete = np.array([True, *data.draw(st.lists(st.booleans(), min_size=pages - 1, max_size=pages - 1))])
    bodies = [pack(values[n], None if complete[n] else values[n - 1]) for n in range(pages)]
    assert (values == unpack(bodies, complete, width, None).T).all()
    assert (values == unpack(bodies, complete, width, None, checked=True).T).all()
    columns = np.array(data.draw(st.lists(st.integers(0, width - 1), unique=True) if width else st.just([])), np.intp)
    assert (values[:, columns] == unpack(bodies, complete, width, columns).T).all()


def test_damage_is_told():
    values = np.arange(5, dtype=np.uint64)
    body = pack(values, None)
    with pytest.raises(DamagedError, match="beginning"):
        unpack([body], np.array([False]), 5, None)
    with pytest.raises(DamagedError, match="decompress"):
        unpack([body[:-3]], np.array([True]), 5, None)
    with pytest.raises(DamagedError, match="fit"):
        unpack([body], np.array([True]), 6, None)
    with pytest.raises(DamagedError, match="layout"):
        unpack_layout(b"no deflate data")


def test_layout_as_a_difference():
    base = [("a", "x", "1"), ("b",), ("c",), ("d", "x", 'quote " and é')]
    places = {key: place for place, key in enumerate(base)}
    blob, spelled = pack_layout([base[0], ("new", "adapter", "q"), base[1], base[3]], places)
    assert spelled == 1
    assert unpack_layout(blob) == [slice(0, 1), ("new", "adapter", "q"), slice(1, 2), slice(3, 4)]
    blob, spelled = pack_layout(base, None)
    assert spelled == 4 and unpack_layout(blob) == base
