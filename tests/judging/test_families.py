"""Where no cause is complete, the mechanism that shows is the finding, with its causes as candidates."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc import diagnose, open_source
from inferdoc.catalogue.load import load_catalogue
from inferdoc.judging.session import Options
from tests.judging.made import ONSET, SCRAPES, Engine, recorded, stored, then

NAN = float("nan")
LATE = {"ttft": then(0.15, 3), "queue": then(0.02, 2.5)}
MISSES = {"hit": then(0.74, 0.45), "ttft": then(0.15, 0.5), "prefill": then(0.1, 0.45)}


def findings(tmp_path, made, disabled=()):
    options = Options(catalogue=load_catalogue(disabled=disabled))
    return diagnose(open_source(store=stored(made.text(), tmp_path)), since="6m", options=options).findings


def test_every_cause_belongs_to_a_family_and_names_it(tmp_path):
    catalogue = load_catalogue()
    without = {recipe.id for recipe in catalogue.recipes.values() if recipe.family is None}
    assert without == {"unexplained-anomaly"}
    (found,) = findings(tmp_path, recorded(Engine("a", **MISSES)))
    assert (found.id, found.family, found.members) == ("prefix-unstable-prompt", "prefix-reuse", [])


def but(family, *missing):
    """The causes to leave out, so that those of a family but for the missing ones are all that is known."""
    recipes = load_catalogue().recipes.values()
    return tuple(one.id for one in recipes if one.family and (one.family != family or one.id in missing))


@pytest.mark.parametrize(
    ("levels", "disabled", "family"),
    [
        (MISSES, but("prefix-reuse", "prefix-unstable-prompt"), "prefix-reuse"),
        (LATE, but("scheduling", "fcfs-head-of-line", "batch-cap-reached"), "scheduling"),
        ({**LATE, "prompt": then(400, 900)}, but("demand", "demand-beyond-capacity", "prompt-growth"), "demand"),
        ({"itl": then(0.02, 0.08)}, but("gpu", "slow-gpu"), None),
        (
            {"kv": then(0.4, 0.99), "waiting": then(0, 1), **LATE},
            but("kv-space", "kv-oversized-request", "kv-capacity-bound"),
            "kv-space",
        ),
    ],
)
def test_the_first_mechanism_that_shows_is_the_finding(tmp_path, levels, disabled, family):
    (found, *_) = findings(tmp_path, recorded(Engine("a", **levels), Engine("b")), disabled)
    assert (found.id, found.family) == (family or "unexplained-anomaly", family)
    declared = load_catalogue().families
    if family is None:
        assert found.members == []
        return
    assert found.title == declared[family].title and found.runbook == family and found.next_steps
    assert found.evidence and any(item.role == "symptom" for item in found.evidence)
    members = {one.id: one.probability for one in found.members}
    assert members.keys() <= {recipe.id for recipe in load_catalogue().recipes.values() if recipe.family == family}
    assert sum(members.values()) <= found.probability + 0.005


@pytest.mark.parametrize(("responds", "family"), [(True, "prefix-reuse"), (False, "kv-transfer")])
def test_a_store_of_kv_that_delivers_nothing_is_named_with_or_without_its_pings(tmp_path, responds, family):
    engine = Engine("a", ttft=then(0.15, 0.6), prefill=then(0.1, 0.55))
    made = recorded(engine)
    own = {**engine.target(), "model_name": "qwen", "engine": "0"}
    steps = np.arange(SCRAPES)
    held = np.minimum(steps, ONSET)
    for name, values in (("queries", 1000.0 * steps), ("hits", 600.0 * held)):
        made.put(f"vllm:external_prefix_cache_{name}", "counter", own, values, "_total")
    if not responds:
        made.put("lmcache:remote_ping_successes", "counter", own, held, "_total")
        made.put("lmcache:remote_ping_errors", "counter", own, steps - held, "_total")
    (found,) = findings(tmp_path, made, but(""))
    assert (found.id, found.family) == (family, family)


@pytest.mark.parametrize("changed", [True, False])
def test_a_release_shortly_before_is_a_candidate(tmp_path, changed):
    engine = Engine("a", **MISSES)
    made = recorded(engine)
    made.put("python_info", "gauge", {**engine.target(), "version": "3.11.9"}, then(1, NAN, 30) if changed else 1)
    made.put("python_info", "gauge", {**engine.target(), "version": "3.12.4"}, then(NAN, 1, 30) if changed else NAN)
    (found, *_) = findings(tmp_path, made, ("config-regression",))
    rivals = {one.id: one for one in found.differential}
    assert ("configuration-or-release" in rivals) == changed
    assert found.probability + sum(one.probability for one in found.differential) <= 1.005
    if changed:
        assert "3.12.4" in rivals["configuration-or-release"].speaks_for[0]


@pytest.mark.parametrize("scrapes", [12, 32])
def test_a_mechanism_covers_half_of_the_impact(tmp_path, scrapes):
    missed = np.where((np.arange(SCRAPES) >= ONSET) & (np.arange(SCRAPES) < ONSET + scrapes), 0.3, 0.74)
    made = recorded(Engine("a", hit=missed, ttft=then(0.15, 1.5), prefill=then(0.1, 1.45)), Engine("b"))
    (found, *_) = findings(tmp_path, made, but("prefix-reuse", *load_catalogue().recipes))
    assert (found.id == "prefix-reuse") is (scrapes == 32)
