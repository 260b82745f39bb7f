"""Python's search for reference cycles, put off."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_cycle_search() -> Iterator[None]:
    """Inside, memory is freed by reference counts alone. A diagnosis makes hundreds of thousands of small objects that
    form no cycles and live until its end; the search walks all of them again and again (a tenth of the time with 512
    pods, `benchmarks/diagnose.py`). What was switched off before stays so."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
