"""Targets from flags, configuration and file_sd files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from inferdoc.collect.discovery import (
    Discovery,
    FileDiscovery,
    Target,
    TargetDocument,
    make_target,
    target_from_flag,
    targets_from_config,
    targets_from_file_sd,
)
from inferdoc.errors import ConfigError


@pytest.mark.parametrize(
    ("address", "url", "instance"),
    [
        ("10.0.0.7:8000", "http://10.0.0.7:8000/metrics", "10.0.0.7:8000"),
        ("http://vllm:8000", "http://vllm:8000/metrics", "vllm:8000"),
        ("https://vllm/", "https://vllm/metrics", "vllm"),
        ("http://vllm:8000/custom/path", "http://vllm:8000/custom/path", "vllm:8000"),
        ("http://vllm:8000/m?format=prometheus#x", "http://vllm:8000/m?format=prometheus", "vllm:8000"),
        ("http://[::1]:8000", "http://[::1]:8000/metrics", "[::1]:8000"),
        ("  localhost:9400 ", "http://localhost:9400/metrics", "localhost:9400"),
    ],
)
def test_addresses(address: str, url: str, instance: str) -> None:
    assert make_target(address) == Target(url, {"job": "inferdoc", "instance": instance})


def test_labels_override_and_empty_ones_are_dropped() -> None:
    target = make_target("h:1", {"job": "vllm", "instance": "a", "pod": "p", "node": ""})
    assert target.labels == {"job": "vllm", "instance": "a", "pod": "p"}


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("ftp://h/", "is not a URL such as"),
        ("http://", "is not a URL such as"),
        ("", "is not a URL such as"),
        ("h:port", "the port is not a number"),
        ("http://me:s3cret@h:8000", "target h:8000: credentials do not belong in the URL"),
        ("http://me:s3cret@h:x", "the port is not a number"),
    ],
)
def test_bad_addresses(address: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_target(address)
    assert reason in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_flags_may_carry_labels() -> None:
    target = target_from_flag("http://10.0.0.7:8000,pod=vllm-0, role=decode")
    assert target.labels == {"job": "inferdoc", "instance": "10.0.0.7:8000", "pod": "vllm-0", "role": "decode"}
    with pytest.raises(ConfigError, match="target h:1: expected name=value, number 1 is not"):
        target_from_flag("h:1,pod")
    with pytest.raises(ConfigError, match="'po-d' is not a label name"):
        target_from_flag("h:1,po-d=1")


def test_configuration() -> None:
    targets = targets_from_config(
        [
            {"url": "http://a:1", "labels": {"pod": "a"}, "job": "vllm"},
            {"targets": ["b:1", "c:1"], "labels": {"role": "prefill"}},
        ]
    )
    assert [target.url for target in targets] == ["http://a:1/metrics", "http://b:1/metrics", "http://c:1/metrics"]
    assert targets[0].labels == {"job": "vllm", "instance": "a:1", "pod": "a"}
    assert targets[2].labels["role"] == "prefill"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"url": 5}, "targets[0].url: expected text, found int"),
        ({"uri": "x"}, "targets[0]: unknown key 'uri'; known are job, labels, targets, url"),
        ({}, "targets[0]: expected url or targets"),
        ({"url": "a:1", "labels": {"x": 1}}, "targets[0].labels.x: expected text, found int"),
        ({"targets": "a:1"}, "targets[0].targets: expected a list of addresses, found str"),
        ("a:1", "targets[0]: expected a table with url or targets, found str"),
    ],
)
def test_bad_configuration_names_the_place(entry: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        targets_from_config([entry])
    assert str(caught.value) == reason


def test_file_sd_groups() -> None:
    labels = {"job": "dcgm", "__scheme__": "https", "__metrics_path__": "m", "__param_x": "1 2", "__meta_a": "b"}
    (target,) = targets_from_file_sd([{"targets": ["h:9400"], "labels": labels}], "f").targets
    assert target == Target("https://h:9400/m?x=1+2", {"job": "dcgm", "instance": "h:9400"})
    assert targets_from_file_sd([], "f") == TargetDocument([], [])
    for document, reason in [
        ({}, "f: expected a list of target groups, found dict"),
        ([5], "f: [0]: expected a target group, found int"),
        ([{"targets": ["http://h/x"]}], "f: [0].targets: expected host:port"),
    ]:
        with pytest.raises(ConfigError) as caught:
            targets_from_file_sd(document, "f")
        assert reason in str(caught.value)


BAD = [
    ("{targets: [http://h/x]}", "[1].targets: expected host:port"),
    ("{targets: [5]}", "[1].targets[0]: expected text, found int"),
    ("{targets: ['h:port']}", "[1].targets: target h:port: the port is not a number"),
    ("{targets: ['u:p@h:1']}", "[1].targets: target h:1: credentials do not belong in the URL"),
    ("{targets: [b:1], labels: {1: x}}", "[1].labels: expected text, found int"),
    ("{targets: [b:1], labels: {bad-name: x}}", "'bad-name' is not a label name"),
    ("{targets: b:1}", "[1].targets: expected a list of addresses, found str"),
    ("7", "[1]: expected a target group, found int"),
]


@pytest.mark.parametrize(("group", "reason"), BAD)
def test_a_bad_target_does_not_take_the_good_ones_along(tmp_path: Path, group: str, reason: str) -> None:
    path = tmp_path / "sd.yaml"
    path.write_text(f"- targets: [a:1]\n- {group}\n- targets: [c:1, d:1]\n  labels: {{pod: x}}\n")
    discovery = FileDiscovery(path)
    assert [target.labels["instance"] for target in discovery.targets()] == ["a:1", "c:1", "d:1"]
    (problem,) = discovery.problems
    assert reason in problem and problem.endswith("; left out, the other 3 targets are scraped")
    path.write_text("- targets: [a:1]\n")
    assert len(discovery.targets()) == 1 and discovery.problems == []


def test_a_bad_target_among_good_ones_of_its_group(tmp_path: Path) -> None:
    path = tmp_path / "sd.yaml"
    path.write_text("- targets: ['a:1', 'b:x', 'c:1', 'd:y']\n")
    discovery = FileDiscovery(path)
    assert [target.labels["instance"] for target in discovery.targets()] == ["a:1", "c:1"]
    assert "(and 1 more); left out, the other 2 targets are scraped" in discovery.problems[0]


def write(path: Path, text: str, moment: int) -> None:
    path.write_text(text)
    os.utime(path, ns=(moment, moment))


def test_file_sd_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "targets.json"
    discovery = FileDiscovery(path)
    assert discovery.targets() == []
    assert discovery.problems == [f"{path}: no such file"]
    write(path, json.dumps([{"targets": ["a:1"], "labels": {"pod": "a"}}]), 1)
    assert [target.labels["pod"] for target in discovery.targets()] == ["a"]
    assert discovery.problems == []
    write(path, "- targets: [b:1, c:1]\n", 2)
    assert [target.labels["instance"] for target in discovery.targets()] == ["b:1", "c:1"]
    write(path, '[{"targets": ["b:1"', 3)
    assert len(discovery.targets()) == 2
    (problem,) = discovery.problems
    assert problem.startswith(f"{path}, line 1: neither JSON nor YAML")
    assert problem.endswith("its last 2 good targets stay")
    assert "\n" not in problem
    path.unlink()
    assert discovery.targets() == []


def test_file_sd_wildcards(tmp_path: Path) -> None:
    discovery = FileDiscovery(tmp_path / "*.yaml")
    assert discovery.targets() == []
    assert discovery.problems == []
    for name in ("b", "a"):
        (tmp_path / f"{name}.yaml").write_text(f"- targets: [{name}:1]\n")
    (tmp_path / "bad.yaml").write_bytes(b"\xff")
    assert [target.url for target in discovery.targets()] == ["http://a:1/metrics", "http://b:1/metrics"]
    assert discovery.problems == [f"{tmp_path / 'bad.yaml'}: not UTF-8"]
    (tmp_path / "a.yaml").unlink()
    (tmp_path / "bad.yaml").unlink()
    assert [target.url for target in discovery.targets()] == ["http://b:1/metrics"]
    assert discovery.problems == []


def test_all_sources_together_name_every_target_once(tmp_path: Path) -> None:
    path = tmp_path / "sd.yaml"
    path.write_text("- targets: [a:1, b:1]\n")
    discovery = Discovery([make_target("a:1"), make_target("a:1"), make_target("a:1", {"pod": "x"})], [path])
    assert [target.url for target in discovery.targets()] == [
        "http://a:1/metrics",
        "http://a:1/metrics",
        "http://b:1/metrics",
    ]
    assert discovery.problems == []
