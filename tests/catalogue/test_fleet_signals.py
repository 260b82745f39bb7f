"""The signals around the engines, read from pages with the real names and labels of their exporters.

Each series is made of a start and a growth per scrape, so that every expected value can be worked out by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.source.open import open_source
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store

START = 1_795_000_000
STEP = 10
COUNT = 40
GPU = 'gpu="0",UUID="GPU-1",pci_bus_id="00:1A",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"'
AMD = 'gpu_id="2",serial_number="692",card_model="102-G30211-0C",card_series="AMD Instinct MI300X OAM",hostname="n2"'
KSM = 'namespace="llm",pod="vllm-0",container="vllm"'
INF = 'le="+Inf"'

DCGM = {
    f"DCGM_FI_DEV_GPU_UTIL{{{GPU}}}": (100, 0),
    f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{GPU}}}": (0.75, 0),
    f"DCGM_FI_DEV_FB_USED{{{GPU}}}": (72000, 0),
    f"DCGM_FI_DEV_FB_FREE{{{GPU}}}": (7000, 0),
    f"DCGM_FI_DEV_FB_RESERVED{{{GPU}}}": (1000, 0),
    f"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{{{GPU}}}": (1000, 0),
    f"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{{{GPU}}}": (8, 0),
    f'DCGM_EXP_CLOCK_EVENTS_COUNT{{{GPU},clock_event="hw_thermal",window_size_in_ms="300000"}}': (3, 0),
    f'DCGM_EXP_CLOCK_EVENTS_COUNT{{{GPU},clock_event="power_cap",window_size_in_ms="300000"}}': (250, 0),
    f'DCGM_EXP_XID_ERRORS_COUNT{{{GPU},xid="79",window_size_in_ms="300000"}}': (1, 0),
    f'DCGM_EXP_XID_ERRORS_COUNT{{{GPU},xid="13",window_size_in_ms="300000"}}': (4, 0),
    f"DCGM_FI_PROF_PCIE_TX_BYTES{{{GPU}}}": (2e9, 0),
    f"DCGM_FI_PROF_PCIE_RX_BYTES{{{GPU}}}": (1e9, 0),
    f"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL{{{GPU}}}": (5, 20),
}
AMD_PAGE = {
    f"gpu_gfx_activity{{{AMD}}}": (40, 0),
    f"gpu_used_vram{{{AMD}}}": (96000, 0),
    f"gpu_total_vram{{{AMD}}}": (192000, 0),
    f'gpu_clock{{{AMD},clock_type="GPU_CLOCK_TYPE_SYSTEM",clock_index="0"}}': (1700, 0),
    f'gpu_clock{{{AMD},clock_type="GPU_CLOCK_TYPE_MEMORY",clock_index="8"}}': (1300, 0),
    f'gpu_xgmi_link_tx{{{AMD},link_index="0"}}': (0, 1000),
    f'gpu_xgmi_link_tx{{{AMD},link_index="1"}}': (0, 1000),
    f'gpu_xgmi_link_rx{{{AMD},link_index="0"}}': (0, 500),
    f"pcie_bandwidth{{{AMD}}}": (800, 0),
}
ASKED = 'model_name="m",target_model_name="m"'
CHOSEN = 'status="success",target_model_name="m",namespace="x",port="1"'
PLUGIN = 'plugin_name="d",plugin_type="d",model_name="m"'
ROUTER = {
    f'llm_d_epp_request_total{{{ASKED},fairness_id="a",priority="0"}}': (0, 30),
    f'llm_d_epp_request_total{{{ASKED},fairness_id="b",priority="0"}}': (0, 10),
    f"inference_objective_request_total{{{ASKED}}}": (0, 40),
    f'llm_d_epp_request_error_total{{{ASKED},fairness_id="a",priority="0",error_code="Internal"}}': (0, 4),
    'llm_d_epp_flow_control_pool_saturation{inference_pool="p",stage="effective"}': (0.5, 0),
    'llm_d_epp_flow_control_pool_saturation{inference_pool="p",stage="prefill"}': (0.9, 0),
    'llm_d_epp_per_endpoint_queue_size{name="p",model_server_endpoint="10.0.0.1:8000"}': (7, 0),
    'llm_d_epp_per_endpoint_queue_size{name="p",model_server_endpoint="10.0.0.2:8000"}': (1, 0),
    f'llm_d_epp_scheduler_attempts_total{{{CHOSEN},endpoint_name="a"}}': (0, 30),
    f'llm_d_epp_scheduler_attempts_total{{{CHOSEN},endpoint_name="b"}}': (0, 10),
    f'llm_d_epp_disagg_decision_total{{{PLUGIN},decision_type="prefill-decode"}}': (0, 30),
    f'llm_d_epp_disagg_decision_total{{{PLUGIN},decision_type="decode-only"}}': (0, 10),
    'llm_d_epp_flow_control_request_queue_duration_seconds_count{outcome="Dispatched"}': (0, 40),
    'llm_d_epp_flow_control_request_queue_duration_seconds_count{outcome="EvictedTTL"}': (0, 20),
}
OLD_ROUTER = {
    'inference_model_request_total{model_name="m",target_model_name="m"}': (0, 20),
    'inference_pool_ready_pods{name="p"}': (4, 0),
    'inference_pool_per_pod_queue_size{name="p",model_server_pod="a"}': (3, 0),
    'inference_extension_flow_control_pool_saturation{inference_pool="p"}': (1.25, 0),
}
CLUSTER = {
    f"kube_pod_container_status_restarts_total{{{KSM}}}": (2, 0),
    f'kube_pod_container_status_last_terminated_reason{{{KSM},reason="OOMKilled"}}': (1, 0),
    'kube_horizontalpodautoscaler_status_desired_replicas{namespace="llm",horizontalpodautoscaler="h"}': (6, 0),
    'kube_horizontalpodautoscaler_status_current_replicas{namespace="llm",horizontalpodautoscaler="h"}': (4, 0),
    'kube_horizontalpodautoscaler_spec_max_replicas{namespace="llm",horizontalpodautoscaler="h"}': (8, 0),
    f"container_cpu_cfs_throttled_periods_total{{{KSM}}}": (0, 25),
    f"container_cpu_cfs_periods_total{{{KSM}}}": (0, 100),
    'keda_scaler_metrics_latency{namespace="llm",metric="m",scaledObject="s",scaler="p"}': (250, 0),
}
CACHES = {
    "lmcache_mp_lookup_hit_tokens_total": (0, 300),
    "lmcache_mp_lookup_requested_tokens_total": (0, 400),
    'vllm:kv_offload_total_bytes_total{model_name="m",engine="0",transfer_type="CPU_to_GPU"}': (0, 1e9),
    'vllm:kv_offload_total_bytes_total{model_name="m",engine="0",transfer_type="GPU_to_CPU"}': (0, 3e9),
    'vllm:kv_offload_total_time_total{model_name="m",engine="0",transfer_type="CPU_to_GPU"}': (0, 0.5),
    'vllm:generation_tokens_total{model_name="m",engine="0"}': (0, 400),
    'vllm:generation_tokens_total{model_name="m",engine="1"}': (0, 100),
    'agent_xfer_time_us_bucket{hostname="n1",agent_name="a",le="1000"}': (0, 0),
    'agent_xfer_time_us_bucket{hostname="n1",agent_name="a",le="2000"}': (0, 100),
    f'agent_xfer_time_us_bucket{{hostname="n1",agent_name="a",{INF}}}': (0, 100),
    'agent_xfer_time_us_count{hostname="n1",agent_name="a"}': (0, 100),
    'agent_xfer_time_us_sum{hostname="n1",agent_name="a"}': (0, 150000),
}

EXPECTED = {
    # GPUs
    ("gpu_util", "dcgm"): 1.0,
    ("sm_active", "dcgm"): 0.75,
    ("fb_used_ratio", "dcgm"): 0.9,
    ("nvlink_rate", "dcgm"): 1000 * 2**20,
    ("nvlink_errors", "dcgm"): 2.0,
    ("throttle_reasons", "dcgm"): 8.0,
    ("throttle_events", "dcgm"): 3.0,
    ("xid_recent", "dcgm"): 5.0,
    ("xid_hardware_recent", "dcgm"): 1.0,
    ("pcie_rate", "dcgm"): 3e9,
    ("gpu_util", "amd"): 0.4,
    ("fb_used_ratio", "amd"): 0.5,
    ("sm_clock", "amd"): 1700.0,
    ("mem_clock", "amd"): 1300.0,
    ("nvlink_rate", "amd"): 1024 * (200.0 + 50.0),
    ("pcie_rate", "amd"): 1e8,
    # router, current and former names
    ("router_request_rate", "router"): 4.0,
    ("router_error_share", "router"): 0.1,
    ("router_saturation", "router"): 0.5,
    ("router_endpoint_queue", "router"): 7.0,
    ("router_endpoint_share", "router"): 0.75,
    ("pd_split_share", "router"): 0.75,
    ("router_flow_rejects", "router"): 2.0,
    ("router_request_rate", "old"): 2.0,
    ("router_ready_endpoints", "old"): 4.0,
    ("router_endpoint_queue", "old"): 3.0,
    ("router_saturation", "old"): 1.25,
    # cluster
    ("engine_restarts", "cluster"): 0.0,
    ("pod_oom", "cluster"): 1.0,
    ("hpa_gap", "cluster"): 2.0,
    ("hpa_room", "cluster"): 2.0,
    ("cpu_throttled_share", "cluster"): 0.25,
    ("scaler_latency", "cluster"): 0.25,
    # caches and transfer
    ("lmcache_hit_ratio", "caches"): 0.75,
    ("offload_load_rate", "caches"): 1e8,
    ("offload_store_rate", "caches"): 3e8,
    ("offload_seconds_per_gb", "caches"): 0.5,
    ("dp_imbalance", "caches"): 0.75,
    ("nixl_agent_xfer_p99", "caches"): 0.00199,
}
PAGES: dict[str, dict[str, tuple[float, float]]] = {
    "dcgm": DCGM,
    "amd": AMD_PAGE,
    "router": ROUTER,
    "old": OLD_ROUTER,
    "cluster": CLUSTER,
    "caches": CACHES,
}


def _lines() -> Iterator[str]:
    for target, page in PAGES.items():
        for series, (start, growth) in page.items():
            name, _, labels = series.rstrip("}").partition("{")
            known = load_catalogue().spellings
            assert name in known or name.rsplit("_", 1)[0] in known, f"{name} is no name of an exporter"
            for i in range(COUNT):
                own = f'job="{target}",instance="{target}:1"' + (f",{labels}" if labels else "")
                yield f"{name}{{{own}}} {start + growth * i} {START + STEP * i}"


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], float]:
    """Signal and target -> the newest value."""
    folder: Path = tmp_path_factory.mktemp("fleet")
    (folder / "pages.om").write_text("\n".join([*_lines(), "# EOF", ""]), encoding="utf-8")
    with Store.open(folder / "fleet.db", "w") as store:
        import_file(store, folder / "pages.om")
    wanted = sorted({signal for signal, _ in EXPECTED})
    frame = open_source(store=folder / "fleet.db").read(wanted, START + 200, START + STEP * (COUNT - 1), STEP)
    found: dict[tuple[str, str], float] = {}
    for name, matrix in frame.signals.items():
        for entity, row in zip(matrix.entities, matrix.values, strict=True):
            finite = row[np.isfinite(row)]
            assert (name, entity.get("job")) not in found, f"{name}: two rows of {entity.get('job')}"
            if finite.size:
                found[name, entity.get("job")] = float(finite[-1])
    return found


@pytest.mark.parametrize("case", EXPECTED, ids=["-".join(case) for case in EXPECTED])
def test_a_fleet_signal_reads_from_its_exporter(case: tuple[str, str], values: dict[tuple[str, str], float]) -> None:
    assert values[case] == pytest.approx(EXPECTED[case], rel=1e-9)
