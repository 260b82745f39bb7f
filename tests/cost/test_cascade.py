"""`inferdoc cost --cascade`: two models, a router between them or one after the other."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from inferdoc.cost.bill import cascade_summary
from inferdoc.cost.model import Amount, CascadeSummary
from inferdoc.errors import InferdocError
from inferdoc.report.cost import cascade_words
from tests.cli.command import alone, call, refused

__all__ = ["alone"]


def row(name: str, money: float | None):
    """A row of the bill of which only the price of a request matters."""
    return SimpleNamespace(name=name, figures=SimpleNamespace(request=Amount(0.01, money)))


def test_both_ways_are_the_worked_case():
    """70 % to a model of 0.11, the others to one of 1.11; or the small one first, and 30 % handed on."""
    told = cascade_summary([row("large", 1.11), row("middle", 0.5), row("small", 0.11)], 0.7)
    assert (told.small, told.large) == ("small", "large")
    assert told.routed == pytest.approx(0.41)
    assert told.handed_on == pytest.approx(0.443)


def test_it_is_told_by_the_thousand():
    words = cascade_words(CascadeSummary("s", "l", 0.7, 0.00011, 0.00111, 0.00041, 0.000443), "USD")
    assert words.startswith("a thousand requests: 0.11 USD on s, 1.11 USD on l; 0.41 USD if a router sent 70 %")


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0, float("nan")])
def test_a_share_that_is_none_is_one_line(share):
    with pytest.raises(InferdocError, match="above 0 and below 1"):
        cascade_summary([row("a", 1.0), row("b", 2.0)], share)


def test_one_priced_model_is_no_cascade():
    with pytest.raises(InferdocError, match="two models"):
        cascade_summary([row("a", 1.0), row("b", None)], 0.5)


def test_it_compares_models(wasteful):
    refused(call("cost", "--store", wasteful.store, "--until", "latest", "--cascade", "0.7"), 2, "--by model")
