"""A document that the looks of these tests tell."""

from __future__ import annotations

import pytest

from inferdoc.judging.model import Diagnosis
from tests.incidents.alerts import document_of


@pytest.fixture(scope="session")
def sick(store_of) -> Diagnosis:
    return document_of(store_of("kv-preemption-thrash"))
