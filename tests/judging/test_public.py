"""Incidents that operators reported in public, rebuilt from their figures: does the answer help a stranger?

A case is a folder of fixtures/public: `in.om.xz` (OpenMetrics), and `case.json` with the report, the truth by the
thread, what was filled in, what may and must not be found, and, where another answer comes first, why (`missed`)."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from inferdoc import diagnose, open_source
from inferdoc.audit.api import audit
from inferdoc.report import render
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store
from inferdoc.times import seconds_of
from tests.built import built

FOLDER = Path(__file__).parents[2] / "fixtures" / "public"
CASES = {path.parent.name: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*/case.json"))}


LAST = 0.4
"""Share of its window that is left of a case whose source begins inside the incident."""
ORDINARY = {
    "11-caching-off-standing": "prompts of 96,000 tokens at the usual speed of the hardware; audit names the setting",
    "28-hits-zero-after-upgrade": "first tokens after 2 s, and no past that shows the hits of before",
    "c33b-hang-of-16-min-healed": "over before the window begins",
    "q02-first-token-slower-in-0-7-0": "first tokens after 0.4 s",
    "q05-equal-scores-go-to-the-first-pod": "no response is slow by itself",
    "r03-stage-zero-killed-six-times": "no restart in the window",
    "r05-busy-replicas-fail-the-health-check": "no restart in the window",
    "r12-acceptance-gone-with-the-image": "45 tokens/s a request, as without drafts; too short for an audit",
    "s04-proxy-serves-nine-of-sixteen": "nothing waits anywhere; the proxy has been that slow all the time",
    "s08-store-over-its-watermark-refuses-puts": "no response is slow by itself",
    "s25-acceptance-sinks-until-the-restart": "no response is slow by itself",
    "w23-eighty-three-megabytes-left": "over before the window begins",
    "x01-scheduler-grows-to-sixty-gigabytes": "no restart in the window, and memory at half of its limit",
    "x05-one-model-of-three-after-the-restart": "nothing shows the model that is not served",
    "x02-every-rejection-comes-back": "who is served waits no longer; what the gateway rejects is not read",
    "y05-one-ingress-for-four-replicas": "the proxy adds a second; what it adds is no signal",
}
"""Incidents of which nothing shows without a past: what users get is ordinary by every absolute limit."""


def stored(name: str, share: float = 1.0) -> Path:
    """The store of a case; of a share of its window, the end of it and nothing before, if that is less than 1."""

    def make(folder: Path) -> None:
        text = folder / "in.om"
        lines = lzma.decompress((FOLDER / name / "in.om.xz").read_bytes()).splitlines(keepends=True)
        if share < 1:
            times = {line: float(line.rsplit(b" ", 1)[1]) for line in lines if not line.startswith(b"#")}
            begin = max(times.values()) - share * seconds_of(CASES[name]["since"], "since")
            lines = [line for line in lines if times.get(line, begin) >= begin]
        text.write_bytes(b"".join(lines))
        with Store.open(folder / "case.db", "w") as store:
            import_file(store, text)
        text.unlink()

    return built(f"public-{name}-{share:g}", make) / "case.db"


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.get("audit")])
def test_what_always_was_so_is_found(name):
    case = CASES[name]
    answer = audit(open_source(store=stored(name)), since=case["since"])
    assert set(case["audit"]) <= {state.id for state in answer.states}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.get("audit")])
def test_what_operators_reported_is_found(name):
    case = CASES[name]
    answer = diagnose(open_source(store=stored(name)), since=case["since"])
    found = [(finding.id, finding.certainty) for finding in answer.findings]
    if case["control"]:
        assert "missed" in case or (answer.verdict, found) == ("healthy", [])
        return
    assert (answer.verdict == "healthy") == ("mild" in case)
    for finding in answer.findings:
        rivals = {rival.id: rival.probability for rival in finding.differential}
        assert finding.probability + sum(rivals.values()) <= 1.005
        assert not rivals.keys() & {out.id for out in finding.ruled_out}
        unmoved = [one for one in finding.evidence if one.observed is None and one.baseline is not None]
        assert not [one.statement for one in unmoved if one.role == "harm"]
    assert "missed" in case or (found[0][0] if found else "none") in case["accept"]
    assert not [one for one, certainty in found if certainty == "proven" and one in case["must_not"]]
    if case.get("text"):
        assert case["text"] in render(answer, "text")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if number % 4 == 0 or name.startswith("s17") else pytest.mark.slow)
        for number, name in enumerate(name for name in CASES if name not in ORDINARY)
        if not CASES[name]["control"]
    ],
)
def test_an_incident_that_is_older_than_the_source_is_not_healthy(name):
    since = f"{LAST * seconds_of(CASES[name]['since'], 'since'):.0f}s"
    answer = diagnose(open_source(store=stored(name, LAST)), since=since)
    assert answer.verdict != "healthy" or set(CASES[name]["accept"]) & {"HEALTHY", "none"}


def test_a_stretch_without_samples_is_no_past_to_compare_with():
    store = stored("s07-seventy-to-ten-after-the-load-test")
    answer = diagnose(open_source(store=store), since="40m")
    assert answer.findings[0].id == "kv-offload-slow"
    assert answer.window.baseline.from_ >= "2026-11-25T09:46:40"


def test_minutes_at_the_edge_of_the_history_become_a_whole_baseline():
    answer = diagnose(open_source(store=stored("q09-one-of-four-in-a-hidden-slow-state")), since="750s")
    assert answer.verdict == "degraded"


def test_steps_slow_with_kv_from_the_host_are_named_without_a_count_of_evictions(tmp_path):
    text = lzma.decompress((FOLDER / "s07-seventy-to-ten-after-the-load-test" / "in.om.xz").read_bytes()).decode()
    page = tmp_path / "in.om"
    page.write_text("".join(line for line in text.splitlines(keepends=True) if "evicted_tokens" not in line))
    with Store.open(tmp_path / "case.db", "w") as store:
        import_file(store, page)
    answer = diagnose(open_source(store=tmp_path / "case.db"), since="50m")
    assert answer.findings[0].id == "kv-offload-slow"


def test_far_longer_waits_of_few_requests_are_no_health():
    answer = diagnose(open_source(store=stored("r08-second-long-session-evicts-the-first")), since="15m")
    assert answer.verdict == "unknown" and "requests are too few" in answer.summary


def test_a_window_inside_the_incident_is_compared_with_the_time_before_it():
    answer = diagnose(open_source(store=stored("q02-first-token-slower-in-0-7-0")), since="750s")
    assert answer.verdict == "degraded"
