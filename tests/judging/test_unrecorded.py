"""Causes that no recording shows, on made-up pages with the real names and labels; and their innocent twins."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.model import Diagnosis, Finding
from tests.contract.labels import seconds
from tests.judging.made import (
    INTERVAL_S,
    ONSET,
    ONSET_S,
    SCRAPES,
    Engine,
    Recording,
    container,
    gpu,
    recorded,
    stored,
    then,
)

ONSET_WITHIN_S = 20.0
WINDOW_S = 5 * INTERVAL_S


@pytest.fixture
def diagnosed(tmp_path):
    """A recording, or its text -> its diagnosis from the embedded store."""

    def of(made: Recording | str) -> Diagnosis:
        source = open_source(store=stored(made if isinstance(made, str) else made.text(), tmp_path))
        answer = diagnose(source, since="1h")
        source.close()
        return answer

    return of


def only(
    answer: Diagnosis,
    cause: str,
    *pods: str,
    certainty: tuple[str, ...] = ("proven", "likely"),
    within: float = ONSET_WITHIN_S,
) -> Finding:
    """The one finding, which names these pods and the onset."""
    assert [f.id for f in answer.findings] == [cause], answer.summary
    (finding,) = answer.findings
    assert finding.scope.pods == list(pods)
    assert finding.certainty in certainty
    assert seconds(finding.onset) == pytest.approx(ONSET_S, abs=within)
    assert any(e.role == "harm" for e in finding.evidence)
    return finding


def nothing(answer: Diagnosis) -> None:
    assert (answer.verdict, answer.findings) == ("healthy", []), answer.summary


QUIET = [Engine(pod) for pod in ("p1", "p2")]
SLOWER = {"itl": then(0.02, 0.035), "running": then(6, 11)}


def test_made_engines_are_healthy_by_themselves(diagnosed):
    answer = diagnosed(recorded(Engine("p0"), *QUIET))
    nothing(answer)
    assert answer.coverage.pods == 3 and answer.coverage.gaps == [] and answer.changes == []


# ---- ep-hot-expert --------------------------------------------------------------------------------------------------


def experts(hot: float = 0.85, balance: float | None = None, joined: bool = True, clock: float = 1900, **engine):
    """An engine on four GPUs, one of which works harder from the onset on."""
    made = recorded(Engine("p0", **{**SLOWER, **engine}))
    for number in range(4):
        gpu(
            made,
            "p0",
            number,
            joined=joined,
            DCGM_FI_PROF_PIPE_TENSOR_ACTIVE=then(0.5, hot if number == 2 else 0.45),
            DCGM_FI_DEV_POWER_USAGE=then(500, 500 + 400 * (hot - 0.45) if number == 2 else 480),
            DCGM_FI_DEV_SM_CLOCK=then(1900, clock if number == 2 else 1900),
        )
    if balance is not None:
        made.put("inferdoc_eplb_balancedness", "gauge", Engine("p0").target(), then(0.95, balance))
    return made


def test_one_gpu_that_works_harder_is_likely_a_hot_expert_and_never_proof(diagnosed):
    finding = only(diagnosed(experts()), "ep-hot-expert", "p0", certainty=("likely", "possible"))
    assert finding.scope.level == "gpu" and finding.scope.tier == "h100-80"
    odd = next(e for e in finding.evidence if e.signal == "tensor_active")
    assert odd.entity == "p0 gpu 2" and "85" in odd.statement


def test_the_balancedness_log_proves_it(diagnosed):
    finding = only(diagnosed(experts(balance=0.5)), "ep-hot-expert", "p0", certainty=("proven",))
    assert any(e.signal == "eplb_balancedness" for e in finding.evidence)


def test_the_balancedness_log_alone_is_enough_to_say_likely(diagnosed):
    finding = only(diagnosed(experts(balance=0.5, joined=False)), "ep-hot-expert", "p0")
    assert finding.certainty == "likely", "clocks that cannot be seen are a doubt"


def test_gpus_that_nobody_can_join_to_the_pod_leave_it_unjudged(diagnosed):
    answer = diagnosed(experts(joined=False))
    assert "ep-hot-expert" not in [f.id for f in answer.findings]
    (item,) = (n for n in answer.not_judged if n.id == "ep-hot-expert")
    assert set(item.missing) == {"eplb_balancedness", "tensor_active"}
    assert "--eplb-log" in item.enable and "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" in item.enable


def test_a_gpu_at_a_lower_clock_is_another_cause(diagnosed):
    assert "ep-hot-expert" not in [f.id for f in diagnosed(experts(clock=1400)).findings]


def test_uneven_gpus_that_slow_nobody_are_no_finding(diagnosed):
    nothing(diagnosed(experts(itl=0.02, running=6)))


# ---- cpu-starvation -------------------------------------------------------------------------------------------------


def starved(share: float, **engine) -> Recording:
    made = recorded(Engine("p0", **{**SLOWER, **engine}), *QUIET)
    container(made, "p0", then(0.0, share))
    for other in QUIET:
        container(made, other.pod, 0.0)
    return made


def test_a_throttled_container_starves_its_gpu(diagnosed):
    finding = only(diagnosed(starved(0.5)), "cpu-starvation", "p0")
    throttled = next(e for e in finding.evidence if e.signal == "cpu_throttled_share")
    assert throttled.observed == pytest.approx(0.5, abs=0.05)
    others = {r.id for r in finding.ruled_out} | {r.id for r in finding.differential}
    assert "slow-gpu" in others | set(finding.effects)


def test_the_same_slowness_without_throttling_is_the_gpu(diagnosed):
    only(diagnosed(starved(0.0)), "slow-gpu", "p0")


def test_throttling_that_slows_nobody_is_no_finding(diagnosed):
    nothing(diagnosed(starved(0.5, itl=0.02, running=6)))


# ---- kv-capacity-bound ----------------------------------------------------------------------------------------------

FULL = {
    "kv": then(0.6, 0.97),
    "running": then(6, 9.7),
    "waiting": then(0, 9),
    "ttft": then(0.15, 2.5),
    "queue": then(0.02, 2.2),
}
"""More of the same requests: the cache fills with their number."""


def test_a_full_cache_that_makes_requests_wait(diagnosed):
    finding = only(diagnosed(recorded(Engine("p0", **FULL), *QUIET)), "kv-capacity-bound", "p0")
    unlikely = {r.id for r in finding.ruled_out} | {r.id for r in finding.differential if r.probability <= 0.02}
    assert unlikely >= {"kv-preemption-thrash", "demand-beyond-capacity"}
    step = next(s for s in finding.next_steps if "Size the cache" in s.do)
    assert "tokens" in step.do and any(c.isdigit() for c in step.do)


def test_a_full_cache_that_hurts_nobody_is_no_finding(diagnosed):
    nothing(diagnosed(recorded(Engine("p0", kv=then(0.6, 0.97)), *QUIET)))


def test_a_full_cache_that_preempts_is_the_other_cause(diagnosed):
    thrash = {**FULL, "preemptions": then(0, 2.0), "itl": then(0.02, 0.06)}
    finding = diagnosed(recorded(Engine("p0", **thrash), *QUIET)).findings[0]
    assert finding.id == "kv-preemption-thrash" and finding.scope.pods == ["p0"]


def test_a_queue_beside_an_empty_cache_is_demand(diagnosed):
    crowd = {**FULL, "kv": 0.3, "requests": then(4, 5.5), "itl": then(0.02, 0.027)}
    answer = diagnosed(recorded(*(Engine(f"p{i}", **crowd) for i in range(3))))
    only(answer, "demand-beyond-capacity", "p0", "p1", "p2")


# ---- routing-imbalance ----------------------------------------------------------------------------------------------


def skewed(ttft: float) -> Recording:
    hot = Engine("p0", requests=then(4, 9), running=then(6, 16), ttft=then(0.15, ttft), waiting=then(0, 0))
    return recorded(hot, *(Engine(p, requests=then(4, 1.5), running=then(6, 2)) for p in ("p1", "p2")))


def test_a_pod_that_gets_most_of_the_work_and_is_slow_for_it(diagnosed):
    finding = only(diagnosed(skewed(0.8)), "routing-imbalance", "p0")
    assert finding.scope.of_pods == 3
    share = next(e for e in finding.evidence if e.signal == "request_rate")
    assert share.observed == pytest.approx(9, rel=0.15) and share.baseline == pytest.approx(1.5, rel=0.4)


def test_skew_that_hurts_nobody_is_no_finding(diagnosed):
    nothing(diagnosed(skewed(0.16)))


# ---- telemetry ------------------------------------------------------------------------------------------------------


def test_a_pod_scraped_under_two_addresses_is_an_artifact(diagnosed):
    made = recorded(Engine("p0"), *QUIET)
    twin = Recording()
    Engine("p0", instance="p0:9000", labels={"job": "vllm-again"}).write(twin)
    late = [
        line for line in twin.text().splitlines() if not line.startswith("#") and float(line.split()[-1]) >= ONSET_S
    ]
    for line in late:
        family = next(name for name in made.samples if line.startswith(name))
        made.samples[family][1].append(line)
    finding = only(diagnosed(made), "telemetry-artifact", "p0")
    assert finding.severity == "info" and finding.phase == "telemetry"


def test_scrapes_that_fail_to_happen_are_an_artifact(diagnosed):
    made = recorded(Engine("p0"), *QUIET)
    text = made.only(lambda line: 'pod="p0"' not in line or _age(line) < ONSET or _age(line) % 4 == 0)
    finding = only(diagnosed(text), "telemetry-artifact", "p0", within=20 * INTERVAL_S)  # a share of twenty scrapes
    assert finding.severity == "info"


def _age(line: str) -> int:
    """The number of the scrape that a sample belongs to."""
    return round((float(line.split()[-1]) - ONSET_S) / INTERVAL_S) + ONSET


VANISHING = ("vllm:kv_cache_usage_perc", "vllm:num_preemptions_total")


def test_series_that_vanish_while_the_target_answers(diagnosed):
    made = recorded(Engine("p0"), *QUIET)
    text = made.only(lambda line: not (line.startswith(VANISHING) and 'pod="p0"' in line and _age(line) >= ONSET))
    answer = diagnosed(text)
    finding = only(
        answer, "metric-absent-or-renamed", "p0", within=WINDOW_S
    )  # so long a rate still sees the last samples
    assert finding.severity == "info" and answer.verdict == "degraded"


def test_a_rename_that_an_alias_bridges_is_no_finding(diagnosed):
    """A rolling upgrade: from the onset on the cache gauge has its new name."""
    lines = recorded(Engine("p0"), *QUIET).text().splitlines(keepends=True)
    old = [
        line.replace("vllm:kv_cache_usage_perc{", "vllm:gpu_cache_usage_perc{")
        if line.startswith("vllm:kv_cache_usage_perc{") and _age(line) < ONSET
        else line
        for line in lines
    ]
    nothing(diagnosed("".join(old)))


def test_a_target_that_is_down_has_not_lost_its_metrics(diagnosed):
    made = recorded(Engine("p0", up=then(1, 0)), *QUIET)
    text = made.only(lambda line: 'pod="p0"' not in line or line.startswith("up{") or _age(line) < ONSET)
    only(diagnosed(text), "engine-down", "p0")


# ---- hardware tiers -------------------------------------------------------------------------------------------------


def test_unlike_hardware_is_never_compared(diagnosed):
    """A slower card among faster ones is no slow GPU; the same slowness among its like is."""
    slow = {"itl": 0.05, "running": 14}
    mixed = recorded(
        Engine("p0", **slow, labels={"tier": "l4"}), *(Engine(p, labels={"tier": "h100-80"}) for p in ("p1", "p2"))
    )
    nothing(diagnosed(mixed))


def test_the_onset_is_no_earlier_than_the_change_and_the_window_covers_the_recording(diagnosed):
    answer = diagnosed(starved(0.5))
    assert seconds(answer.findings[0].onset) >= ONSET_S - INTERVAL_S
    covered = seconds(answer.window.until) - seconds(answer.window.from_)
    assert covered == pytest.approx(INTERVAL_S * (SCRAPES - 1), abs=2 * INTERVAL_S)
    assert np.isclose(answer.window.step_seconds, INTERVAL_S)
