"""The YAML that ships: it loads, it is sound, and it knows every name that the real pages show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.catalogue.signal import Band, Figure
from inferdoc.catalogue.validate import check_exporter

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "fixtures" / "pages").glob("*.txt"))
NOT_OURS = ("python_", "process_")


def test_everything_ships_sound() -> None:
    assert Catalogue().problems() == []


def test_parts_are_there() -> None:
    catalogue = load_catalogue()
    wanted = {"vllm", "llm-d-router", "dcgm", "nixl", "lmcache", "amd", "kube", "inferdoc", "prometheus", "sglang"}
    assert wanted <= catalogue.exporters.keys()
    assert len(catalogue.signals) > 150
    assert "unknown" in catalogue.tiers.tiers


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_every_name_on_a_real_page_is_declared(page: Path) -> None:
    known = load_catalogue().spellings
    declared = dict(re.findall(r"^# TYPE (\S+) (\S+)", page.read_text(encoding="utf-8"), re.M))
    ours = {
        name: kind for name, kind in declared.items() if not name.startswith(NOT_OURS) and not name.endswith("_created")
    }
    assert len(ours) > 40
    assert [name for name in ours if name not in known] == []
    same = {"gauge": ("gauge", "info"), "counter": ("counter",), "histogram": ("histogram",), "summary": ("summary",)}
    wrong = {name: known[name].metric.type for name, kind in ours.items() if known[name].metric.type not in same[kind]}
    assert wrong == {}


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_labels_on_a_real_page_are_declared(page: Path) -> None:
    """What a page labels a series with stands in its declaration; cache_config_info may have any."""
    known = load_catalogue().spellings
    missing = set()
    for name, labels in re.findall(r"^([a-zA-Z_:][\w:]*)\{(.*)\} ", page.read_text(encoding="utf-8"), re.M):
        if name.startswith(NOT_OURS) or name.endswith("_created") or name == "vllm:cache_config_info":
            continue
        base = name if name in known else re.sub(r"_(bucket|sum|count)$", "", name)
        declared = known[base].metric.labels
        missing |= {(base, label) for label in re.findall(r'(\w+)="', labels) if label not in (*declared, "le")}
    assert missing == set()


def test_pages_are_there() -> None:
    assert len(PAGES) >= 8


RENAMES = {
    # vLLM 0.9 to 0.33
    "vllm:gpu_cache_usage_perc": "vllm:kv_cache_usage_perc",
    "vllm:gpu_prefix_cache_queries_total": "vllm:prefix_cache_queries_total",
    "vllm:gpu_prefix_cache_hits_total": "vllm:prefix_cache_hits_total",
    "vllm:time_per_output_token_seconds": "vllm:inter_token_latency_seconds",
    # router: renames that are no swap of a prefix
    "inference_objective_request_sizes": "llm_d_epp_request_size_bytes",
    "inference_model_request_sizes": "llm_d_epp_request_size_bytes",
    "inference_objective_response_sizes": "llm_d_epp_response_size_bytes",
    "inference_model_response_sizes": "llm_d_epp_response_size_bytes",
    "inference_objective_input_tokens": "llm_d_epp_request_input_tokens",
    "inference_model_input_tokens": "llm_d_epp_request_input_tokens",
    "inference_objective_output_tokens": "llm_d_epp_request_output_tokens",
    "inference_model_output_tokens": "llm_d_epp_request_output_tokens",
    "inference_objective_prompt_cached_tokens": "llm_d_epp_request_cached_tokens",
    "inference_objective_normalized_time_per_output_token_seconds": "llm_d_epp_request_ntpot_seconds",
    "inference_model_normalized_time_per_output_token_seconds": "llm_d_epp_request_ntpot_seconds",
    "inference_objective_running_requests": "llm_d_epp_request_running",
    "inference_model_running_requests": "llm_d_epp_request_running",
    "inference_objective_request_ttft_seconds": "llm_d_epp_request_ttft_seconds",
    "inference_objective_request_tpot_seconds": "llm_d_epp_request_streaming_tpot_seconds",
    "inference_pool_ready_pods": "llm_d_epp_ready_endpoints",
    "inference_pool_per_pod_queue_size": "llm_d_epp_per_endpoint_queue_size",
    "inference_extension_scheduler_plugin_duration_seconds": "llm_d_epp_plugin_duration_seconds",
    "kvcache_index_lookup_hits_total": "llm_d_epp_kv_cache_index_lookup_hits_total",
    "kvcache_index_lookup_requests_total": "llm_d_epp_kv_cache_index_lookup_requests_total",
    "llm_d_router_epp_kv_cache_events_pool_queue_depth": "llm_d_epp_kv_cache_events_pool_queue_depth",
    # router: one of every old prefix
    "inference_objective_request_total": "llm_d_epp_request_total",
    "inference_model_request_total": "llm_d_epp_request_total",
    "inference_model_request_error_total": "llm_d_epp_request_error_total",
    "inference_pool_average_kv_cache_utilization": "llm_d_epp_average_kv_cache_utilization",
    "inference_extension_scheduler_attempts_total": "llm_d_epp_scheduler_attempts_total",
    "inference_extension_flow_control_queue_size": "llm_d_epp_flow_control_queue_size",
    "inference_extension_flow_control_pool_saturation": "llm_d_epp_flow_control_pool_saturation",
    "llm_d_inference_scheduler_pd_decision_total": "llm_d_epp_pd_decision_total",
    "llm_d_inference_scheduler_disagg_decision_total": "llm_d_epp_disagg_decision_total",
    "llm_d_inference_scheduler_datalayer_poll_errors_total": "llm_d_epp_datalayer_poll_errors_total",
    # DCGM, NIXL, autoscalers
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
    "DCGM_FI_EXP_CLOCK_THROTTLE_REASONS_COUNT": "DCGM_EXP_CLOCK_EVENTS_COUNT",
    "agent_tx_bytes": "agent_tx_bytes_total",
    "agent_rx_bytes": "agent_rx_bytes_total",
    "agent_tx_requests_num": "agent_tx_requests_num_total",
    "agent_memory_registered": "agent_memory_registered_last_bytes",
    "inferno_desired_replicas": "wva_desired_replicas",
    "inferno_replica_scaling_total": "wva_replica_scaling_total",
    "keda_scaler_errors": "keda_scaler_detail_errors_total",
    "keda_scaled_object_errors": "keda_scaled_object_errors_total",
}


@pytest.mark.parametrize("old", RENAMES)
def test_an_older_name_leads_to_the_current_one(old: str) -> None:
    spelling = load_catalogue().spellings[old]
    assert spelling.current == RENAMES[old]
    assert old in [former.name for former in spelling.metric.formerly]


def test_a_former_name_says_until_when() -> None:
    exporters = load_catalogue().exporters.values()
    silent = [f.name for e in exporters for m in e.metrics.values() for f in m.formerly if not f.until]
    assert silent == []


def test_changed_units_are_no_renames() -> None:
    """These have successors in another unit or split in two, so they must not pass for them."""
    known = load_catalogue().spellings
    for name in (
        "DCGM_FI_DEV_PCIE_TX_THROUGHPUT",
        "keda_scaler_metrics_latency",
        "keda_internal_scale_loop_latency",
        "keda_scaler_errors_total",
        "vllm:kv_offload_total_bytes_total",
    ):
        assert known[name].current == name


def test_types_are_as_values_behave() -> None:
    known = load_catalogue().spellings
    assert known["vllm:iteration_tokens_total"].metric.type == "histogram"
    assert known["DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"].metric.type == "gauge"
    assert known["DCGM_FI_PROF_PCIE_TX_BYTES"].metric.type == "gauge"
    assert known["DCGM_EXP_XID_ERRORS_COUNT"].metric.type == "gauge"
    assert known["gpu_ecc_uncorrect_total"].metric.type == "counter"
    assert known["gpu_nodes_total"].metric.type == "gauge"
    assert known["vllm:lora_requests_info"].metric.type == "info"


def test_vllm_and_lmcache_counters_end_in_total() -> None:
    exporters = load_catalogue().exporters
    wrong = [
        n
        for e in ("vllm", "lmcache")
        for n, m in exporters[e].metrics.items()
        if m.type == "counter" and not n.endswith("_total")
    ]
    assert wrong == []


def test_the_eplb_log_line_is_read_by_its_pattern() -> None:
    line = load_catalogue().exporters["vllm"].log_lines["eplb_step"]
    found = re.search(
        line.pattern, "EPLB step: 3 for model qwen: avg_tokens=512.5, max_tokens=640, balancedness=0.8008"
    )
    assert found is not None
    assert found.groupdict() == {
        "step": "3",
        "model": "qwen",
        "avg_tokens": "512.5",
        "max_tokens": "640",
        "balancedness": "0.8008",
    }


def test_no_exporter_claims_a_name_twice() -> None:
    owners: dict[str, str] = {}
    for exporter in load_catalogue().exporters.values():
        assert check_exporter(exporter) == []
        for name in exporter.metrics:
            assert name not in owners, f"{name}: {owners.get(name)} and {exporter.exporter}"
            owners[name] = exporter.exporter


DCGM_NAMES = {
    "NVIDIA H100 80GB HBM3": "h100-80",
    "NVIDIA H100 PCIe": "h100-pcie-80",
    "NVIDIA H100 NVL": "h100-nvl-94",
    "NVIDIA H200": "h200-141",
    "NVIDIA H200 NVL": "h200-nvl-141",
    "NVIDIA B200": "b200-180",
    "NVIDIA A100-SXM4-40GB": "a100-40",
    "NVIDIA A100-SXM4-80GB": "a100-80",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80",
    "NVIDIA L40S": "l40s",
    "NVIDIA L4": "l4",
    "NVIDIA A10": "a10",
    "NVIDIA A10G": "a10g",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000",
    "AMD Instinct MI300X OAM": "mi300x",
    "102-G30211-0C": "mi300x",
    "NVIDIA L40": None,
    "NVIDIA GB200": "gb200-186",
    "NVIDIA GB300": "gb300-288",
    "NVIDIA B300 SXM6 AC": "b300-288",
    "NVIDIA GH200 480GB": "gh200-96",
    "NVIDIA GH200 144G HBM3e": "gh200-144",
    "Tesla T4": "t4",
    "AMD Instinct MI325X": "mi325x",
    "AMD Instinct MI355X": "mi355x",
    "NVIDIA GH200": None,
    "NVIDIA A100X": None,
}


@pytest.mark.parametrize("model", DCGM_NAMES)
def test_a_gpu_name_means_one_tier(model: str) -> None:
    tiers = load_catalogue().tiers.tiers
    product = model.replace(" ", "-")
    for said in (model, model.lower(), product, f"{product}-SHARED", f"{product}-MIG-1g.10gb"):
        found = [name for name, tier in tiers.items() if tier.names and re.fullmatch(tier.pattern, said, re.I)]
        assert found == ([DCGM_NAMES[model]] if DCGM_NAMES[model] else []), said


def test_every_figure_names_its_source() -> None:
    tiers = load_catalogue().tiers
    figures: list[Figure | Band] = [*tiers.thresholds.values(), *tiers.bands.values()]
    for tier in tiers.tiers.values():
        assert tier.host_gbps is not None
        figures += [tier.memory_gib, tier.memory_gbps, tier.bf16_tflops, tier.link_gbps]
        figures += [tier.host_gbps, *tier.thresholds.values(), *tier.bands.values()]
        assert tier.nic_gbits is not None
        figures.append(tier.nic_gbits)
    figures += [*tiers.storage.values(), tiers.engine_start_s, *map(tiers.cold_start, tiers.tiers)]
    assert all(len(figure.source) > 8 for figure in figures)


def test_unknown_hardware_is_never_better_than_known() -> None:
    of_all = load_catalogue().tiers
    tiers = dict(of_all.tiers)
    unknown, _ = tiers.pop("unknown"), tiers.pop("cpu")
    for key in ("memory_gib", "memory_gbps", "bf16_tflops", "link_gbps", "host_gbps"):
        assert getattr(unknown, key).value <= min(getattr(tier, key).value for tier in tiers.values())
    assert of_all.cold_start("unknown").value >= min(of_all.cold_start(tier).value for tier in tiers)


def test_nothing_mentions_the_workplace() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "collectors").glob("*.yaml")]
    assert not [text for text in texts if "shared/" in text or "/work" in text]
