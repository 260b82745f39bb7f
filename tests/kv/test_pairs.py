"""Hits over the life of a block as pods showed them: what makes a curve, and what does not."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.kv.sizes import LifeHits, isotonic


def pairs(hits_of, spread=0.0, hours=48):
    """Two pods by hour, whose lives swing between 20 and 80 s."""
    generator = np.random.default_rng(3)
    life = np.repeat(50.0 + 30.0 * np.sin(np.arange(hours) / 24 * 2 * np.pi), 2)
    hits = hits_of(life) + generator.normal(0.0, spread, len(life))
    return LifeHits(life, hits, np.full(len(life), 1e6), np.repeat(np.arange(hours), 2))


def test_a_row_that_falls_is_pooled_by_weight_until_it_rises():
    values = isotonic(np.array([0.1, 0.5, 0.2, 0.6]), np.array([1.0, 1.0, 3.0, 1.0]))
    assert values == pytest.approx([0.1, 0.275, 0.275, 0.6])


@pytest.mark.parametrize("spread", [0.0, 0.02])
def test_where_hits_rise_with_the_life_they_are_read_off_within_their_range(spread):
    read = pairs(lambda life: 0.3 + 0.1 * np.log2(life / 20.0), spread)
    assert read.rises()
    short = read.life < 30
    ask = LifeHits(read.life, read.hits, np.where(short, 1e6, 1.0), read.draw)
    low, hits, high = ask.with_lives(2.0)
    true = float(np.mean(0.3 + 0.1 * np.log2(2.0 * read.life[short] / 20.0)))
    assert ask.seen(2.0) > 0.9 and ask.seen(4.0) < 0.1
    assert hits == pytest.approx(true, abs=0.02) and low <= true + 0.01 and high >= true - 0.01


def test_hits_that_do_not_follow_the_life_are_no_curve():
    """Gaps that shrink as traffic grows: the life swings fourfold, hits stay."""
    read = pairs(lambda life: np.full_like(life, 0.4), 0.02)
    assert read.differ and not read.rises()


def test_lives_that_hardly_differ_are_no_curve():
    read = pairs(lambda life: 0.3 + 0.1 * np.log2(life / 20.0))
    near = (read.life > 45) & (read.life < 55)
    some = LifeHits(read.life[near], read.hits[near], read.looked[near], read.draw[near])
    assert not some.differ and not some.rises()
