"""A document that the looks of these tests tell."""

from __future__ import annotations

import msgspec
import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.model import Diagnosis


@pytest.fixture(scope="session")
def sick(store_of) -> Diagnosis:
    source = open_source(store=store_of("kv-preemption-thrash"))
    answer = diagnose(source, since="10m")
    source.close()
    return msgspec.json.decode(answer.to_json(), type=Diagnosis)
