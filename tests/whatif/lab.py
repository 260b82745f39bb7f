"""A small simulated fleet in a store, and its calibration."""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path

from inferdoc.catalogue.load import load_catalogue
from inferdoc.config import Config
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario import EngineFlags, Expect, Length, PoolSpec, Prefixes, Scenario, Stream
from inferdoc.source.open import open_source
from inferdoc.store import Store
from inferdoc.whatif.calibrate import CalibratedPool, calibrated
from inferdoc.whatif.live import ObservedPool, observed
from inferdoc_dev.incidents.recording import record
from tests.built import built

POOL = "sim-meta-llama-llama-3-1-8b-instruct-l4"
SEATS = 8
STREAM = Stream(
    Length(500, 0.6), Length(80, 0.5), rate=1.3, pattern="waves", burst=0.5, wave=1800.0, prefixes=Prefixes(8, 640, 0.7)
)
SPEC = PoolSpec("vllm", 2, "l4", flags=EngineFlags(max_seqs=SEATS, memory_share=0.95))
LIMITS = (2.0, 0.15)


def scenario() -> Scenario:
    """Fifteen minutes of a fleet of two pods with few seats, at a load that rises and falls."""
    return Scenario(
        id="whatif",
        title="whatif",
        expect=Expect(cause=None),
        pools=(SPEC,),
        traffic=(STREAM,),
        duration=910.0,
        warmup=120.0,
        scrape=15.0,
        start=1_795_000_200.0,
    )


def stored(path: Path) -> Path:
    """Its store."""
    with Store.open(path, "w") as store:
        write_store(record(scenario()).targets, store)
    return path


def watched(path: Path) -> ObservedPool:
    """What the store tells of it."""
    return observed(open_source(store=path), Config(), load_catalogue(), {"history": "1h"})


@cache
def calibration(path: Path) -> CalibratedPool:
    """Fitted once for all workers. path: of the store of this fleet."""

    def make(folder: Path) -> None:
        found = calibrated(watched(path), load_catalogue(), {}, LIMITS)
        (folder / "calibration").write_bytes(pickle.dumps(found))

    found = pickle.loads((built("calibration of the lab's fleet", make) / "calibration").read_bytes())
    assert isinstance(found, CalibratedPool)
    return found
