"""Which signals are called unusual when users are hurt and no recipe fits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from inferdoc.judging.anomaly import LEAST_MOVED, MOST_NAMED, Measured, _has_moved, _some, unusual
from inferdoc.judging.distances import Episode, Track
from inferdoc.judging.judge import judge
from tests.judging.frames import CALM, N, catalogue, declared, recipe, scene, step, unit_of, when, wobble

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings"
HURT = recipe(
    "unexplained-anomaly",
    symptoms=[when("itl_mean", rises=1.5)],
    harm=[when("itl_mean", rises=1.5)],
    kind="unexplained",
)
QUIET = wobble(np.full(N, 10.0), seed=5)
PODS = ("p0", "p1", "p2")


def ranked(rows, signals=()):
    """The unusual signals of the one cause that holds, with the outcomes."""
    known = {name: declared(name) for name in signals}
    context = scene(rows, signals=known)
    (root,) = judge(context, {HURT.id: HURT}).roots
    return unusual(context, root)


def slow(*pods):
    """Tokens come at half the pace on some pods."""
    return {pod: wobble(step(0.02, 0.05) if pod in pods else np.full(N, 0.02), seed=i) for i, pod in enumerate(PODS)}


def test_the_mechanism_comes_before_the_harm_and_what_is_calm_is_not_named():
    rows = {
        "itl_mean": slow("p0"),
        "speed": {p: wobble(step(100, 50) if p == "p0" else np.full(N, 100.0), seed=7 + i) for i, p in enumerate(PODS)},
        "load": dict.fromkeys(PODS, QUIET),
    }
    first, *rest = ranked(rows)
    assert first.signal == "speed" and first.holds and first.entity == "p0"
    assert first.baseline == pytest.approx(100, rel=0.05) and first.observed == pytest.approx(50, rel=0.05)
    assert abs(first.first - CALM) <= 1
    assert "fell from" in first.text and "sigmas" in first.text
    assert [o.signal for o in rest] == ["itl_mean"], "harm is named last, the calm load not at all"


def test_what_like_pods_do_as_well_does_not_count():
    rows = {
        "itl_mean": slow("p0"),
        "speed": {p: wobble(step(100, 50), seed=7 + i) for i, p in enumerate(PODS)},
        "queue": {p: wobble(step(10, 14) if p == "p0" else np.full(N, 10.0), seed=17 + i) for i, p in enumerate(PODS)},
    }
    assert ranked(rows)[0].signal == "queue"


def test_of_several_gpus_the_one_that_moved_is_named():
    rows = {
        "itl_mean": slow("p0"),
        "heat": {
            f"{p}#{g}": wobble(step(60, 90) if (p, g) == ("p0", 2) else np.full(N, 60.0), seed=g)
            for p in PODS
            for g in range(4)
        },
    }
    first = ranked(rows)[0]
    assert (first.signal, first.entity) == ("heat", "p0 gpu 2")


def test_the_same_data_give_the_same_ranking_and_not_too_long_a_list():
    names = [f"thing{i}" for i in range(12)]
    rows = {"itl_mean": slow(*PODS)}
    rows |= {n: {p: wobble(step(10, 20 + i), seed=i + 31 * j) for j, p in enumerate(PODS)} for i, n in enumerate(names)}
    one, other = ranked(rows, names), ranked(rows, names)
    assert one == other and len(one) == MOST_NAMED
    assert all(o.observed > o.baseline for o in one)


def test_one_quantity_is_named_once_under_its_plain_name():
    rows = {
        "itl_mean": slow("p0"),
        "kv_usage": {p: wobble(step(0.3, 0.9) if p == "p0" else np.full(N, 0.3), seed=3) for p in PODS},
        "kv_usage_mean": {p: wobble(step(0.3, 0.9) if p == "p0" else np.full(N, 0.3), seed=4) for p in PODS},
    }
    assert [o.signal for o in ranked(rows)].count("kv_usage") == 1
    assert "kv_usage_mean" not in [o.signal for o in ranked(rows)]


def test_one_gpu_that_leaves_the_others_is_a_mechanism_and_is_told_beside_them():
    """All GPUs of the fleet work harder; one of them less than those beside it."""
    busy = {f"{p}#{g}": wobble(step(0.3, 0.6), 0.02, seed=9 * int(p[1]) + g) for p in PODS for g in range(4)}
    busy["p0#2"] = wobble(step(0.3, 0.12), 0.02, seed=77)
    rows = {
        "itl_mean": slow("p0"),
        "tensor_active": busy,
        "running": {p: wobble(step(8, 30) if p == "p0" else np.full(N, 8.0), seed=3) for p in PODS},
    }
    first = ranked(rows)[0]
    assert (first.signal, first.entity) == ("tensor_active", "p0 gpu 2")
    assert "against" in first.text and first.observed < first.baseline


def test_what_a_router_says_is_not_taken_off_because_it_says_it_of_all():
    rows = {
        "itl_mean": slow("p0"),
        "router_stale_endpoints": {"p0": step(0, 3)},
    }
    assert ranked(rows)[0].signal == "router_stale_endpoints"


def test_a_first_move_of_what_never_moved_is_as_odd_as_any():
    rows = {
        "itl_mean": slow("p0"),
        "target_up": {p: step(1, 0) if p == "p0" else np.ones(N) for p in PODS},
        "speed": {p: wobble(step(100, 80) if p == "p0" else np.full(N, 100.0), seed=7 + i) for i, p in enumerate(PODS)},
    }
    assert ranked(rows)[0].signal == "target_up"


def test_a_large_pool_is_looked_at_through_a_sample():
    assert _some(list(range(5)), 8) == list(range(5))
    assert _some(list(range(512)), 4) == [0, 170, 340, 511]


def test_too_little_calm_ranks_nothing():
    context = scene({"itl_mean": slow("p0"), "speed": dict.fromkeys(PODS, QUIET)})
    (root,) = judge(context, {HURT.id: HURT}).roots
    root.matches[0].onset = 3
    assert unusual(context, root) == []
    assert LEAST_MOVED >= 3 and unit_of(context) in context.view.units and catalogue().recipes


ASK = """
import sys
from inferdoc import diagnose, open_source
from inferdoc.store import Store, import_file
with Store.open(sys.argv[1], "w") as store:
    import_file(store, sys.argv[2])
answer = diagnose(open_source(store=sys.argv[1]), since="10m", until="latest")
print([f.id for f in answer.findings], "sklearn" in sys.modules)
"""


def test_an_explained_cause_never_loads_scikit_learn(tmp_path):
    recording = RECORDINGS / "kv-preemption-thrash.om.gz"
    command = [sys.executable, "-c", ASK, str(tmp_path / "s.db"), str(recording)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['kv-preemption-thrash'] False"


@pytest.mark.parametrize(
    ("recording", "own"),
    [("spec-acceptance-decay", "spec_acceptance_"), ("prefix-unstable-prompt", "prefix_hit")],
)
def test_a_real_incident_without_its_recipe(tmp_path, recording, own):
    """Of a cause that nobody wrote down: nothing known fits, and its own signal is among the first three."""
    from inferdoc import diagnose, open_source
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.judging.api import Options
    from inferdoc.store import Store, import_file

    with Store.open(tmp_path / "s.db", "w") as store:
        import_file(store, str(RECORDINGS / f"{recording}.om.gz"))
    less = Catalogue()
    named = {recording, "prompt-growth"}  # the prompts of the first grew as well
    less.__dict__["recipes"] = {name: one for name, one in catalogue().recipes.items() if name not in named}
    answer = diagnose(
        open_source(store=tmp_path / "s.db"), since="10m", until="latest", options=Options(catalogue=less)
    )
    (finding,) = answer.findings
    assert finding.id in ("unexplained-anomaly", finding.family) and finding.certainty == "possible"
    assert any(e.signal.startswith(own) for e in [e for e in finding.evidence if e.role == "support"][:3])


@pytest.mark.parametrize(
    ("sigmas", "moved"),
    [
        ([0.0, 0.0, 0.0, 0.0], False),
        ([0.0, 0.0, LEAST_MOVED, 0.0], True),
        ([0.0, 0.0, -LEAST_MOVED, LEAST_MOVED], True),
        ([LEAST_MOVED, LEAST_MOVED, 0.0, 0.0], False),
        ([np.nan, np.nan, np.nan, np.nan], False),
    ],
)
def test_a_signal_has_moved_where_it_is_far_from_its_calm_within_the_episode(sigmas, moved):
    unit = unit_of(scene({"load": {"p0": np.ones(N)}}))
    known = Measured({unit: {"load": Track("", np.ones(4), np.array(sigmas))}})
    assert _has_moved("load", known, Episode(2, 3)) == moved
    assert not _has_moved("speed", known, Episode(2, 3))
