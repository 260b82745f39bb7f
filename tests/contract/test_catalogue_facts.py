"""Each recipe against what the catalogue of failure modes asks of its cause: what must tell, what supports, rivals.

`catalogue_facts.yaml` holds these as facts, and a reason wherever a recipe departs. A reason that is no longer needed
is an error as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from inferdoc.catalogue.load import load_catalogue

FACTS = yaml.safe_load((Path(__file__).parent / "catalogue_facts.yaml").read_text("utf-8"))
CATALOGUE = load_catalogue()
SHIPPED = sorted(CATALOGUE.recipes)


def read_by(*groups) -> set[str]:
    """Signals that some conditions of a recipe read."""
    return {name for conditions in groups for condition in conditions for name in condition.signals}


def signals(metrics: str) -> set[str]:
    """Signals that read one of the metrics of `A|B`."""
    return {name for metric in metrics.split("|") for name in FACTS["metrics"][metric]}


def departures(cause: str) -> Iterator[str]:
    """Where a recipe does otherwise than the catalogue."""
    recipe, facts = CATALOGUE.recipes[cause], FACTS["causes"][cause]
    decides = read_by(recipe.symptoms, recipe.harm, recipe.unless, recipe.proof)
    yield from (must for must in facts.get("must", ()) if not signals(must) & decides)
    supports = facts.get("support", [])
    if supports and not signals("|".join(supports)) & (decides | read_by(recipe.support)):
        yield "|".join(supports)
    yield from (rival for rival in facts.get("rivals", ()) if rival not in (*recipe.look_alikes, *recipe.effects))


def test_every_cause_has_its_facts_and_every_metric_a_signal():
    assert sorted(FACTS["causes"]) == SHIPPED
    named = {name for names in FACTS["metrics"].values() for name in names}
    assert named <= CATALOGUE.signals.keys()


@pytest.mark.parametrize("cause", SHIPPED)
def test_a_recipe_departs_from_the_catalogue_only_with_a_reason(cause):
    reasons = FACTS["causes"][cause].get("departs", {})
    assert sorted(departures(cause)) == sorted(reasons)
    assert all(len(reason) > 10 for reason in reasons.values())


def test_a_recipe_that_loses_what_must_tell_is_noticed(monkeypatch):
    """The test can fail: without its preemptions the thrash departs."""
    from msgspec import structs

    whole = CATALOGUE.recipes["kv-preemption-thrash"]
    without = tuple(c for c in whole.symptoms if "preempt_fraction" not in c.signals)
    harm = tuple(c for c in whole.harm if "preempt_fraction" not in c.signals)
    monkeypatch.setitem(CATALOGUE.recipes, whole.id, structs.replace(whole, symptoms=without, harm=harm))
    assert "PRE" in set(departures(whole.id))
