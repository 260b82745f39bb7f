"""Blocks are neither lost nor made, whatever comes and goes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from inferdoc.simulate.blocks import AllocatedBlocks, BlockPool

SIZE = 16
steps = st.lists(
    st.tuples(
        st.sampled_from(["admit", "commit", "grow", "release", "forget"]), st.integers(0, 5), st.integers(1, 900)
    ),
    max_size=120,
)


@given(steps, st.integers(20, 200))
@settings(max_examples=80, deadline=None)
def test_blocks_are_conserved(moves: list[tuple[str, int, int]], total: int) -> None:
    pool = BlockPool(total, SIZE)
    live: list[tuple[AllocatedBlocks, list[tuple[object, int]]]] = []
    for now, (move, which, amount) in enumerate(moves):
        if move == "admit":
            shared = min(which * 3, amount // SIZE)
            segments = [(("prefix", which), shared), (("own", now), amount // SIZE - shared)]
            admitted = pool.admit(segments, amount, float(now))
            if admitted is not None:
                table, hits = admitted
                assert hits < amount
                live.append((table, segments))
            else:
                assert pool.blocks(amount) > pool.free - sum(b for _, b in segments[:1]) or pool.free < total
        elif move == "forget":
            pool.forget()
        elif live:
            table, segments = live[which % len(live)]
            if move == "commit":
                pool.commit(table, segments, float(now))
            elif move == "grow" and amount % 4 <= pool.free:
                pool.take(amount % 4, float(now))
                table.own += amount % 4
            elif move == "release":
                pool.release(table, float(now))
                live.pop(which % len(live))
        pool.check()
    for table, _ in live:
        pool.release(table, 1e9)
    pool.check()
    assert pool.used == 0


def test_a_shared_prefix_is_found_and_its_end_is_evicted_first() -> None:
    pool = BlockPool(100, SIZE)
    segments = [(("prefix", 1), 40), (("own", 1), 10)]
    table, hits = pool.admit(segments, 50 * SIZE, 0.0) or (AllocatedBlocks(), -1)
    assert hits == 0
    pool.commit(table, segments, 1.0)
    pool.release(table, 2.0)
    assert pool.used == 0 and pool.idle == 50
    other = [(("prefix", 1), 40), (("own", 2), 5)]
    assert pool.matched(other, 45 * SIZE)[0] == 40
    pool.take(75, 3.0)
    assert pool.matched(other, 45 * SIZE)[0] == 25


def test_of_an_evicted_block_the_gaps_between_its_last_four_hits_are_reported() -> None:
    reported: list[tuple[int, float, float, list[float]]] = []
    pool = BlockPool(10, SIZE, lambda *each: reported.append(each))
    segments = [(("prefix", 1), 4)]
    for at in (0.0, 10.0, 12.0, 15.0, 19.0, 24.0):
        table, _ = pool.admit(segments, 5 * SIZE, at) or (AllocatedBlocks(), -1)
        pool.commit(table, segments, at)
        pool.release(table, at + 1.0)
    pool.take(10, 30.0)
    assert reported[-1] == (4, 30.0, 6.0, [3.0, 4.0, 5.0])


def test_at_least_one_token_is_computed() -> None:
    pool = BlockPool(100, SIZE)
    segments = [(("own", 1), 4)]
    table, _ = pool.admit(segments, 4 * SIZE, 0.0) or (AllocatedBlocks(), 0)
    pool.commit(table, segments, 0.0)
    pool.release(table, 0.0)
    assert pool.admit(segments, 4 * SIZE, 1.0)[1] == 3 * SIZE  # type: ignore[index]


def test_blocks_added_to_a_conversation_are_born_when_they_were_added() -> None:
    reported: list[tuple[int, float, float, list[float]]] = []
    pool = BlockPool(20, SIZE, lambda *each: reported.append(each))
    key = ("prefix", 1)
    for at, blocks in ((0.0, 4), (10.0, 6), (30.0, 8)):
        table, _ = pool.admit([(key, blocks)], blocks * SIZE, at) or (AllocatedBlocks(), -1)
        pool.commit(table, [(key, blocks)], at)
        pool.release(table, at + 1.0)
    pool.take(20, 50.0)
    assert [each for each in reported if each[3] or each[0] == 2][-3:] == [
        (2, 20.0, 20.0, []),
        (2, 40.0, 20.0, []),
        (4, 50.0, 20.0, [20.0]),
    ]
