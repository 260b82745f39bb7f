"""What is exported is what promtool reads and what import reads back."""

from __future__ import annotations

import io
import shutil
import subprocess

import numpy as np
import pytest

from inferdoc.collect import parse
from inferdoc.store import Store, export, import_file
from inferdoc.store.exporter import family_of
from tests.store.pages import POD, held_by, layout_of, page_of, samples_of

PAGE = b"""# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0"} 5.0
# TYPE vllm:prompt_tokens_created gauge
vllm:prompt_tokens_created{engine="0"} 1.7e+09
# TYPE vllm:ttft_seconds histogram
vllm:ttft_seconds_bucket{engine="0",le="0.1"} 1.0
vllm:ttft_seconds_bucket{engine="0",le="+Inf"} 4.0
vllm:ttft_seconds_count{engine="0"} 4.0
vllm:ttft_seconds_sum{engine="0"} 2.25
vllm:ttft_seconds_bucket{engine="1",le="0.1"} 0.0
vllm:ttft_seconds_bucket{engine="1",le="+Inf"} 0.0
vllm:ttft_seconds_count{engine="1"} 0.0
vllm:ttft_seconds_sum{engine="1"} 0.0
# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0"} 12345678901.0
# TYPE odd gauge
odd{text="quote \\" backslash \\\\ newline \\n end"} NaN
# TYPE limits untyped
limits{which="low"} -Inf
limits{which="high"} +Inf
"""


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "fleet.db", "w") as store:
        page = parse(PAGE, "text/plain; version=0.0.4")
        with store.writer.round() as writer:
            for number in range(25):
                for pod in range(2):
                    page.values[:4] += number
                    labels = {**POD, "pod": f"vllm-{pod}", "instance": f"10.0.0.{pod + 1}:8000"}
                    writer.append(labels, 1_700_000_000_123 + number * 15_000, page)
                if number % 3 == 0:
                    late = page_of(layout_of("up", ("odd", {"text": "x"})), [1, np.nan])
                    writer.append(POD, 1_700_000_001_000 + number * 15_000, late)
        yield store


def text_of(store, **asked) -> bytes:
    out = io.BytesIO()
    written = export(store, store.first_ms(), store.latest_ms(), out, **asked)
    text = out.getvalue()
    assert written == sum(not line.startswith(b"#") for line in text.splitlines())
    return text


def test_round_trip(store, tmp_path):
    text = text_of(store)
    with Store.open(tmp_path / "copy.db", "w") as copy:
        done = import_file(copy, io.BytesIO(text))
        assert done.problems == []
        first, latest = store.first_ms(), store.latest_ms()
        assert samples_of(copy.blocks(first, latest)) == samples_of(store.blocks(first, latest))
        assert text_of(copy) == text
        assert import_file(store, io.BytesIO(text)).new_pages == 0


def test_families_stand_together_with_their_type(store):
    text = text_of(store).decode()
    types = dict(line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE"))
    assert types == {
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "unknown",
        "limits": "unknown",
        "odd": "gauge",
        "up": "unknown",
        "vllm:prompt_tokens": "counter",
        "vllm:ttft_seconds": "histogram",
    }
    assert len([line for line in text.splitlines() if line.startswith("# TYPE")]) == len(types)
    assert text.endswith("\n# EOF\n") and "\n\n" not in text


def test_only_some(store):
    text = text_of(store, names={"up"}).decode().splitlines()
    assert text[0] == "# TYPE up unknown" and text[-1] == "# EOF" and len(text) == 11
    assert text[1] == 'up{instance="10.0.0.1:8000",job="vllm",pod="vllm-0"} 1.0 1700000001.000'
    assert b"vllm-0" not in text_of(store, targets=lambda target: target["pod"] == "vllm-1")
    assert text_of(store, names={"none"}) == b"# EOF\n"


def test_batches_give_the_same_text(store, monkeypatch):
    whole = text_of(store)
    monkeypatch.setattr("inferdoc.store.exporter._BATCH_SAMPLES", 30)
    assert text_of(store) == whole


@pytest.mark.parametrize(
    ("name", "types", "family"),
    [
        ("a_total", {"a": "counter"}, ("a", "counter")),
        ("a_total", {"a_total": "counter"}, ("a", "counter")),
        ("a_total", {"a_total": "counter", "a": "gauge"}, ("a_total", "unknown")),
        ("a_total_bucket", {"a_total": "histogram"}, ("a_total", "histogram")),
        ("a_count", {"a": "summary"}, ("a", "summary")),
        ("a", {"a": "summary"}, ("a", "summary")),
        ("a_count", {}, ("a_count", "unknown")),
        ("a_created", {"a_total": "counter", "a_created": "gauge"}, ("a", "counter")),
        ("a_created", {"a": "histogram"}, ("a", "histogram")),
        ("a_info", {"a": "info"}, ("a", "info")),
        ("a_info", {"a_info": "gauge"}, ("a_info", "gauge")),
        ("a", {"a": "untyped"}, ("a", "unknown")),
        ("a", {"a": "histogram"}, ("a", "unknown")),
    ],
)
def test_family_of_a_series(name, types, family):
    assert family_of(name, types) == family


def test_names_that_need_quotes(tmp_path):
    with Store.open(tmp_path / "fleet.db", "w") as store:
        layout = layout_of(("http.server.duration", {"service.name": "a"}), "plain", types={"plain": "gauge"})
        store.writer.append({}, 1_700_000_000_000, page_of(layout, [1, 2]))
        text = text_of(store)
        assert b'{"http.server.duration","service.name"="a"} 1.0 1700000000.000\n' in text
        with Store.open(tmp_path / "copy.db", "w") as copy:
            assert import_file(copy, io.BytesIO(text)).problems == []
    assert held_by(tmp_path / "copy.db") == held_by(tmp_path / "fleet.db")


@pytest.mark.live
@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool (Debian package prometheus)")
def test_promtool_makes_the_same_samples_of_it(store, tmp_path):
    text = tmp_path / "export.om"
    text.write_bytes(text_of(store))
    blocks = tmp_path / "blocks"
    (blocks / "wal").mkdir(parents=True)
    run("create-blocks-from", "openmetrics", str(text), str(blocks))
    dumped = {}
    for line in run("dump", str(blocks)).splitlines():
        series, value, ts_ms = line.rsplit(" ", 2)
        dumped[series, int(ts_ms)] = float(value)
    held = samples_of(store.blocks(store.first_ms(), store.latest_ms()))
    assert len(dumped) == len(held)
    ours = np.sort(np.array(list(held.values()), np.uint64).view(np.float64))
    assert np.array_equal(ours, np.sort(list(dumped.values())), equal_nan=True)
    assert sorted(ts for _, ts in dumped) == sorted(ts for _, _, ts in held)


def run(*asked: str) -> str:
    done = subprocess.run(["promtool", "tsdb", *asked], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout
