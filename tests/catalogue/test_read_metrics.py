"""Declared against read: what nothing reads is not kept up."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc_dev.generate.read_metrics import read_names, unread

ROOT = Path(__file__).resolve().parents[2]
EXPORTERS = load_catalogue().exporters
LISTED_WHOLE = ("vllm", "inferdoc")
"""Exporters whose pages are declared whole: releases of the engine are told apart by what is there, and what inferdoc
exposes itself it writes by its own declaration."""
RENAMED = {
    "gpu_nodes_total",
    "agent_tx_bytes_total",
    "agent_tx_requests_num_total",
    "agent_memory_registered_total",
    "agent_memory_registered_last_bytes",
    "keda_scaled_object_errors_total",
    "keda_internal_scale_loop_latency",
    "keda_scaler_errors_total",
    "wva_replica_scaling_total",
    "llm_d_epp_request_size_bytes",
    "llm_d_epp_response_size_bytes",
    "llm_d_epp_request_cached_tokens",
    "llm_d_epp_request_ntpot_seconds",
    "llm_d_epp_request_streaming_tpot_seconds",
}
"""Came, went or changed their names between releases: `docs/versions.md` tells the releases apart by them."""
COMPOSED = {"llm_d_epp_std_dev_running_requests"}
"""The simulator puts the name together."""


@pytest.fixture(scope="module")
def read():
    code = (path for path in (ROOT / "inferdoc").rglob("*.py"))
    rules = (ROOT / "alerts" / "generated").glob("*.yaml")
    return read_names(load_catalogue(), (path.read_text("utf-8") for path in (*code, *rules)))


@pytest.mark.parametrize("name", sorted(EXPORTERS.keys() - set(LISTED_WHOLE)))
def test_every_declared_metric_is_read(name, read):
    assert set(unread(EXPORTERS[name], read)) <= RENAMED | COMPOSED


def test_what_is_kept_unread_is_still_declared(read):
    declared = {name for exporter in EXPORTERS.values() for name in exporter.metrics}
    assert declared >= RENAMED | COMPOSED


def test_a_metric_that_nothing_names_is_unread():
    exporter = EXPORTERS["tgi"]
    names = read_names(load_catalogue()) - {"tgi_queue_size"}
    assert list(unread(exporter, names)) == ["tgi_queue_size"]


def test_a_part_of_a_histogram_is_enough():
    exporter = EXPORTERS["tgi"]
    names = (read_names(load_catalogue()) - {"tgi_request_duration"}) | {"tgi_request_duration_sum"}
    assert list(unread(exporter, names)) == []
