"""Cases of a parametrized test that `make test` runs, and those that it leaves to `make test-all`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], every: int) -> list[Any]:
    """Parameters of which one in `every` runs in `make test`; the others are marked slow."""
    return [
        pytest.param(case, marks=() if number % every == 0 else pytest.mark.slow) for number, case in enumerate(cases)
    ]
