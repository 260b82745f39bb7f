"""One made-up fault for each class of operators' reports that was once missed; none is a case of `fixtures/public`.

Other classes have tests of their own: other engines and connectors (`tests/engines`), incomplete data
(`test_completeness.py`), verdicts `unknown` (`test_unknown.py`), releases before the onset (`test_released.py`).
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.model import Diagnosis
from tests.judging.made import INTERVAL_S, ONSET, SCRAPES, START_S, Engine, Recording, gpu, recorded, stored, then

STEP = np.arange(SCRAPES)
LATE = f"{(SCRAPES - ONSET - 8) * INTERVAL_S}s"
"""A window that begins after the onset."""


def diagnosed(made: Recording, folder: Path, since: str = "") -> Diagnosis:
    made.samples.pop("process_start_time_seconds", None)  # the made-up counters are those of no life
    path = stored(made.text(), folder)
    end = START_S + (SCRAPES - 1) * INTERVAL_S
    source = open_source(store=path)
    try:
        return diagnose(source, since=since or f"{(SCRAPES - 12) * INTERVAL_S}s", until=end)
    finally:
        source.close()


def found(answer: Diagnosis) -> list[str]:
    return [finding.id for finding in answer.findings]


@pytest.mark.parametrize("since", ["", LATE])
def test_a_queue_that_nobody_serves_is_an_outage_although_no_latency_is_counted(tmp_path, since):
    stuck = Engine("a", requests=then(4, 0), running=then(6, 0), waiting=then(0, 12))
    answer = diagnosed(recorded(stuck, Engine("b")), tmp_path, since)
    assert answer.verdict == "critical"
    assert answer.findings[0].scope.pods == ["a"]


def test_a_queue_that_falls_again_and_again_is_that_of_no_hung_engine(tmp_path):
    moving = np.where(STEP < ONSET, 0, 2 + 8 * (STEP // 4 % 2))
    failing = Engine("a", requests=then(4, 0), running=then(6, 0), waiting=moving)
    answer = diagnosed(recorded(failing, Engine("b")), tmp_path)
    assert answer.verdict not in ("healthy", "unknown")
    assert "engine-hung" not in found(answer)


def test_failed_scrapes_show_the_restart_that_left_a_cold_cache(tmp_path):
    away = np.where((STEP >= ONSET - 6) & (STEP < ONSET), 0.0, 1.0)
    cold = Engine("a", up=away, hit=then(0.74, 0.1), ttft=then(0.15, 0.6), prefill=then(0.1, 0.5))
    answer = diagnosed(recorded(cold, Engine("b", hit=0.74), Engine("c", hit=0.74)), tmp_path)
    assert found(answer) == ["prefix-cold-start"]


def test_gauges_alone_prove_nothing_while_every_counter_is_still(tmp_path):
    answer = diagnosed(recorded(Engine("a", requests=then(4, 0), running=1)), tmp_path)
    assert answer.verdict != "healthy"
    assert all(finding.certainty == "possible" for finding in answer.findings)


def test_a_cache_that_fills_over_the_whole_window_is_named(tmp_path):
    climb = np.minimum(0.995, 0.3 + 0.8 * STEP / SCRAPES)
    full = climb > 0.98
    engine = Engine(
        "a", kv=climb, preemptions=np.where(full, 2.0, 0), waiting=np.where(full, 9, 0), itl=np.where(full, 0.08, 0.02),
        queue=np.where(full, 4.0, 0.02), ttft=np.where(full, 4.2, 0.15),
    )  # fmt: skip
    answer = diagnosed(recorded(engine), tmp_path)
    assert found(answer)[0].startswith("kv-")


def test_lost_prefix_hits_with_longer_prompts_keep_the_name_of_the_mechanism(tmp_path):
    engine = Engine(
        "a", hit=then(0.74, 0.35), prompt=then(400, 520), ttft=then(0.15, 0.9), prefill=then(0.1, 0.8), kv=0.5
    )
    first = diagnosed(recorded(engine), tmp_path).findings[0]
    assert first.id.startswith("prefix-") or first.family == "prefix-reuse"


def test_an_xid_at_the_minute_of_the_exit_is_reported(tmp_path):
    made = recorded(Engine("a", up=then(1, 0), requests=then(4, np.nan), running=then(6, np.nan)), Engine("b"))
    for pod, number in (("a", 0), ("b", 1)):
        gpu(made, pod, number, DCGM_FI_DEV_GPU_UTIL=60)
        where = {"job": "dcgm", "instance": "10.0.0.9:9400", "gpu": str(number), "exported_pod": pod}
        codes = then(0, 45) if pod == "a" else 0
        made.put("DCGM_FI_DEV_XID_ERRORS", "gauge", {**where, "exported_namespace": "llm"}, codes)
    answer = diagnosed(made, tmp_path)
    assert answer.verdict == "critical"
    assert "Xid 45" in " ".join([str(answer.findings[0]), *(change.detail for change in answer.changes)])


def test_a_stop_that_healed_is_a_finding_that_ended(tmp_path):
    stopped = (STEP >= 16) & (STEP < 46)
    engine = Engine(
        "a", requests=np.where(stopped, 0, 4.0), running=np.where(stopped, 9, 6), waiting=np.where(stopped, 8, 0),
        itl=np.where(stopped, 1e9, 0.02),
    )  # fmt: skip
    answer = diagnosed(recorded(engine, Engine("b")), tmp_path)
    ended = [finding for finding in answer.findings if not finding.ongoing]
    assert ended and ended[0].scope.pods == ["a"]


def test_a_field_that_an_exporter_drops_is_no_lost_gpu(tmp_path):
    made = recorded(Engine("a"), Engine("b"))
    for pod, number in (("a", 0), ("b", 1)):
        dropped = then(60, np.nan) if pod == "a" else 60
        gpu(made, pod, number, DCGM_FI_DEV_GPU_UTIL=dropped, DCGM_FI_DEV_SM_CLOCK=1700, DCGM_FI_DEV_POWER_USAGE=400)
    assert "gpu-lost" not in found(diagnosed(made, tmp_path))


def test_idle_peers_speak_against_overload(tmp_path):
    full = {"waiting": then(0, 30), "queue": then(0.02, 6), "ttft": then(0.15, 6.2), "running": then(6, 20)}
    busy = [Engine(name, **full) for name in "abc"]
    idle = [Engine(name, requests=0.2, running=0.2) for name in "de"]
    answer = diagnosed(recorded(*busy, *idle), tmp_path)
    assert answer.verdict != "healthy"
    assert ("demand-beyond-capacity", "proven") not in [(f.id, f.certainty) for f in answer.findings]


def test_a_cache_that_was_full_before_explains_no_slower_tokens(tmp_path):
    engine = Engine("a", kv=0.97, waiting=5, queue=1.0, ttft=1.2, itl=then(0.02, 0.44), requests=then(4, 0.4))
    answer = diagnosed(recorded(engine), tmp_path)
    assert answer.verdict != "healthy"
    first = answer.findings[0]
    assert first.id != "kv-capacity-bound" or first.certainty == "possible"


def test_traffic_that_stops_is_mentioned_and_not_healthy(tmp_path):
    engines = [Engine(name, requests=then(4, 0), running=then(6, 0)) for name in "ab"]
    answer = diagnosed(recorded(*engines), tmp_path)
    assert answer.verdict == "unknown" and "arrive" in answer.summary


def test_an_impossible_baseline_is_no_reason_to_roll_back(tmp_path):
    engine = Engine("a", ttft=then(7e-5, 0.15), queue=then(1e-5, 0.02), prefill=then(5e-5, 0.1))
    answer = diagnosed(recorded(engine), tmp_path)
    assert all(finding.certainty != "proven" for finding in answer.findings)
    assert "config-regression" not in found(answer)


def test_seconds_between_tokens_are_never_healthy_even_without_a_past(tmp_path):
    answer = diagnosed(recorded(Engine("a", itl=5.0, requests=0.2, output=40)), tmp_path, LATE)
    assert answer.verdict != "healthy"


def test_a_report_does_not_contradict_itself_about_arrivals(tmp_path):
    grown = {"requests": then(4, 9), "waiting": then(0, 30), "queue": then(0.02, 5), "ttft": then(0.15, 5.2)}
    answer = diagnosed(recorded(Engine("a", **grown), Engine("b", **grown)), tmp_path)
    texts = [
        text
        for f in answer.findings
        for text in (*(e.statement for e in f.evidence), *(r.because for r in f.ruled_out))
    ]
    assert not any(re.search(r"no more requests arrive", text) for text in texts)
