"""Each target has one collector; what is judged together has the same."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from inferdoc.collect.discovery import Discovery, make_target
from inferdoc.collect.targets import Shard, Sharded
from inferdoc.errors import ConfigError

TARGETS = [
    make_target(f"10.0.{pool}.{pod}:8000", {"namespace": f"team-{pool}", "pod": f"vllm-{pod}"})
    for pool in range(200)
    for pod in range(5)
]
HOSTS = [make_target(f"10.1.{n // 200}.{n % 200}:{port}") for n in range(600) for port in (8000, 9400)]


def shares(targets, of):
    return [Sharded(Discovery(targets), Shard(number, of)).targets() for number in range(1, of + 1)]


@pytest.mark.parametrize("targets", [TARGETS, HOSTS], ids=["namespaces", "hosts"])
@pytest.mark.parametrize("of", [1, 2, 4, 7])
def test_every_target_is_in_one_share_and_shares_are_alike(targets, of):
    parts = shares(targets, of)
    assert Counter(target.url for part in parts for target in part) == Counter(target.url for target in targets)
    assert all(0.6 * len(targets) / of < len(part) < 1.4 * len(targets) / of for part in parts)


def test_a_namespace_and_a_host_stay_together():
    of_namespace = [{target.labels["namespace"] for target in part} for part in shares(TARGETS, 4)]
    of_host = [{target.labels["instance"].split(":")[0] for target in part} for part in shares(HOSTS, 4)]
    for parts in (of_namespace, of_host):
        assert sum(map(len, parts)) == len(set().union(*parts))


def test_the_share_of_a_target_is_the_same_in_every_process_and_release():
    one = make_target("10.0.0.7:8000", {"namespace": "prod", "cluster": "eu"})
    assert [Shard(number, 4).has(one) for number in (1, 2, 3, 4)] == [False, True, False, False]


@pytest.mark.parametrize("text", ["", "0/4", "5/4", "1/0", "2", "a/b", "1/2/3", "-1/2"])
def test_what_is_no_share_is_one_line(text):
    with pytest.raises(ConfigError, match=re.escape(f"--shard {text}: expected which of how many, such as 2/4")):
        Shard.from_flag(text)
    assert Shard.from_flag("2/4") == Shard(2, 4)
