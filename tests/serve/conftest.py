"""A document that the looks of these tests tell."""

from __future__ import annotations

import pytest

from inferdoc.incidents.model import AlertScope, DiagnosisRun, Incident
from inferdoc.incidents.runs import story
from inferdoc.judging.model import Diagnosis
from inferdoc.serve.note import Note, note
from tests.incidents.alerts import NOW, alert, document_of


@pytest.fixture(scope="session")
def sick(store_of) -> Diagnosis:
    return document_of(store_of("kv-preemption-thrash"))


@pytest.fixture
def incident(sick) -> Incident:
    place = AlertScope("prod", "llm", "m")
    alerts = [alert(pod="vllm-0"), alert("ItlHigh", starts=NOW + 60)]
    return Incident("20270115-0800-abc123", "", place, NOW, None, 0, None, alerts, story(sick))


@pytest.fixture
def firing_note(incident, sick) -> Note:
    return note(
        incident, DiagnosisRun(1, incident.id, "alert", "done", NOW, NOW), sick, None, "https://inferdoc.example.org/"
    )
