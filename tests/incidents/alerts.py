"""Alerts as Alertmanager tells of them, and a record to enter them in."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec

from inferdoc import diagnose, open_source
from inferdoc.incidents.intake import Merging, take
from inferdoc.incidents.model import ReceivedAlert
from inferdoc.incidents.record import Record
from inferdoc.judging.model import Diagnosis

NOW = 1_800_000_000.0


def alert(name: str = "TtftHigh", *, starts: float = NOW, ends: float | None = None, **labels: str) -> ReceivedAlert:
    """An alert of model m in namespace llm. Its fingerprint follows from its labels."""
    whole = {"alertname": name, "namespace": "llm", "model_name": "m"} | labels
    mark = "-".join(f"{key}={value}" for key, value in sorted(whole.items()))
    return ReceivedAlert(mark, name, whole, {"summary": f"{name} fires"}, starts, ends)


def document_of(store: Path) -> Diagnosis:
    """What is told of the last ten minutes of a store, as it reads back from JSON: without its series."""
    with closing(open_source(store=store)) as source:
        return msgspec.json.decode(diagnose(source, since="10m").to_json(), type=Diagnosis)


def entered(record: Record, *alerts: ReceivedAlert, now: float = NOW, tenant: str = "", merging: Merging | None = None):
    return take(record, alerts, tenant, now, merging or Merging())
