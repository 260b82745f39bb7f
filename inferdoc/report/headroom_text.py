"""Headroom as text and as OpenMetrics."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import click

from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.own_metrics import Families, Row
from inferdoc.headroom.reading import HeadroomAnswer, HeadroomClock, Lost, PoolHeadroom
from inferdoc.headroom.room import ROOM
from inferdoc.report.brief import clock as shown_at
from inferdoc.report.size_text import TITLES, VALUES, number_lines
from inferdoc.report.wrapping import fitted, painted, wrap
from inferdoc.words import figure, how_many, lasting

SHARES = {"now": "load_now", "peak": "load_peak"}
"""Value of the label `load` -> name of a number."""


def headroom_metrics(answer: HeadroomAnswer) -> str:
    """The pools of the answer in the classic text format. Undetermined values are left out."""
    return Families(load_catalogue().exporters["inferdoc"]).text(
        {
            "inferdoc_headroom_used": [cell for pool in answer.pools for cell in _used(pool)],
            "inferdoc_headroom_replicas": [
                (_labels(pool) | {"what": what}, value) for pool in answer.pools for what, value in _replicas(pool)
            ],
            "inferdoc_headroom_after_loss": [
                (_labels(pool) | {"lost": one.what}, one.share.value)
                for pool in answer.pools
                for one in pool.lost
                if one.share is not None and one.share.value is not None
            ],
            "inferdoc_headroom_crossing_timestamp_seconds": [
                (_labels(pool) | {"path": path}, datetime.fromisoformat(moment.at).timestamp())
                for pool in answer.pools
                for path, moment in (("expected", pool.clock.expected), ("earliest", pool.clock.earliest))
                if moment is not None
            ],
            "inferdoc_headroom_timestamp_seconds": [({}, datetime.fromisoformat(answer.until).timestamp())],
        }
    )


def _labels(pool: PoolHeadroom) -> dict[str, str]:
    return {"pool": pool.pool, "model_name": pool.model, "role": pool.role, "tier": pool.tier}


def _numbers(pool: PoolHeadroom) -> dict[str, float]:
    (room,) = [part for part in pool.parts if part.title == ROOM]
    return {each.name: each.value for each in room.numbers if each.value is not None}


def _used(pool: PoolHeadroom) -> Iterator[Row]:
    known = _numbers(pool)
    for load, name in SHARES.items():
        if name in known:
            yield _labels(pool) | {"load": load}, known[name] / pool.usable


def _replicas(pool: PoolHeadroom) -> Iterator[tuple[str, float]]:
    yield "counted", float(pool.replicas)
    yield "to_spare", _numbers(pool)["headroom_replicas"]
    missing = [each.value for each in pool.clock.numbers if each.name == "replicas" and each.value is not None]
    yield "to_add", missing[0] if missing else 0.0


COLUMNS = 100
"""The widest line."""
MET = {True: "met", False: "not met", None: "open"}
ANSWER = {"yes": "holds", "no": "does not hold", "unsure": "unsure"}


def headroom_text(answer: HeadroomAnswer, *, verbose: bool = False, colour: bool = False) -> str:
    """Lines for a terminal; colour only if set. verbose: formula, inputs and source of each number."""

    def bold(words: str) -> str:
        return click.style(words, bold=True) if colour else words

    span = f"{shown_at(answer.from_)} to {shown_at(answer.until)}"
    ahead = f"forecast horizon {lasting(3600 * answer.horizon_hours)}, times in {answer.zone}"
    head = wrap(f"{answer.source}  {span}", "HEADROOM  ", COLUMNS)
    lines = [*painted(head, "HEADROOM", bold("HEADROOM")), f"  {ahead}"]
    for pool in answer.pools:
        kind = f"{pool.role}, tier {pool.tier}, {how_many(pool.replicas, 'replica')}"
        lines += ["", *painted(wrap(f"{pool.pool} ({kind})", "", COLUMNS), pool.pool, bold(pool.pool))]
        lines += wrap(pool.summary, "  ", COLUMNS)
        for part in pool.parts:
            lines += ["", f"  {bold(part.title)}"]
            for each in part.numbers:
                lines += number_lines(each, verbose, COLUMNS)
        lines += ["", f"  {bold('after a loss')}"]
        for one in pool.lost:
            lines += _lost(one, verbose)
        lines += ["", f"  {bold('headroom clock')}", *_clock(pool.clock, verbose)]
        lines += _listed(bold("notes"), pool.notes)
        lines += _listed(bold("undetermined"), pool.undetermined)
    for apart in answer.apart:
        lines += ["", bold(f"{apart.part.title}: {' and '.join(apart.pools)}"), *wrap(apart.summary, "  ", COLUMNS)]
        for each in apart.part.numbers:
            lines += number_lines(each, verbose, COLUMNS)
        for condition in apart.conditions:
            value = "not known" if condition.value is None else figure(condition.value, condition.unit)
            lines += wrap(f"{condition.what}: {value}, {MET[condition.met]}", "  - ", COLUMNS)
        lines += _listed(bold("assumed"), apart.notes)
    lines += _listed(bold("undetermined for every pool"), answer.undetermined)
    lines += _listed(bold("note"), answer.notes)
    lines += _listed(bold("left out"), [f"{one.pool}: {one.because}" for one in answer.left_out])
    if not verbose:
        lines += ["", "formula, inputs and source of each number: -v; the plots: -o html"]
    return "\n".join(fitted(lines, COLUMNS))


def _listed(title: str, sentences: list[str]) -> Iterator[str]:
    if sentences:
        yield ""
        yield f"  {title}"
        for each in sentences:
            yield from wrap(each, "  - ", COLUMNS)


def _lost(one: Lost, verbose: bool) -> Iterator[str]:
    name = f" {one.name}" if one.name else ""
    lost = f"{one.what}{name}, {how_many(one.replicas, 'replica')}: {ANSWER[one.holds]}; {one.because}"
    yield from wrap(lost, "  - ", COLUMNS)
    if one.share is not None:
        yield from number_lines(one.share, verbose, COLUMNS)
    if verbose:
        yield from number_lines(one.more, verbose, COLUMNS)


def _clock(clock: HeadroomClock, verbose: bool) -> Iterator[str]:
    yield from wrap(f"{clock.status}: {clock.reason}" if clock.reason else clock.status, "  ", COLUMNS)
    for title, moment in (
        ("may cross from", clock.earliest),
        ("expected to cross", clock.expected),
        ("ask for replicas by", clock.ask_by),
    ):
        if moment is not None:
            yield f"  {title:<{TITLES}} {moment.local:>{VALUES}}"
    for each in clock.numbers:
        yield from number_lines(each, verbose, COLUMNS)
