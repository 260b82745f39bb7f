"""The link to host memory is that of the tier, for `size` and `kv` alike."""

from __future__ import annotations

import json

import pytest

from inferdoc.catalogue.load import load_catalogue
from tests.cli.command import call


def reload_gain(tier: str) -> dict:
    done = call(
        "size", "--model", "llama-3.1-8b", "--tier", tier, "--prompt-tokens", 1000, "--output-tokens", 200,
        "--prefix-share", 0.3, "--rate", 2, "-o", "json",
    )  # fmt: skip
    assert done.code == 0, done.err
    numbers = [each for part in json.loads(done.out)["parts"] for each in part["numbers"]]
    return next(each for each in numbers if each["name"] == "reload_gain")


@pytest.mark.parametrize(("tier", "gbps"), [("l40s", 25), ("h100-80", 50), ("gh200-96", 350)])
def test_reload_is_told_by_the_link_of_the_tier(tier, gbps):
    assert load_catalogue().tiers.host_rate(tier) == gbps * 1e9
    assert reload_gain(tier)["inputs"] == {"link of each GPU": f"{gbps} GB/s"}


def test_hardware_that_nobody_knows_has_a_cautious_link():
    tiers = load_catalogue().tiers
    assert tiers.host_rate("mine") == tiers.host_rate("unknown") == min(map(tiers.host_rate, tiers.tiers))
