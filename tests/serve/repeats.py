"""The look that is taken when an alert is repeated after hours in which its fault lasted."""

from __future__ import annotations

import time
from pathlib import Path

from msgspec import structs

from inferdoc.incidents.model import AlertScope, Story
from inferdoc.incidents.runs import story
from inferdoc.serve.run_process import RunRequest, run
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario_files import load_scenario
from inferdoc.store import Store
from inferdoc_dev.incidents.recording import record

REPEAT_SECONDS = 4 * 3600.0
"""repeat_interval of the generated routes."""
ALERT_SECONDS = 300.0
"""How long after the onset the alert began."""
BEFORE_SECONDS = 1800.0
"""What the service reads from before the alert."""


def delivered_after(scenario: str, folder: Path, length: float = REPEAT_SECONDS) -> Story:
    """What is told of a scenario whose alert has fired for so many seconds, from a store."""
    loaded = load_scenario(scenario)
    until = loaded.expect.onset + ALERT_SECONDS + length
    longer = structs.replace(loaded, duration=until, start=round(time.time() - until, 3))
    path = folder / f"{scenario}.db"
    with Store.open(path, "w") as store:
        write_store(record(longer).targets, store)
    begins = longer.start + loaded.expect.onset + ALERT_SECONDS - BEFORE_SECONDS
    request = RunRequest({"store": str(path)}, {}, begins, longer.start + until, AlertScope(), page=False)
    return story(run(request).document)
