"""All series of a signal at once: the rows of its matrix where they are, and the same as one series after another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from inferdoc.fleet.lineage import Life, Lineage
from inferdoc.fleet.members import Fleet, Member, Pool
from inferdoc.judging.view import UP, View, make_view
from inferdoc.source.frame import Entity, SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid

STEPS = 30


def random_view(rng: np.random.Generator) -> View:
    """Pods with one or two engines; signals whose rows are shuffled, doubled, missing, empty, or of whole pods."""
    pods = [f"p{number}" for number in range(6)]
    pool = Pool("", "", "m", "both", "any")
    members = [Member(("", "", pod), "", "", pool) for pod in pods]
    engines = [(pod, str(engine)) for pod in pods for engine in range(1 + int(rng.random() < 0.5))]
    frame = SignalFrame(Grid(0, 10_000, STEPS, 10_000, 50_000, 25_000))

    def matrix(keys: list[tuple[str, ...]], names: tuple[str, ...]) -> SignalMatrix:
        values = np.where(rng.random((len(keys), STEPS)) < 0.2, np.nan, rng.normal(size=(len(keys), STEPS)))
        values[rng.random(len(keys)) < 0.1] = np.nan
        return SignalMatrix([Entity.of(names, key) for key in keys], values)

    own = [(pod, engine, "m") for pod, engine in engines]
    rows = {"plain": own, "shuffled": [own[at] for at in rng.permutation(len(own))], "some": own[: len(own) // 2]}
    for name, keys in rows.items():
        frame.signals[name] = matrix(keys, ("pod", "engine", "model_name"))
    doubled = [(pod, engine, "m", code) for pod, engine in engines for code in ("a", "b")]
    frame.signals["doubled"] = matrix(doubled, ("pod", "engine", "model_name", "code"))
    frame.signals["of_pods"] = matrix([(pod,) for pod in pods], ("pod",))
    frame.signals[UP] = matrix([(pod,) for pod in pods], ("pod",))
    return make_view(frame, Fleet(members))


def assert_alike(view: View) -> None:
    """`stack` against one series after another, of a view that has neither looked up before."""
    for signal in (*view.frame.signals, "absent"):
        plain = replace(view, _rows={}, _index={}, _stacks={})
        series = {unit: trace.values for unit in plain.units if (trace := plain.get(unit, signal)) is not None}
        units, values = view.stack(signal)
        assert units == list(series)
        np.testing.assert_array_equal(values, np.array(list(series.values())).reshape(len(series), STEPS))


@pytest.mark.parametrize("seed", range(20))
def test_a_stack_is_the_series_of_its_units(seed):
    assert_alike(random_view(np.random.default_rng(seed)))


def test_a_pod_that_took_over_continues_the_series_of_another():
    view = random_view(np.random.default_rng(1))
    old, new = view.fleet.members[:2]
    lives = {old.key: Life(0, 0, 9, False, True), new.key: Life(10, 10, STEPS - 1, True, False)}
    view.lineage = Lineage(lives, {new.key: old})
    assert_alike(view)


def test_rows_that_are_those_of_the_units_are_not_copied():
    view = random_view(np.random.default_rng(2))
    matrix = view.frame["plain"]
    matrix.values = np.nan_to_num(matrix.values)
    assert view.stack("plain")[1] is matrix.values
