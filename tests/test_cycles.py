"""The search for reference cycles rests during a diagnosis, and only then."""

from __future__ import annotations

import gc

import pytest

from inferdoc.cycles import no_cycle_search


@pytest.mark.parametrize("before", [True, False])
def test_the_search_is_as_it_was_afterwards_also_after_an_error(before: bool):
    was_on = gc.isenabled()
    (gc.enable if before else gc.disable)()
    try:
        with pytest.raises(ValueError, match="inside"), no_cycle_search():
            assert not gc.isenabled()
            raise ValueError("inside")
        assert gc.isenabled() is before
    finally:
        (gc.enable if was_on else gc.disable)()
