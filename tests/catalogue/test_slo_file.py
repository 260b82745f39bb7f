"""Objectives are declared once, in YAML or in TOML; what cannot be judged is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.slo import limits
from inferdoc.config import load_config
from inferdoc.config_sections import SloSection
from inferdoc.errors import CatalogueError, ConfigError
from inferdoc.fleet.members import Pool

TTFT = {"id": "ttft", "signal": "ttft", "percentile": 99, "target": 2.5}


def pool(model: str, role: str) -> Pool:
    """A pool of a source whose labels tell no place."""
    return Pool("", "", model, role, "l4")


def declared(tmp_path: Path, *entries: dict[str, Any], own: str = "") -> Catalogue:
    """A catalogue with a user's slo.yaml and inferdoc.toml."""
    overlay = tmp_path / "mine"
    (overlay / "alerts").mkdir(parents=True, exist_ok=True)
    (overlay / "alerts" / "slo.yaml").write_text(yaml.safe_dump({"slos": list(entries)}), "utf-8")
    file = tmp_path / "inferdoc.toml"
    file.write_text(own, "utf-8")
    sections = load_config(file).slo
    return Catalogue((overlay,), (), tuple((f"{file}: slo[{n}]", section) for n, section in enumerate(sections)))


def test_both_forms_make_the_same_object(tmp_path):
    toml = '[[slo]]\nid = "ttft"\nsignal = "ttft"\npercentile = 99\ntarget = 2.5\n'
    (from_yaml,) = declared(tmp_path, TTFT).slos
    (from_toml,) = declared(tmp_path, own=toml).slos
    assert "slo.yaml:2: slos[0]" in from_yaml.where and "inferdoc.toml: slo[0]" in from_toml.where
    assert {**vars(from_yaml), "where": ""} == {**vars(from_toml), "where": ""}
    assert (from_yaml.signal, from_yaml.good, from_yaml.window) == ("ttft_p99", 0.99, "30d")


def test_limits_are_several_objectives(tmp_path):
    slos = declared(
        tmp_path, own='[[slo]]\nmodel = "m"\nlimits = {ttft_p99 = 2.0, error_share = 0.01, running = 50}\n'
    ).slos
    assert [(slo.id, slo.kind, slo.good) for slo in slos] == [
        ("ttft-p99-m", "latency", 0.99),
        ("error-share-m", "share", 0.99),
        ("running-m", "level", None),
    ]
    assert limits(slos, pool("m", "both")) == {"ttft_p99": 2.0, "error_share": 0.01, "running": 50}
    assert limits(slos, pool("other", "both")) == {}


def test_a_percentile_that_no_collector_declares_is_a_signal(tmp_path):
    catalogue = declared(tmp_path, {**TTFT, "percentile": 99.9})
    signal = catalogue.signals["ttft_p999"]
    assert signal.readings[0].q == 0.999 and signal.title == "Time to first token, p999"
    assert catalogue.slos[0].good == 0.999


def test_the_former_form_is_read_as_before(tmp_path):
    former = {
        "id": "itl",
        "title": "x",
        "objective": 0.99,
        "latency": {"histogram": "vllm:inter_token_latency_seconds", "within": 0.1},
    }
    counter = {"counter": "vllm:request_success_total", "bad": {"finished_reason": "error"}}
    errors = {"id": "errors", "title": "x", "objective": 0.995, "errors": counter}
    latency, share = declared(tmp_path, former, errors).slos
    assert (latency.signal, latency.target, latency.good) == ("itl_p99", 0.1, 0.99)
    assert (share.signal, share.target, share.good) == ("error_share", 0.005, 0.995)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"signal": "ttfd"}, r'no signal is called "ttfd" \(did you mean "ttft"'),
        ({"signal": "error_share"}, "error_share has no histogram, so no percentile of it is known"),
        ({"percentile": None}, "percentile: missing; ttft is a histogram"),
        ({"signal": "ttft_p95"}, "ttft_p95 says another one than 99"),
        ({"percentile": 100}, "percentile: 100 is not above 0 and below 100"),
        ({"target": -1}, "target: -1 is not above 0"),
        ({"target": None}, "target: missing"),
        ({"tier": "h100"}, r'tier: no tier is called "h100" \(did you mean "h100-80"'),
        ({"role": "decoder"}, "slos\\[0\\].role: invalid enum value"),
        ({"window": "a month"}, "window `a month` is not a duration"),
        ({"signal": "error_share", "percentile": None, "target": 5}, "a share of bad events: a number below 1, got 5"),
        ({"signal": "router_ttft", "tier": "l4"}, "router_ttft_p99 is counted above the pods"),
        ({"tenant": {"a b": "c"}}, "'a b' is not a label name"),
        ({"id": "First tokens"}, "'First tokens' is not in lower case"),
        ({"limits": {"itl_p99": 1}}, "exactly one of limits, signal"),
        ({"objektive": 0.9}, r"slos\[0\]\.objektive: unknown key"),
        ({"objective": 99, "signal": None}, "a share between 0 and 1 is expected, got 99"),
        ({"objective": 0.9, "signal": None}, "exactly one of latency, errors is needed"),
    ],
)
def test_what_cannot_be_judged_is_refused(tmp_path, changes, words):
    entry = {key: value for key, value in {**TTFT, **changes}.items() if value is not None}
    with pytest.raises(CatalogueError, match=words) as caught:
        _ = declared(tmp_path, entry).slos
    assert "slo.yaml:" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[slo]]\nsignal = "ttft"\npercentile = 99\n', "target: missing"),
        ("[[slo]]\nlimits = {ttft_p99 = 1.0}\ntarget = 2.0\n", "limits: goes without id, title, percentile and target"),
        ('[[slo]]\nmodel = "m"\n', "exactly one of limits, signal"),
    ],
)
def test_a_section_that_says_too_little_or_too_much(tmp_path, text, words):
    with pytest.raises(ConfigError, match=words):
        declared(tmp_path, own=text)


def test_two_promises_that_contradict_each_other_are_named_both(tmp_path):
    toml = "[[slo]]\nlimits = {ttft_p99 = 1.0}\n"
    with pytest.raises(
        CatalogueError, match=r"inferdoc.toml: slo\[0\]: ttft_p99 for every pool is at most 1 .*slo\.yaml:2"
    ):
        _ = declared(tmp_path, TTFT, own=toml).slos
    same = "[[slo]]\nlimits = {ttft_p99 = 2.5}\n"
    assert [slo.id for slo in declared(tmp_path, TTFT, own=same).slos] == ["ttft"]


def test_two_objectives_of_one_name_are_refused(tmp_path):
    with pytest.raises(CatalogueError, match=r'slos\[1\]: an objective in .*slos\[0\] is called "ttft" too'):
        _ = declared(tmp_path, TTFT, {**TTFT, "model": "m"}).slos


def test_a_promise_replaces_the_starting_point(tmp_path):
    """Also where it is about another percentile, but not where it is about one model alone."""
    start = {**TTFT, "promised": False}
    own = '[[slo]]\nsignal = "ttft"\npercentile = 95\ntarget = 1.0\n'
    assert [slo.signal for slo in declared(tmp_path, start, own=own).slos] == ["ttft_p95"]
    of_one = declared(tmp_path, start, own=f'{own}model = "m"\n').slos
    assert [slo.signal for slo in of_one] == ["ttft_p99", "ttft_p95"]
    same_name = declared(tmp_path, start, own=f'{own}id = "ttft"\nmodel = "m"\n').slos
    assert [slo.id for slo in same_name] == ["ttft-start", "ttft"]
    assert limits(of_one, pool("m", "both")) == {"ttft_p95": 1.0}


def test_what_names_more_of_a_pool_wins(tmp_path):
    slos = declared(
        tmp_path,
        {**TTFT, "id": "all", "target": 9},
        {**TTFT, "id": "m", "model": "m", "target": 2},
        {**TTFT, "id": "prefill", "model": "m", "role": "prefill", "target": 1},
        {**TTFT, "id": "gold", "tenant": {"customer": "gold"}, "target": 0.1},
    ).slos
    assert limits(slos, pool("other", "both")) == {"ttft_p99": 9}
    assert limits(slos, pool("m", "decode")) == {"ttft_p99": 2}
    assert limits(slos, pool("m", "prefill")) == {"ttft_p99": 1}


def test_a_place_has_its_own(tmp_path):
    slos = declared(
        tmp_path,
        {**TTFT, "id": "all", "target": 9},
        {**TTFT, "id": "eu", "cluster": "eu", "target": 3},
        {**TTFT, "id": "chat", "cluster": "eu", "namespace": "chat", "target": 2},
        own='[[slo]]\nsignal = "ttft"\npercentile = 99\ntarget = 1.0\nnamespace = "batch"\nmodel = "m"\n',
    ).slos
    where = {"": 9, "eu/": 3, "eu/chat": 2, "us/chat": 9, "us/batch": 1, "/batch": 1}
    for place, target in where.items():
        cluster, _, namespace = place.partition("/")
        assert limits(slos, Pool(cluster, namespace, "m", "both", "l4")) == {"ttft_p99": target}, place
    assert [slo.scope.text for slo in slos[1:]] == [
        "cluster eu",
        "cluster eu, namespace chat",
        "namespace batch, model m",
    ]
    assert slos[-1].id == "ttft-p99-batch-m"


def test_a_section_can_be_a_key():
    assert (
        len({SloSection({"ttft_p99": 1.0}, tenant={"a": "b"}), SloSection({"ttft_p99": 1.0}, tenant={"a": "b"})}) == 1
    )
