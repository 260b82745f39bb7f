"""Headroom as metrics, for the textfile collector of a node exporter."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.own_metrics import Families, Row
from inferdoc.headroom.model import HeadroomAnswer, PoolHeadroom
from inferdoc.headroom.room import ROOM

SHARES = {"now": "load_now", "peak": "load_peak"}
"""Value of the label `load` -> name of a number."""


def headroom_metrics(answer: HeadroomAnswer) -> str:
    """The pools of the answer in the classic text format. What cannot be told is left out."""
    return Families(load_catalogue().exporters["inferdoc"]).text(
        {
            "inferdoc_headroom_used": [cell for pool in answer.pools for cell in _used(pool)],
            "inferdoc_headroom_replicas": [
                (_labels(pool) | {"what": what}, value) for pool in answer.pools for what, value in _replicas(pool)
            ],
            "inferdoc_headroom_after_loss": [
                (_labels(pool) | {"lost": one.what}, one.share.value)
                for pool in answer.pools
                for one in pool.lost
                if one.share is not None and one.share.value is not None
            ],
            "inferdoc_headroom_crossing_timestamp_seconds": [
                (_labels(pool) | {"path": path}, datetime.fromisoformat(moment.at).timestamp())
                for pool in answer.pools
                for path, moment in (("expected", pool.clock.expected), ("earliest", pool.clock.earliest))
                if moment is not None
            ],
            "inferdoc_headroom_timestamp_seconds": [({}, datetime.fromisoformat(answer.until).timestamp())],
        }
    )


def _labels(pool: PoolHeadroom) -> dict[str, str]:
    return {"pool": pool.pool, "model_name": pool.model, "role": pool.role, "tier": pool.tier}


def _numbers(pool: PoolHeadroom) -> dict[str, float]:
    (room,) = [part for part in pool.parts if part.title == ROOM]
    return {each.name: each.value for each in room.numbers if each.value is not None}


def _used(pool: PoolHeadroom) -> Iterator[Row]:
    known = _numbers(pool)
    for load, name in SHARES.items():
        if name in known:
            yield _labels(pool) | {"load": load}, known[name] / pool.usable


def _replicas(pool: PoolHeadroom) -> Iterator[tuple[str, float]]:
    yield "counted", float(pool.replicas)
    yield "to_spare", _numbers(pool)["headroom_replicas"]
    missing = [each.value for each in pool.clock.numbers if each.name == "replicas" and each.value is not None]
    yield "to_add", missing[0] if missing else 0.0
