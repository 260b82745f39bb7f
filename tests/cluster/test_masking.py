"""Secrets in log lines."""

from __future__ import annotations

import pytest

from inferdoc.cluster.pods import masked


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("HF_TOKEN=hf_abcdefghijkl starting", "HF_TOKEN=*** starting"),
        ('{"api_key": "sk-12345678901", "port": 8000}', '{"api_key": "***", "port": 8000}'),
        ("Authorization: Bearer abc.def.ghi", "Authorization: Bearer ***"),
        ("sent Bearer abcdefghij to the gateway", "sent *** to the gateway"),
        ("pull from https://me:pass@registry/x", "pull from https://***@registry/x"),
        ("AWS_SECRET_ACCESS_KEY: wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY: ***"),
        ("key AKIAIOSFODNN7EXAMPLE refused", "key *** refused"),
        ("eyJhbGciOi.eyJzdWIi.sig is expired", "*** is expired"),
    ],
)
def test_what_resembles_a_secret_is_not_handed_on(line, shown):
    assert masked(line) == shown


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "max_num_batched_tokens 8192, generated tokens 12",
        "GET http://vllm:8000/metrics 200",
    ],
)
def test_other_words_stay(line):
    assert masked(line) == line
