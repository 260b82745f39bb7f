"""Pages and files of a simulated fleet are those of the real exporters, and can be read by everything that reads the
real ones."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from inferdoc.collect import parse
from inferdoc.simulate.fleet import SimulatedFleet
from inferdoc.simulate.output import Live, text_page, write_file, write_openmetrics, write_store
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scenario_files import adapted, load_scenario, read_scenario, scenarios
from inferdoc.simulate.scrape import FleetScraper, at_version, simulate
from inferdoc.simulate.stats import Item
from inferdoc.store import Store, import_file

PAGES = Path(__file__).parent.parent.parent / "fixtures" / "pages"
SMALL = """
id: small
title: two pods and a split pair
expect: {cause: null}
pools:
  - name: vllm
    pods: 2
    tier: h100-80
    flags: {loras: 2, draft: 2, accept: [0.8, 0.7], kv_metrics: true}
traffic:
  - {rate: 4, adapters: 2, prompt: {median: 300, max: 2000}, output: {median: 80, max: 300}}
duration: 3m
"""
SPLIT = """
id: split
title: prefill and decode
expect: {cause: null}
pools:
  - {name: vllm-prefill, pods: 1, role: prefill}
  - {name: vllm-decode, pods: 1, role: decode}
traffic:
  - {rate: 2, prompt: {median: 300, max: 2000}, output: {median: 80, max: 300}}
duration: 2m
"""


def small() -> Scenario:
    return read_scenario(SMALL, "small")


def items_of(scenario: Scenario, job: str, pod: str = "") -> list[Item]:
    fleet = SimulatedFleet(scenario)
    fleet.run(60.0)
    targets = FleetScraper(fleet).every_target()
    target = next(t for t in targets if t.scraped.labels["job"] == job and pod in t.scraped.labels.get("pod", ""))
    return list(target.items(60.0))


def shapes(text: bytes) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Type and label names of every vLLM series, buckets by family."""
    page = parse(text, "text/plain; version=0.0.4")
    found = {}
    for series in page.layout.series:
        if series.name.startswith(("vllm:", "http_")):
            names = tuple(n for n, _ in series.labels if n not in ("le", "position"))
            found[series.name] = (page.layout.type_of(series.name), names)
    return found


@pytest.mark.parametrize(
    ("real", "scenario", "pod", "besides"),
    [
        ("vllm-lora.txt", SMALL, "", {"vllm:spec_decode", "vllm:kv_block"}),
        ("vllm-spec-decode.txt", SMALL, "", {"vllm:lora", "vllm:kv_block"}),
        ("vllm-kv-cache-metrics.txt", SMALL, "", {"vllm:lora", "vllm:spec_decode"}),
        ("vllm-nixl-decode-backlog.txt", SPLIT, "decode", set()),
    ],
)
def test_names_types_and_labels_are_those_of_a_real_page(real: str, scenario: str, pod: str, besides: set[str]) -> None:
    expected = shapes((PAGES / real).read_bytes())
    made = shapes(text_page(items_of(read_scenario(scenario, "s"), "vllm", pod)).encode())
    assert {n for n in expected if n not in made} == set()
    assert {n for n in made if n not in expected and not n.startswith(tuple(besides) or ("-",))} == set()
    for name, shape in expected.items():
        assert made[name] == shape, name


def test_buckets_are_those_of_a_real_page() -> None:
    def bounds(text: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, bound in re.findall(r'^((?:vllm:|http_)\w+_bucket)\{.*?le="([^"]+)"', text, re.MULTILINE):
            found.setdefault(name, [])
            if bound not in found[name]:
                found[name].append(bound)
        return found

    scenario = adapted(read_scenario(SMALL.replace("loras: 2", "max_len: 4096, loras: 2"), "s"))
    made = bounds(text_page(items_of(scenario, "vllm")))
    for page in ("vllm-plain.txt", "vllm-kv-cache-metrics.txt"):
        for name, listed in bounds((PAGES / page).read_text("utf-8")).items():
            assert made[name] == listed, name
    split = bounds(text_page(items_of(read_scenario(SPLIT, "s"), "vllm", "decode")))
    for name, listed in bounds((PAGES / "vllm-nixl-decode-backlog.txt").read_text("utf-8")).items():
        if "nixl" in name:
            assert split[name] == listed, name


def test_the_catalogue_knows_every_series() -> None:
    from inferdoc.catalogue.load import load_catalogue

    known = {name for exporter in load_catalogue().exporters.values() for name in exporter.metrics}
    for scenario in (SMALL, SPLIT):
        parsed = read_scenario(scenario, "s")
        fleet = SimulatedFleet(parsed)
        fleet.run(60.0)
        for target in FleetScraper(fleet).every_target():
            for item in target.items(60.0):
                assert item.name in known or item.name.startswith(("http_re", "process_", "python_")), item.name


def test_a_file_and_a_store_hold_the_same(tmp_path: Path) -> None:
    targets = simulate(small())
    path = tmp_path / "fleet.om.gz"
    samples = write_file(targets, path)
    with Store.open(tmp_path / "a.db", "w") as direct, Store.open(tmp_path / "b.db", "w") as imported:
        assert write_store(targets, direct) == samples
        done = import_file(imported, path)
        assert done.samples == samples and not done.problems
        assert sorted(map(str, direct.targets())) == sorted(map(str, imported.targets()))
        assert direct.latest_ms() == imported.latest_ms() if hasattr(direct, "latest_ms") else True


def test_the_same_seed_gives_the_same_file() -> None:
    texts = []
    for seed in (3, 3, 4):
        stream = io.StringIO()
        write_openmetrics(simulate(adapted(small(), seed=seed, duration="1m")), stream)
        texts.append(stream.getvalue())
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.live
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on the PATH")
def test_promtool_reads_the_file(tmp_path: Path) -> None:
    path = tmp_path / "fleet.om"
    write_file(simulate(small()), path)
    ran = subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(path), str(tmp_path / "data")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert list((tmp_path / "data").iterdir())


def test_older_versions_show_older_names() -> None:
    items = items_of(small(), "vllm")
    old = {i.name for i in at_version(items, "0.11")}
    assert {"vllm:time_per_output_token_seconds", "vllm:inter_token_latency_seconds", "vllm:kv_cache_usage_perc"} <= old
    assert not old & {
        "vllm:num_requests_waiting_by_reason",
        "vllm:prompt_tokens_by_source_total",
        "vllm:request_num_preemptions",
    }
    middle = {i.name for i in at_version(items, "0.15")}
    assert "vllm:request_prefill_kv_computed_tokens" in middle and "vllm:time_per_output_token_seconds" not in middle
    assert list(at_version(items, "0.32")) == items


def test_live_pages_answer_on_loopback_and_move() -> None:
    live = Live(small(), 18720, 200.0)
    live.start()
    try:
        live.step()
        first = urllib.request.urlopen("http://127.0.0.1:18720/metrics", timeout=5).read()
        page = parse(first, "text/plain; version=0.0.4")
        assert any(s.name == "vllm:num_requests_running" for s in page.layout.series)
        before = live.fleet.now
        while live.step() < before + 20:
            pass
        second = urllib.request.urlopen("http://127.0.0.1:18720/metrics", timeout=5).read()
        assert second != first
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen("http://127.0.0.1:18720/nothing", timeout=5)
    finally:
        live.stop()


def test_every_cause_has_a_scenario_and_every_scenario_can_be_read() -> None:
    from inferdoc.catalogue.load import load_catalogue

    listed = {s.id: s for s in scenarios()}
    assert set(load_catalogue().recipes) <= set(listed)
    assert any(i.startswith("control-") for i in listed)
    for name, scenario in listed.items():
        assert (scenario.expect.cause is None) == name.startswith("control-")
        SimulatedFleet(scenario)


def test_mistakes_in_a_scenario_are_one_clear_line() -> None:
    from inferdoc.errors import InferdocError

    for text, printed in (
        ("id: [", "not YAML"),
        (SMALL.replace("rate: 4", "rat: 4"), "rat"),
        (SMALL.replace("duration: 3m", "duration: soon"), "not a duration"),
        ("nothing", "Expected"),
    ):
        with pytest.raises(InferdocError, match=re.escape(printed)) as caught:
            read_scenario(text, "mine.yaml")
        assert "\n" not in str(caught.value)
    with pytest.raises(InferdocError, match="no tier 'b900'"):
        SimulatedFleet(read_scenario(SMALL.replace("h100-80", "b900"), "s"))
    with pytest.raises(InferdocError, match="no scenario 'nope'"):
        load_scenario("nope")


def test_the_command_writes_lists_and_complains(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from inferdoc.cli.simulate import simulate as command

    path = tmp_path / "s.yaml"
    path.write_text(SMALL, "utf-8")
    ran = CliRunner().invoke(
        command, ["--scenario", str(path), "--pods", "1", "--duration", "45s", "--out", str(tmp_path / "o.om")]
    )
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "o.om").read_text("utf-8").endswith("# EOF\n")
    listed = CliRunner().invoke(command, ["--list"])
    assert "engine-hung" in listed.output
    assert CliRunner().invoke(command, []).exception is not None


@pytest.mark.parametrize("name", ["engine-hung", "kv-transport-degraded", "spec-acceptance-decay", "control-pd"])
def test_the_diagnosis_of_a_scenario_is_its_label(name: str, tmp_path: Path) -> None:
    from inferdoc import diagnose, open_source

    scenario = load_scenario(name)
    with Store.open(tmp_path / "fleet.db", "w") as store:
        write_store(simulate(scenario), store)
    answer = json.loads(diagnose(open_source(store=tmp_path / "fleet.db"), since="1h").to_json())
    found = [finding["id"] for finding in answer["findings"]]
    assert found[:1] == ([scenario.expect.cause] if scenario.expect.cause else [])
