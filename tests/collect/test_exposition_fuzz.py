"""Generated pages against prometheus-client, and damaged pages against a parser that remembers nothing."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as reference_openmetrics
from prometheus_client.parser import text_string_to_metric_families as reference_text

from inferdoc.collect import LayoutCache, Page, ParseError, parse

NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
LABEL_NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,5}", fullmatch=True).filter(
    lambda name: not name.startswith("__")
)
LABEL_VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.one_of(
    st.floats().map(repr),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(["NaN", "+Inf", "-Inf", "0.0", "1e+06", "1.0E-7"]),
)
LABELS = st.dictionaries(LABEL_NAMES, LABEL_VALUES, max_size=4)
ROWS = st.lists(st.tuples(NAMES, LABELS, VALUES, st.none() | st.integers(0, 2**42)), max_size=12)


def escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def series_text(name: str, labels: dict[str, str]) -> str:
    inside = ",".join(f'{label}="{escape(value)}"' for label, value in labels.items())
    return f"{name}{{{inside}}}" if inside else name


def unique(
    rows: list[tuple[str, dict[str, str], str, int | None]],
) -> list[tuple[str, dict[str, str], str, int | None]]:
    return list(
        {(name, frozenset(labels.items())): (name, labels, value, t) for name, labels, value, t in rows}.values()
    )


def same(left: float, right: float) -> bool:
    return left == right or (math.isnan(left) and math.isnan(right))


@settings(max_examples=150, deadline=None)
@given(ROWS)
def test_text_pages_read_like_prometheus_client(rows: list[tuple[str, dict[str, str], str, int | None]]) -> None:
    body = "".join(
        f"{series_text(name, labels)} {value}{'' if stamp is None else f' {stamp}'}\n"
        for name, labels, value, stamp in unique(rows)
    )
    expected = [sample for family in reference_text(body) for sample in family.samples]
    cache = LayoutCache()
    for _ in range(2):
        got = list(parse(body.encode(), layouts=cache).samples())
        assert len(got) == len(expected)
        for ours, theirs in zip(got, expected, strict=True):
            assert (ours.name, ours.labels, ours.timestamp) == (theirs.name, theirs.labels, theirs.timestamp)
            assert same(ours.value, float(Decimal(theirs.value)))


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(NAMES, st.tuples(LABELS, VALUES, st.none() | st.decimals(0, 10**10, places=3)), max_size=8))
def test_openmetrics_pages_read_like_prometheus_client(
    rows: dict[str, tuple[dict[str, str], str, Decimal | None]],
) -> None:
    lines = [
        f"# TYPE {name} unknown\n{series_text(name, labels)} {value}{'' if stamp is None else f' {stamp}'}\n"
        for name, (labels, value, stamp) in rows.items()
    ]
    body = "".join(lines) + "# EOF\n"
    expected = [sample for family in reference_openmetrics(body) for sample in family.samples]
    got = list(parse(body.encode(), layouts=LayoutCache()).samples())
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        assert (ours.name, ours.labels) == (theirs.name, theirs.labels)
        assert same(ours.value, float(Decimal(theirs.value)))
        assert (ours.timestamp is None) == (theirs.timestamp is None)
        if ours.timestamp is not None:
            assert abs(ours.timestamp - float(theirs.timestamp)) < 1e-6


KNOWN = b"""\
# TYPE a gauge
a{x="1",y="2"} 1.0
a{x="2",y="2"} 2.5
# HELP b some text
b_total 12
c{m="\xc3\xbc"} 5e3
"""
KNOWN_WITH_TIMES = b"""\
a{x="1",y="2"} 1.0 1795253610781
a{x="2",y="2 3 4"} 2.5 1795253610781
b_total 12
"""


def outcome(body: bytes, cache: LayoutCache) -> tuple[object, ...]:
    try:
        page: Page = parse(body, strict=False, layouts=cache)
    except ParseError as error:
        return (str(error),)
    stamps = None if page.timestamps is None else page.timestamps.tolist()
    return page.layout, page.values.tobytes(), stamps, page.problems


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from([KNOWN, KNOWN_WITH_TIMES]),
    st.integers(0, len(KNOWN)),
    st.integers(0, 3),
    st.one_of(
        st.binary(max_size=3),
        st.sampled_from([b" ", b"\n", b"\t", b"\r", b"_", b'"', b"}", b"#", b"\\", b"\xa0", b"1"]),
    ),
)
def test_a_damaged_page_reads_the_same_with_and_without_a_remembered_layout(
    known: bytes, at: int, cut: int, put: bytes
) -> None:
    cache = LayoutCache()
    parse(known, layouts=cache)
    body = known[:at] + put + known[at + cut :]
    warm, cold = outcome(body, cache), outcome(body, LayoutCache())
    assert warm == cold


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["", "text/plain; version=0.0.4", "application/openmetrics-text"]))
def test_any_bytes_give_a_page_or_a_parse_error(body: bytes, content_type: str) -> None:
    try:
        page = parse(body, content_type, strict=False, layouts=LayoutCache())
    except ParseError as error:
        assert "\n" not in str(error)
    else:
        assert page.values.shape == (len(page.layout.series),)
        assert page.values.dtype == np.float64
        assert not any("prometheus-client" in problem for problem in page.problems)
