"""Reads on stored samples: hand-computed cases, and everything else against the sample-by-sample yardstick."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferdoc.errors import InferdocError
from inferdoc.source.evaluate import evaluate_tables
from inferdoc.source.reads import Grid, Matcher, Read
from inferdoc.source.tables import join
from inferdoc.store.block import STALE, Block, absent
from tests.source import reference

TARGET = {"job": "vllm", "pod": "p0"}


def block(times_s, columns, target=TARGET, names=None, labels=None):
    """columns: one list of values per series, None where there is no sample."""
    values = np.array([[STALE if v is None else v for v in column] for column in columns], dtype=float).T
    times = np.array([round(t * 1000) for t in times_s], dtype=np.int64)
    names = names or [f"m{i}" for i in range(len(columns))]
    return Block(target, times, names, labels or [{} for _ in columns], values.reshape(len(times), len(columns)))


def at(end_s, *, rate_s=10, gauge_s=5, count=1, step_s=1):
    return Grid(round(end_s * 1000), round(step_s * 1000), count, 2000, round(rate_s * 1000), round(gauge_s * 1000))


def value(blocks, read, grid, match=()):
    result = evaluate_tables(join(blocks), [read], grid, match)[read]
    return result.values[0, 0] if result.keys else None


def test_rate_is_extrapolated_to_both_edges_when_samples_are_near():
    # 2, 4, 6, 8 s; window [0, 10]: 2 s short on each side, spacing 2 s, threshold 2.2 s; zero point 8 s before 2 s.
    steady = [block([2, 4, 6, 8], [[40, 50, 60, 70]])]
    assert value(steady, Read("m0", "increase", ()), at(10)) == pytest.approx(30 * (6 + 2 + 2) / 6)
    assert value(steady, Read("m0", "rate", ()), at(10)) == pytest.approx(5.0)


def test_rate_is_not_extrapolated_before_the_counter_was_zero():
    # zero point: 6 s * 3 / 30 = 0.6 s before the first sample
    young, newborn = block([2, 4, 6, 8], [[3, 13, 23, 33]]), block([2, 4, 6, 8], [[0, 10, 20, 30]])
    assert value([young], Read("m0", "increase", ()), at(10)) == pytest.approx(30 * (6 + 0.6 + 2) / 6)
    assert value([newborn], Read("m0", "increase", ()), at(10)) == pytest.approx(30 * (6 + 2) / 6)


def test_rate_adds_half_a_spacing_where_the_edge_is_far():
    # samples 2 and 4 s in a window up to 10 s: 6 s to the end is beyond 2.2 s, so half a spacing is added
    samples = [block([2, 4], [[100, 110]])]
    assert value(samples, Read("m0", "increase", ()), at(10)) == pytest.approx(10 * (2 + 2 + 1) / 2)


def test_counter_resets_add_what_was_reached_before():
    resets = [block([0, 2, 4, 6, 8, 10], [[5, 9, 1, 4, 2, 6]])]
    assert value(resets, Read("m0", "increase", ()), at(10)) == pytest.approx((6 - 5) + 9 + 4)


def test_window_is_closed_on_both_sides_and_one_sample_is_nothing():
    samples = [block([0, 10], [[1, 3]])]
    assert value(samples, Read("m0", "increase", ()), at(10)) == pytest.approx(2.0)
    assert value(samples, Read("m0", "increase", ()), at(10.001)) is None
    assert value(samples, Read("m0", "last", ()), at(15)) == 3
    assert value(samples, Read("m0", "last", ()), at(15.001)) is None


def test_change_is_the_difference_of_two_readings_per_second():
    samples = [block([0, 10, 20], [[100, 140, 120]])]
    assert value(samples, Read("m0", "change", ()), at(20)) == pytest.approx(-2.0)
    assert value(samples, Read("m0", "change", ()), at(16)) is None


def test_ordinary_nan_is_a_sample_and_a_gap_is_not():
    samples = [block([0, 2, 4], [[1, math.nan, None], [math.nan, math.nan, None], [2, 7, None]])]
    grid = at(4)
    assert math.isnan(value(samples, Read("m0", "last", ()), grid))
    assert value(samples, Read("m0", "max", ()), grid) == 1
    assert math.isnan(value(samples, Read("m1", "max", ()), grid))
    assert math.isnan(value(samples, Read("m0", "mean", ()), grid))
    assert value(samples, Read("m2", "last", ()), grid) == 7


def test_sum_is_absent_only_where_no_series_of_the_group_has_a_value():
    samples = [block([0, 2, 4], [[1, 2, None], [None, 10, None]], names=["m", "m"], labels=[{"r": "a"}, {"r": "b"}])]
    grid = Grid(0, 2000, 4, 2000, 10_000, 1000)
    result = evaluate_tables(join(samples), [Read("m", "last", ("pod",))], grid)[Read("m", "last", ("pod",))]
    assert result.keys == [("p0",)]
    np.testing.assert_array_equal(result.values, [[1, 12, math.nan, math.nan]])


def test_groups_take_labels_of_target_and_series_and_absent_ones_are_empty():
    labels = [{"engine": "0", "pod": "own"}, {"engine": "1"}]
    read = Read("m", "last", ("pod", "engine", "nowhere"))
    result = evaluate_tables(join([block([0], [[1], [2]], names=["m", "m"], labels=labels)]), [read], at(0))[read]
    assert result.keys == [("own", "0", ""), ("p0", "1", "")]
    assert result.values.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("matcher", "kept"),
    [
        (("r", "=", "a"), 1),
        (("r", "!=", "a"), 6),
        (("r", "=~", "a|ab"), 3),
        (("r", "=~", "b"), 0),
        (("r", "!~", "a.*"), 4),
        (("r", "=", ""), 4),
        (("r", "=~", ".*"), 7),
        (("r", "=~", ".+"), 3),
        (("pod", "=", "p0"), 7),
        (("pod", "=~", "p[1-9]"), 0),
    ],
)
def test_matchers(matcher: Matcher, kept: int):
    samples = [block([0], [[1], [2], [4]], names=["m"] * 3, labels=[{"r": "a"}, {"r": "ab"}, {}])]
    total = value(samples, Read("m", "last", ()), at(0), (matcher,))
    assert (total or 0) == kept
    assert (value(samples, Read("m", "last", (), (matcher,)), at(0)) or 0) == kept


def test_a_bad_expression_is_one_clear_line():
    with pytest.raises(InferdocError, match=re.escape("'(' is not a valid regular expression")):
        value([block([0], [[1]])], Read("m0", "last", ()), at(0), (("r", "=~", "("),))


def test_blocks_of_one_target_are_joined():
    early = block([0, 2, 4], [[1, 2, 3], [10, 11, 12]])
    late = block([4, 6, 8], [[3, 4, 5]], names=["m0"])
    assert value([late, early], Read("m0", "increase", ()), at(8, rate_s=8)) == pytest.approx(4.0)
    assert value([early, late], Read("m1", "last", ()), at(8)) == 12
    other = block([0, 8], [[1, 1000]], target={"job": "vllm", "pod": "p1"})
    read = Read("m0", "last", ("pod",))
    assert evaluate_tables(join([early, other, late]), [read], at(8))[read].keys == [("p0",), ("p1",)]


def test_no_blocks_no_rows():
    read = Read("m0", "rate", ("pod",))
    for blocks in ([], [block([], [[]])]):
        result = evaluate_tables(join(blocks), [read], at(8, count=3))[read]
        assert result.keys == []
        assert result.values.shape == (0, 3)


SAMPLE = st.one_of(
    st.none(), st.integers(0, 50).map(float), st.floats(0, 1e6), st.sampled_from([math.nan, math.inf, -math.inf, -3.0])
)


@st.composite
def recordings(draw):
    """One or two targets, some series each, gaps and oddities anywhere."""
    blocks = []
    for pod in range(draw(st.integers(1, 2))):
        spacings = draw(st.lists(st.integers(1, 5000), min_size=1, max_size=14))
        times = np.cumsum(spacings) / 1000 + 100
        kinds = st.sampled_from([SAMPLE, st.integers(0, 9).map(float)])
        columns = [
            draw(st.lists(draw(kinds), min_size=len(times), max_size=len(times)))
            for _ in range(draw(st.integers(1, 4)))
        ]
        names = [draw(st.sampled_from(["a", "b"])) for _ in columns]
        labels = [{"s": str(i)} for i in range(len(columns))]
        blocks.append(block(times, columns, {"pod": f"p{pod}"}, names, labels))
    return blocks


@settings(max_examples=200, deadline=None)
@given(
    recordings(),
    st.sampled_from(["rate", "increase", "last", "max", "mean"]),
    st.sampled_from(["sum", "max", "min"]),
    st.sampled_from([("pod",), (), ("pod", "s")]),
    st.integers(1, 4),
    st.integers(95_000, 130_000),
    st.integers(1, 3000),
)
def test_every_function_agrees_with_the_yardstick(blocks, fn, agg, by, width, start, step):
    grid = Grid(start, step, 12, 2000, 4321, 3456)
    read = Read("a", fn, by, (), agg, width)
    result = evaluate_tables(join(blocks), [read], grid)[read]
    expected: dict[tuple[str, ...], list[list[float]]] = {}
    for one in blocks:
        for column in range(len(one.names)):
            if one.names[column] != "a":
                continue
            labels = {**one.target, **one.labels[column]}
            there = ~absent(one.values[:, column])
            samples = zip(one.times_ms, one.values[:, column], there, strict=True)
            points = [(int(t), float(v)) for t, v, ok in samples if ok]
            cells = expected.setdefault(tuple(labels.get(label, "") for label in by), [[] for _ in range(grid.count)])
            for i, end in enumerate(grid.times_ms):
                with np.errstate(all="ignore"):
                    found = _reference(points, int(end), grid.window_ms(read), fn)
                if found is not None:
                    cells[i].append(found)
    expected = {key: cells for key, cells in expected.items() if any(cells)}
    assert result.keys == sorted(expected)
    for key, row in zip(result.keys, result.values, strict=True):
        wanted = [reference.combine(cell, agg) if cell else math.nan for cell in expected[key]]
        np.testing.assert_allclose(row, wanted, rtol=1e-9, atol=1e-9)


def _reference(points, end, length, fn):
    try:
        return reference.evaluate(points, end, length, fn)
    except ZeroDivisionError:
        return None
