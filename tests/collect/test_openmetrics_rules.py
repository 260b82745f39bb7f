"""Strict OpenMetrics: what one line cannot show, and agreement with prometheus-client on pages that were damaged."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as reference

from inferdoc.collect import LayoutCache, Page, ParseError, parse

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def strictly(text: str | bytes) -> Page:
    body = text.encode() if isinstance(text, str) else text
    return parse(body, OPENMETRICS, layouts=LayoutCache())


# One small page per rule, written for this test: the text, and what the refusal says.
BROKEN = [
    ("# TYPE a gauge\na 1\n# HELP a late\n# EOF\n", "line 3: HELP of a after its samples"),
    ("# TYPE a gauge\n# TYPE a gauge\n# EOF\n", "line 2: second TYPE of a"),
    ("# HELP a x\n# HELP a y\n# EOF\n", "line 2: second HELP of a"),
    ("# UNIT a_s s\n# UNIT a_s s\n# EOF\n", "line 2: second UNIT of a_s"),
    ("# TYPE a untyped\n# EOF\n", "line 1: TYPE of a is no type of OpenMetrics"),
    ("# TYPE a gauge \n# EOF\n", "line 1: TYPE of a is no type"),
    ("#TYPE a gauge\n# EOF\n", "line 1: .* neither HELP, TYPE, UNIT nor # EOF"),
    ("# just a remark\n# EOF\n", "no comments"),
    ("# HELP a\n# EOF\n", "no space behind the name"),
    ("# UNIT a_s seconds\n# EOF\n", "which its name does not end in"),
    ("# TYPE a_s info\n# UNIT a_s s\n# EOF\n", "families of type info have none"),
    ("# TYPE a gauge\na 1\nb 1\n# TYPE a gauge\n# EOF\n", "line 4: a again.* the lines of a family stand together"),
    ("# TYPE a counter\na_total 1\n# TYPE a_created gauge\n# EOF\n", "a name that clashes"),
    ("# TYPE a counter\na_total -1\n# EOF\n", "line 2: a_total is -1: what counts or sums up is not below 0"),
    ("# TYPE a counter\na_total NaN\n# EOF\n", "line 2: a_total is NaN"),
    ("# TYPE a summary\na 1\n# EOF\n", "no label quantile"),
    ('# TYPE a summary\na{quantile="1.5"} 1\n# EOF\n', "quantile 1.5 is not from 0 to 1"),
    ('# TYPE a summary\na{quantile="0.5"} -1\n# EOF\n', "it is not below 0"),
    ("# TYPE a stateset\na 1\n# EOF\n", "no label a"),
    ('# TYPE a stateset\na{a="on"} 0.5\n# EOF\n', "it is 0 or 1"),
    ("# TYPE a info\na_info 2\n# EOF\n", "an info is 1"),
    ("# TYPE a histogram\na_bucket 1\n# EOF\n", "no label le"),
    ('# TYPE a histogram\na_bucket{le="inf"} 1\n# EOF\n', r"not written \+Inf"),
    ('# TYPE a histogram\na_bucket{le="1"} 1\n# EOF\n', r'no bucket with le="\+Inf"'),
    ('# TYPE a histogram\na_bucket{le="2"} 1\na_bucket{le="1"} 1\n# EOF\n', "line 3: bucket le=1 after le=2"),
    ('# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\n# EOF\n', "line 3: .* buckets are cumulative"),
    ('# TYPE a histogram\na_bucket{le="+Inf"} 1.5\n# EOF\n', "it is a whole number"),
    ('# TYPE a histogram\na_bucket{le="+Inf"} 1\na_count 2\na_sum 1\n# EOF\n', "they must be equal"),
    ('# TYPE a histogram\na_bucket{le="+Inf"} 1\na_count 1\n# EOF\n', "only one of _count and _sum"),
    (
        '# TYPE a histogram\na_bucket{le="-1"} 0\na_bucket{le="+Inf"} 0\na_count 0\na_sum 0\n# EOF\n',
        "below 0 and a _sum",
    ),
    ('# TYPE a gaugehistogram\na_bucket{le="+Inf"} 1\na_gcount 1\na_gsum -1\n# EOF\n', "negative _gsum"),
    ('# TYPE a gauge\na{x="1"} 1\na{x="2"} 1\na{x="1"} 1\n# EOF\n', "line 4: .* stand apart"),
    ("# TYPE a gauge\na 1 2\na 1 1\n# EOF\n", "line 3: timestamp before the one above it"),
    ("# TYPE a gauge\na 1 1\na 1\n# EOF\n", "line 3: timestamps on some samples"),
    ('a{__x="1"} 1\n# EOF\n', "such names are reserved"),
    ('a{x="1",} 1\n# EOF\n', "comma before the closing brace"),
    ('# TYPE a gauge\na 1 # {x="1"} 1\n# EOF\n', "exemplar where none may be"),
    (f'# TYPE a counter\na_total 1 # {{x="{"y" * 128}"}} 1\n# EOF\n', "129 letters: at most 128"),
    ('# TYPE a counter\na_total 1 # {x="1"} 1 1 1\n# EOF\n', "a value, and perhaps a timestamp"),
    ("", "no # EOF"),
]


@pytest.mark.parametrize(("text", "said"), BROKEN, ids=[said for _, said in BROKEN])
def test_each_rule_is_demanded_with_its_line(text: str, said: str) -> None:
    with pytest.raises(ParseError, match=rf"^line \d+: .*|{said}") as caught:
        strictly(text)
    assert re.search(said, str(caught.value)), str(caught.value)
    with pytest.raises(ValueError):
        list(reference(text))


def test_a_layout_that_was_read_leniently_is_still_refused_strictly() -> None:
    cache = LayoutCache()
    for body, form in (
        (b"# TYPE a counter\na_total -1\n# EOF\n", OPENMETRICS),
        (b'# TYPE a histogram\na_bucket{le="x"} 1\n', "text/plain; version=0.0.4"),
    ):
        for _ in range(2):
            assert len(parse(body, form, strict=False, layouts=cache)) == 1
        with pytest.raises(ParseError):
            parse(body, form, layouts=cache)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# HELP a one\n# HELP a two\n", "line 2: second HELP of a"),
        ("# TYPE a gauge\n# TYPE a untyped\n", "line 2: second TYPE of a"),
        ("a 1\n# TYPE a gauge\n", "line 2: TYPE of a after its samples"),
        ('# TYPE a histogram\na_bucket{le="x"} 1\n', "line 2: label le of a_bucket is not a number"),
        ('# TYPE a summary\na{quantile="x"} 1\n', "line 2: label quantile of a is not a number"),
    ],
)
def test_the_text_format_has_rules_too_and_a_scrape_asks_for_none(text: str, said: str) -> None:
    with pytest.raises(ParseError, match=said):
        parse(text.encode(), "text/plain; version=0.0.4", layouts=LayoutCache())
    assert parse(text.encode(), "text/plain; version=0.0.4", strict=False, layouts=LayoutCache()).problems == []


# ---- agreement with prometheus-client -------------------------------------------------------------------------------

PAGE = """\
# HELP requests Requests\\nserved.
# TYPE requests counter
requests_total{code="200",path="/a \\"b\\" {c}"} 5 1795253610.5 # {trace="x,y=1}"} 0.5 1795253610
requests_created{code="200",path="/a \\"b\\" {c}"} 1 1795253610.5
requests_total{code="500"} 0
# TYPE wait_seconds histogram
# UNIT wait_seconds seconds
wait_seconds_bucket{le="0.5"} 1
wait_seconds_bucket{le="1"} 2 # {} 0.7
wait_seconds_bucket{le="+Inf"} 3
wait_seconds_count 3
wait_seconds_sum 1.5
# TYPE size gaugehistogram
size_bucket{le="-1"} 1
size_bucket{le="+Inf"} 2
size_gcount 2
size_gsum -1
# TYPE lag summary
lag{quantile="0.5"} 1e-3
lag{quantile="1"} 2
lag_count 4
lag_sum 5
# TYPE build info
build_info{version="1.0"} 1
# TYPE state stateset
state{state="on"} 1
state{state="off"} 0
# TYPE load gauge
load{n="1"} NaN 1
load{n="1"} -Inf 2.000000001
load{n="2"} +Inf
plain 12
# TYPE "utf.8" gauge
{"utf.8","la bel"="ü"} 1
# EOF
"""
BITS = (
    *' \n\t\r"{},=#\\_1-+.ea0é',
    *("NaN", "Inf", " # {} 1", "# TYPE ", "# HELP x y\n", "# EOF\n", "_total", "_bucket", 'le="1"', " 1"),
)
# Where prometheus-client departs from the specification, and by which of our refusals it shows.
STRICTER = (
    ("no space before the value", "it does not look at the character behind the closing brace"),
    (
        "neither HELP, TYPE, UNIT nor # EOF|no space behind the name|is no type of OpenMetrics",
        "it splits metadata at any run of blanks, strips names, and does not look at the first token",
    ),
    (
        r"not in quotes|no = after label|no comma at|no label name|label (le|quantile) of .* is not a number",
        "it strips any white space off labels, and reads bounds as Python does, which strips them too",
    ),
    ("timestamp .* is not a number of seconds", "it reads nine decimals and nothing behind them"),
    ("invalid metric name at ' ", "it strips the name"),
    ("unexpected text .* after value and timestamp", "it skips what stands in quotes behind the value"),
)


def agreed(text: str) -> str | None:
    """What differs, or None."""
    try:
        ours, refused = strictly(text), None
    except ParseError as error:
        ours, refused = None, str(error)
    try:
        list(reference(text))
        they_refuse = None
    except Exception as error:  # it raises what it meets: ValueError, KeyError, IndexError, TypeError
        they_refuse = error
    if (refused is None) == (they_refuse is None):
        return None
    if refused is None and str(they_refuse) == "" and '{"' in text:
        return None  # it wants a TYPE line for a name in quotes, which no specification demands
    if refused is None and isinstance(they_refuse, AttributeError):
        return None  # a fault of its own: it cannot compare 1e3 with 1.5
    if refused is not None:
        return None if any(re.search(said, refused) for said, _ in STRICTER) else f"we refuse: {refused}"
    return f"they refuse: {type(they_refuse).__name__}: {they_refuse}; we read {ours}"


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """The page with up to three cuts, insertions, repeated or swapped lines."""
    text = PAGE
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["cut", "put", "line", "swap", "drop"]))
        if kind in ("cut", "put"):
            at = draw(st.integers(0, len(text)))
            text = (
                text[:at]
                + draw(st.sampled_from(BITS) if kind == "put" else st.just(""))
                + text[at + draw(st.integers(0, 3)) :]
            )
            continue
        lines = text.split("\n")
        one, two = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
        if kind == "line":
            lines.insert(two, lines[one])
        elif kind == "drop":
            del lines[one]
        else:
            lines[one], lines[two] = lines[two], lines[one]
        text = "\n".join(lines)
    return text


def test_the_page_itself_is_good_to_both() -> None:
    theirs = [(s.name, frozenset(s.labels.items())) for family in reference(PAGE) for s in family.samples]
    assert len(theirs) == 24 and len(strictly(PAGE)) == len(set(theirs)) == 23, "one series stands at two times"


@example(PAGE + "\n")
@given(damaged())
@settings(max_examples=500, deadline=None, derandomize=True)
def test_damaged_pages_are_refused_where_prometheus_client_refuses_them(text: str) -> None:
    assert agreed(text) is None, agreed(text)
