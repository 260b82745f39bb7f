"""One sick box, one address, no past: what is said at first look."""

from __future__ import annotations

import itertools
import json
from functools import cache, lru_cache

import pytest
from msgspec import structs

from inferdoc import diagnose
from inferdoc.collect.discovery import make_target
from inferdoc.collect.samples import Page
from inferdoc.collect.scrape import ScrapeResult
from inferdoc.errors import InferdocError
from inferdoc.judging.api import Options
from inferdoc.judging.model import Diagnosis
from inferdoc.judging.references.lifetime import FirstLook, absolute
from inferdoc.judging.visibility import ONE_SCRAPE
from inferdoc.pages.diagnosis import FIRST_SCRAPES, Pace, scrape_live
from inferdoc.report import render
from inferdoc.simulate.fleet import SimulatedFleet
from inferdoc.simulate.output import text_page
from inferdoc.simulate.scenario_files import load_scenario
from inferdoc.simulate.scrape import FleetScraper
from inferdoc.source.store_source import StoreSource
from inferdoc.store.store import Store
from inferdoc_dev.incidents.recording import record
from tests.cli.command import alone, call, refused
from tests.judging.frames import catalogue
from tests.page_server import answering

__all__ = ["alone"]
TARGET = make_target("http://vllm:8000")
LATE_SECONDS = 180.0
SICK = {
    "admission-shedding": (),
    "batch-cap-reached": (),
    "client-retry-storm": (),
    "engine-hung": (),
    "frontend-bottleneck": (),
    "kv-capacity-bound": (),
    "kv-handshake-failure": (),
    "kv-lease-expiry": (),
    "kv-preemption-thrash": (),
    "long-prefill-interference": (),
    "lora-thrash": (),
    "spec-acceptance-decay": (),
}
"""Faults that one engine's page can show, and what else is as right."""
BREACH = "unexplained-anomaly"
NAMED_AT_LEAST = 10


@cache
def scrapes(name: str) -> list[tuple[int, Page]]:
    """The pages of one engine of an incident, every 5 s from three minutes after the fault struck."""
    scenario = load_scenario(name)
    late = (scenario.expect.onset or 720.0) + LATE_SECONDS
    fleet = SimulatedFleet(structs.replace(scenario, scrape=5.0))
    fleet.run(late)
    scraper = FleetScraper(fleet)
    scraper.take(late + 70.0)
    pods = scenario.expect.pods
    for target in scraper.targets:
        if target.labels["job"] == "vllm" and (not pods or target.labels.get("pod") in pods):
            return target.pages
    raise AssertionError(name)


def looked(pages: list[tuple[int, Page]], seconds: float, path) -> tuple[list[Diagnosis], Diagnosis]:
    """The answers of a look of so many seconds at these pages, and the last of them, without a clock."""
    coming, answers = iter(pages), []

    def scrape(target) -> ScrapeResult:
        at, page = next(coming)
        return ScrapeResult(target, at, page, None, 0.01)

    def judge(lifetime):
        source = StoreSource(path)
        answers.append(diagnose(source, options=Options(catalogue=catalogue(), baseline=lifetime)))
        source.close()
        return answers[-1]

    pace = Pace(5.0, seconds, clock=lambda: 0.0, sleep=lambda wait: None)
    with Store.open(path, "w") as store:
        last = scrape_live([TARGET], store, scrape, judge, pace, lambda line: None)
    return answers, last


def told(answer: Diagnosis) -> set[str]:
    return {name for f in answer.findings for name in (f.id, *f.effects)}


@pytest.mark.takes_long("twelve incidents are simulated")
def test_sick_boxes_at_first_look(tmp_path):
    named, seen = [], {}
    for name, others in SICK.items():
        answers, _ = looked(scrapes(name), 60.0, tmp_path / f"{name}.db")
        assert len(answers) == 2
        assert all(answer.verdict != "healthy" for answer in answers), name
        seen[name] = told(answers[0])
        if {name, BREACH, *others} & told(answers[0]):
            named.append(name)
        assert all(f.certainty != "proven" for answer in answers for f in answer.findings), name
    assert len(named) >= NAMED_AT_LEAST, {name: seen[name] for name in SICK if name not in named}


WITHIN_THE_LIFE = {
    "decode-batch-saturation": "decode-batch-saturation",
    "fcfs-head-of-line": "prompt-growth",
    "gpu-clock-throttle": BREACH,
    "prefill-compute-bound": "prefill-compute-bound",
    "runaway-generation": "runaway-generation",
    "slow-gpu": BREACH,
}
"""Faults that are a fifth of the life that they are compared with, and what one page shows of each after a minute.
Which GPU is slow no engine's page tells."""


@pytest.mark.parametrize("name", WITHIN_THE_LIFE)
def test_a_fault_that_moved_the_means_of_a_life(name, tmp_path):
    _, last = looked(scrapes(name), 60.0, tmp_path / "look.db")
    assert WITHIN_THE_LIFE[name] in told(last)
    assert all(f.certainty != "proven" for f in last.findings)


def test_a_breach_says_what_it_is_most_like_and_what_would_tell(tmp_path):
    answers, _ = looked(scrapes("slow-gpu"), 60.0, tmp_path / "look.db")
    (breach,) = answers[0].findings
    assert breach.id == BREACH and {e.signal for e in breach.evidence if e.role == "harm"} >= {"itl_mean"}
    frontend = next(split for split in answers[0].phases if split.phase == "frontend")
    assert frontend.baseline_seconds, "what is read for the ranking takes no baseline away"
    likely = {rival.id: rival for rival in breach.differential}
    assert "dcgm" in likely["gpu-clock-throttle"].decided_by.observation


def test_too_slow_since_it_began(tmp_path):
    """The life of the process is as bad as the minute that is looked at: only absolute limits can tell."""
    scenario = load_scenario("control-kv-high")
    pools = tuple(structs.replace(p, flags=structs.replace(p.flags, max_seqs=4, blocks=None)) for p in scenario.pools)
    scenario = structs.replace(scenario, pools=pools, scrape=5.0, duration=480.0)
    target = next(t for t in record(scenario).targets if t.labels["job"] == "vllm")
    pages = [one for one in target.pages if one[0] >= 1000 * (scenario.start + 400.0)]
    _, last = looked(pages, 60.0, tmp_path / "look.db")
    harm = [e for f in last.findings for e in f.evidence if e.role == "harm" and e.reference == "absolute"]
    assert last.verdict != "unknown" and {"ttft_mean", "queue_time_mean"} <= {e.signal for e in harm}


@pytest.mark.parametrize("name", ["control-steady", "control-kv-high", "control-ramp", "control-bursts", "control-pd"])
def test_a_well_box_is_not_called_sick_nor_healthy_after_a_minute(name, tmp_path):
    answers, last = looked(scrapes(name), 60.0, tmp_path / "look.db")
    assert [answer.verdict for answer in answers] == ["unknown", "unknown"]
    assert "too little was seen to call it healthy" in last.summary


def test_the_answer_says_what_it_compared_with(tmp_path):
    _, last = looked(scrapes("kv-preemption-thrash"), 60.0, tmp_path / "look.db")
    assert last.window.baseline.kind == "lifetime" and last.window.baseline.from_ is None
    harm = {e.signal: e for e in last.findings[0].evidence if e.role == "harm"}
    assert harm["itl_mean"].observed > harm["itl_mean"].baseline > 0
    assert "before 2026-11-18" in render(last, "text") and "started before" in render(last, "text", detail=1)


def test_a_short_look_is_one_look(tmp_path):
    answers, last = looked(scrapes("kv-preemption-thrash"), 5.0 * (FIRST_SCRAPES - 1), tmp_path / "look.db")
    assert len(answers) == 1 and answers[0] is last


# ---- what an argument is ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def page() -> str:
    """The page of a simulated engine, as it answers."""
    fleet = SimulatedFleet(load_scenario("control-steady"))
    fleet.run(120.0)
    target = next(t for t in FleetScraper(fleet).every_target() if t.scraped.labels["job"] == "vllm")
    return text_page(list(target.items(fleet.now)))


def test_an_engine_is_recognised_by_its_address_however_it_is_written(tmp_path):
    with answering({"/metrics": page()}.get) as url:
        for text in (url, f"{url}/", f"{url}/metrics", f"{url}/v1", url.removeprefix("http://")):
            done = call("diagnose", text, "--for", "0s", "-o", "json")
            document = json.loads(done.out)
            assert done.code == 3 and document["source"]["location"] == text, done.err
            assert document["coverage"]["pods"] == 1
        kept = call("diagnose", url, "--for", "0s", "--store", tmp_path / "kept.db", "-o", "json")
        assert kept.code == 3 and (tmp_path / "kept.db").is_file()
        wrong = call("diagnose", "--prometheus", url, "--since", "5m")
        refused(wrong, 4, "no Prometheus API", f"inferdoc diagnose {url}")
        refused(call("diagnose", url, "--since", "5m"), 2, "--since needs history")
        refused(call("diagnose", url, tmp_path / "kept.db"), 2, "one server or store, or only")


def test_who_is_there_and_what_it_reads_need_no_store_either(tmp_path, store_of):
    with answering({"/metrics": page()}.get) as url:
        looked = call("doctor", url, "--for", "2s", "--interval", "1s")
        assert looked.code == 0 and f"source      {url}" in looked.out and f"{url}/metrics" in looked.err, looked.err
        assert ONE_SCRAPE not in " ".join(looked.out.split())
        rows = call("signals", url, "--for", "2s", "--interval", "1s", "-o", "json")
        assert any(row["signal"] == "generation_tokens_rate" for row in json.loads(rows.out)), rows.err
        refused(call("doctor", url, "--store", tmp_path / "kept.db"), 2, "mutually exclusive")
    assert "slow-replica" in call("doctor", store_of("slow-replica")).out
    assert call("signals", store_of("slow-replica"), "--health").code == 1


def test_one_saved_page_has_no_rates_and_that_is_said(tmp_path):
    saved = tmp_path / "vllm-0@1795000000.prom"
    saved.write_text(page())
    health = call("signals", "--health", saved, "-o", "json")
    rates = next(row for row in json.loads(health.out) if row["signal"] == "generation_tokens_rate")
    assert rates["enable"] == ONE_SCRAPE
    for command in ("doctor", "diagnose"):
        words = " ".join(call(command, saved).out.split())
        assert ONE_SCRAPE in words and "on the API server port" not in words and "of each engine" not in words


def test_a_prometheus_is_recognised_by_its_api():
    answer = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}})
    with answering({"/prom/api/v1/query?query=1": answer, "/metrics": page()}.get) as url:
        for text in (f"{url}/prom", f"{url}/prom/api/v1"):
            done = call("diagnose", text, "--since", "5m")
            assert done.code == 4 and f"{url}/prom" in done.err


def test_neither_a_path_nor_an_address(tmp_path):
    with answering({"/metrics": "<html>log in</html>"}.get) as url:
        refused(call("diagnose", url), 4, "it sent no metrics")
    refused(call("diagnose", "nowhere"), 2, "nowhere", "no such file or folder")
    refused(call("diagnose", tmp_path), 2, "no files in this folder")


def test_a_saved_file_that_is_no_page_is_named(tmp_path):
    notes = tmp_path / "notes.txt"
    notes.write_text("remember to restart vllm-0 tomorrow\n")
    refused(call("diagnose", tmp_path), 4, f"{notes}: no line is a metric", "no saved page")


def test_saved_pages_in_a_folder(tmp_path):
    for second in itertools.islice(itertools.count(0, 5), 4):
        (tmp_path / f"vllm-0@{1795000000 + second}.prom").write_text(page())
    done = call("diagnose", tmp_path, "-o", "json")
    document = json.loads(done.out)
    assert document["coverage"]["pods"] == 1, done.err
    assert [f["id"] for f in document["findings"]] == ["engine-hung"], "one page again and again: nothing moves"
    assert document["window"]["until"].startswith("2026-11-18T11:06:55")


def test_a_store_and_an_exposition_by_their_paths(store_of, tmp_path):
    by_path = json.loads(call("diagnose", store_of("slow-replica"), "--until", "latest", "-o", "json").out)
    assert [f["id"] for f in by_path["findings"]] == ["slow-gpu"]
    from tests.conftest import recording_path

    recorded = json.loads(call("diagnose", recording_path("slow-replica"), "-o", "json").out)
    assert [f["id"] for f in recorded["findings"]] == ["slow-gpu"]


def test_addresses_need_a_port_a_dot_or_a_scheme():
    with pytest.raises(InferdocError, match="no such file or folder"):
        from inferdoc.source.recognise import recognise

        recognise("prometheus", lambda target: (b"", "never asked"))


def test_a_sign_of_which_only_the_impact_is_left_is_no_sign() -> None:
    """Pages that are written slowly, together with slow tokens, tell of the host; where nobody knows how long they took
    before, slow tokens alone do not."""
    recipe = catalogue().recipes["cpu-starvation"]
    known = frozenset(name for one in (*recipe.symptoms, *recipe.harm) for name in one.signals)

    def asked(*unknown: str) -> set[str]:
        scrape_live = FirstLook(known - set(unknown), frozenset(), brief=False)
        kept = absolute({recipe.id: recipe}, scrape_live)[recipe.id]
        return {name for name in kept.symptoms[1].signals if name != "request_rate"}

    idle = "gpu_util", "generation_tokens_rate", "running_mean"
    assert asked(*idle) == {"cpu_throttled_share", "scrape_duration", "itl_mean"}
    assert asked("scrape_duration", *idle) == {"cpu_throttled_share"}


def test_absent_series_other_pods_and_half_of_a_symptom_vouch_for_nothing() -> None:
    """A full cache is a sign of preemptions. Reads of KV that nobody could see fill it as well, but of those nothing is
    left to ask where the past of the cache is unknown: that no transfers are shown, and that prompts arrive elsewhere,
    is no sign."""
    names = "kv-preemption-thrash", "kv-transfer-backlog"
    recipes = {name: catalogue().recipes[name] for name in names}
    known = frozenset(name for one in recipes.values() for cond in one.harm for name in cond.signals)
    found = absolute(recipes, FirstLook(known, frozenset(), brief=False))
    assert set(found) == set(names)
    # What waits with room in the cache and in the batch has levels of its own, and is whole.
    whole = {"waiting_capacity", "kv_usage", "running_plateau", "prompt_tokens_rate"}
    assert all(whole <= set(symptom.signals) for symptom in found["kv-transfer-backlog"].symptoms)
