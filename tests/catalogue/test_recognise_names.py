"""Names of series under other spellings are read as the declared ones; what is not is reported."""

from __future__ import annotations

import pytest

from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.names import load_name_forms
from inferdoc.catalogue.recognise_names import NameReader

PAGE = (
    "vllm_num_requests_running",
    "vllm_num_requests_waiting",
    "vllm_prompt_tokens_total",
    "vllm_generation_tokens_total",
    "vllm_time_to_first_token_seconds_bucket",
)


def reader():
    return NameReader(load_catalogue())


@pytest.mark.parametrize(
    ("name", "series", "factor"),
    [
        ("vllm_num_requests_running", "vllm:num_requests_running", 1),
        ("ray_vllm_num_requests_running", "vllm:num_requests_running", 1),
        ("ray_vllm:num_requests_running", "vllm:num_requests_running", 1),
        ("vllm_gpu_cache_usage_perc", "vllm:gpu_cache_usage_perc", 1),
        ("sglang_token_usage", "sglang:token_usage", 1),
        ("vllm.num_requests_running", "vllm:num_requests_running", 1),
        ("vllm.num_requests.running", "vllm:num_requests_running", 1),
        ("vllm.prompt_tokens.count", "vllm:prompt_tokens_total", 1),
        ("vllm.time_to_first_token.seconds.bucket", "vllm:time_to_first_token_seconds_bucket", 1),
        ("prometheus.googleapis.com/vllm:num_requests_running/gauge", "vllm:num_requests_running", 1),
        ("prometheus_googleapis_com:vllm:num_requests_running_gauge", "vllm:num_requests_running", 1),
        (
            "prometheus.googleapis.com/vllm:e2e_request_latency_seconds/histogram_bucket",
            "vllm:e2e_request_latency_seconds_bucket",
            1,
        ),
        ("vllm:prompt_tokens", "vllm:prompt_tokens_total", 1),
        ("ray_vllm_num_preemptions", "vllm:num_preemptions_total", 1),
        ("vllm:time_to_first_token_milliseconds_bucket", "vllm:time_to_first_token_seconds_bucket", 0.001),
        ("sglang_e2e_request_latency_ms_sum", "sglang:e2e_request_latency_seconds_sum", 0.001),
        ("aphrodite:num_requests_running", "vllm:num_requests_running", 1),
        ("fastdeploy:time_to_first_token_seconds_bucket", "vllm:time_to_first_token_seconds_bucket", 1),
        ("lorax_batch_current_size", "tgi_batch_current_size", 1),
        ("lightllm_request_duration_sum", "tgi_request_duration_sum", 1),
    ],
)
def test_a_spelling_is_read_as_the_declared_series(name, series, factor):
    (found,) = reader().read({name})
    assert (found.series, found.factor) == (series, factor)


@pytest.mark.parametrize(
    "name",
    [
        "vllm:num_requests_running",
        "job:vllm_num_requests_running:sum",
        "vllm:num_requests_running:sum",
        "vllm:num_requests_running_sum",
        "kube_pod_container_status_restarts",
        "",
    ],
)
def test_declared_names_rules_and_other_exporters_stay_as_they_are(name):
    assert reader().read({name}) == []


def test_a_whole_page_is_read_under_a_prefix_that_nobody_declared():
    names = {f"acme_{name}" for name in PAGE}
    found = reader().read(names)
    assert {each.name for each in found} == names
    assert {each.prefix for each in found} == {"acme_"}
    assert reader().not_understood(names) != [], "before the page was seen as a whole"


@pytest.mark.parametrize("left", ["vllm_num_requests_running", "vllm_time_to_first_token_seconds_bucket"])
def test_less_than_a_page_is_no_engine_but_is_reported(left):
    names = {f"acme_{name}" for name in PAGE if name != left}
    assert reader().read(names) == []
    (told,) = reader().not_understood(names)
    assert (told.word, told.families) == ("acme_vllm", len(PAGE) - 1)
    assert told.nearest is not None and told.nearest.startswith("vllm:")


def test_an_unknown_engine_is_hidden_and_a_new_family_of_a_known_one_is_not():
    names = {
        "otherengine:num_requests_running",
        "otherengine:gpu_cache_usage_perc",
        "vllm:brand_new_total",
        "other_total",
    }
    first, second = reader().not_understood(names)
    assert (first.word, first.families, first.hidden, first.nearest) == (
        "otherengine",
        2,
        True,
        "vllm:gpu_cache_usage_perc",
    )
    assert (second.word, second.hidden, second.example) == ("vllm", False, "vllm:brand_new_total")


@pytest.mark.parametrize(
    ("names", "word"),
    [
        ({"xinference:model_serve_count"}, "Xinference"),
        ({"maxserve.num_requests_running", "maxserve.request_count"}, "Modular MAX"),
        ({"bentoml_service_request_in_progress"}, "BentoML"),
        ({"ollama_requests_total"}, "Ollama"),
        ({"ts_inference_requests_total"}, "TorchServe"),
        ({":tensorflow:serving:request_count"}, "TensorFlow Serving"),
        ({"ovms_current_requests"}, "OpenVINO Model Server"),
        ({"engine_prefill_time_sum", "prefill_tokens_sum"}, "MLC LLM"),
        ({"num_running_requests", "kv_cache_utilization"}, ""),
        ({"other_queue_size", "other_request_generated_tokens_bucket"}, "other"),
        ({"other_num_requests_waiting", "other_time_to_first_token_seconds_count"}, "other"),
    ],
)
def test_an_engine_that_nobody_reads_is_named(names, word):
    (found,) = reader().not_understood(names | {"app_requests_total"})
    assert (found.word, found.hidden) == (word, True)


@pytest.mark.parametrize(
    "names",
    [
        {"otherengine:num_requests_running", "app_requests_total"},
        {"chatapp_output_tokens_total", "chatapp_time_to_first_token_seconds_bucket", "chatapp_active_requests"},
        {"queue_size", "output_tokens_total"},
        {"jobs_queue_size", "jobs_pending_requests"},
    ],
    ids=["one state", "a client", "two programs", "a queue"],
)
def test_less_than_an_engine_is_none(names):
    assert reader().not_understood(names) == []


def test_names_without_a_word_of_an_engine_are_compared_with_no_declaration(monkeypatch):
    looked = reader()
    compared = []
    monkeypatch.setattr(looked, "of", lambda name: compared.append(name))
    names = {f"shop_{word}_{part}" for word in ("orders", "cart") for part in ("total", "bucket", "sum", "count")}
    assert looked.not_understood(names | {"vllm:brand_new_total"}) != []
    assert compared == ["vllm:brand_new_total"]


def test_questions_to_a_server_name_every_declared_spelling():
    assert load_name_forms().spelled("vllm:x") == ("vllm:x", "vllm_x", "ray_vllm:x", "ray_vllm_x")
    assert load_name_forms().spelled("trtllm_x") == ("trtllm_x", "ray_trtllm_x")
