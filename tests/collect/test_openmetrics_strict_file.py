"""Files with many times of each series, read strictly: every rule with its line, also on lines that are read fast."""

from __future__ import annotations

import gzip
import io
import math
import re

import numpy as np
import pytest

from inferdoc.collect import ParseError, openmetrics_rules
from inferdoc.collect.grammar import LineError
from inferdoc.collect.openmetrics_file import SampleColumns, read_openmetrics
from inferdoc.simulate.output import write_openmetrics
from inferdoc.simulate.scenario_files import adapted, load_scenario
from inferdoc.store import Store, export, import_file
from inferdoc_dev.incidents.recording import record
from tests.conftest import recording_path

GOOD = """\
# HELP a_seconds How long.
# TYPE a_seconds histogram
# UNIT a_seconds seconds
a_seconds_bucket{le="1"} 1 1000
a_seconds_bucket{le="1"} 2 1002 # {t="x"} 0.5
a_seconds_bucket{le="+Inf"} 1 1000
a_seconds_bucket{le="+Inf"} 3 1002
a_seconds_count 1 1000
a_seconds_count 3 1002
# TYPE b counter
b_total{p="1"} 0 1000
b_total{p="1"} 5 1002
b_total{p="2"} 1e3 1000
# TYPE c gauge
c -1 1000
c NaN 1002
# TYPE s stateset
s{s="on"} 0 1000
s{s="on"} 1 1002
# EOF
"""


def strictly(text: str) -> SampleColumns:
    return read_openmetrics(io.BytesIO(text.encode()), strict=True)


def test_a_good_file_reads_the_same_strict_or_not() -> None:
    strict, lenient = strictly(GOOD), read_openmetrics(io.BytesIO(GOOD.encode()))
    assert strict.series == lenient.series and strict.types == lenient.types and not lenient.problems
    for name in ("series_index", "timestamps_ms", "values"):
        np.testing.assert_array_equal(getattr(strict, name), getattr(lenient, name))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        # lines of a series seen before, which are read without being looked at one by one
        ("c NaN 1002", 'b_total{p="1"} 7 1002', "line 16: b_total again"),
        ("c NaN 1002", 'c 5 1002 # {x="y"} 1', "line 16: exemplar where none may be"),
        # lines of a series that is new, metadata, the file
        ("# TYPE c gauge", "# TYPE b counter", "line 14: TYPE of b after its samples"),
        ("# TYPE c gauge", "# remark", "line 14: .* no comments"),
        ("# TYPE c gauge", "", "line 14: blank line"),
        ("# TYPE c gauge", "# TYPE c untyped", "line 14: TYPE of c is no type"),
        ("# UNIT a_seconds seconds", "# UNIT a_seconds s", "UNIT of a_seconds is s"),
        ("c -1 1000", "c -1", "line 15: sample of c has no timestamp"),
        ("c -1 1000", "c -1 99999999999", "line 15: .* not within 1970 to 2200"),
        ("c -1 1000", "c -1 -5", "line 15: .* not within 1970 to 2200"),
        ("c -1 1000", "c", "line 15: no value"),
        ("# EOF\n", "", "no # EOF"),
        ("# EOF\n", "# EOF\nc 1 1004\n", "line 21: text after # EOF"),
        ("c NaN 1002", "c 1\udcff 1002", "line 16: not UTF-8"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(old: str, new: str, said: str) -> None:
    assert old in GOOD
    body = GOOD.replace(old, new, 1).encode("utf-8", "surrogateescape")
    with pytest.raises(ParseError, match=said):
        read_openmetrics(io.BytesIO(body), strict=True)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('b_total{p="1"} 5 1002', 'b_total{p="1"} -5 1002', r"line 12: b_total is -5: .* not below 0"),
        ('b_total{p="1"} 5 1002', 'b_total{p="1"} NaN 1002', "line 12: b_total is NaN"),
        ('b_total{p="2"} 1e3', 'b_total{p="2"} -1e3', "line 13: b_total is -1000"),
        ("a_seconds_count 3 1002", "a_seconds_count 3.5 1002", "line 9: a_seconds_count is 3.5: .* whole"),
        ("a_seconds_count 3 1002", "a_seconds_count +Inf 1002", "line 9: a_seconds_count is inf: .* whole"),
        ('s{s="on"} 1 1002', 's{s="on"} 2 1002', "line 19: state of s is 2: it is 0 or 1"),
    ],
)
def test_a_value_that_may_not_be_is_told_and_kept(old: str, new: str, said: str) -> None:
    assert old in GOOD
    columns = strictly(GOOD.replace(old, new))
    assert len(columns) == len(strictly(GOOD))
    (problem,) = columns.problems
    assert re.match(f"{said}.*; kept as it is$", problem), problem


DUMPED = """\
a_bucket{Hostname="n1",le="1"} 1 1000
a_bucket{Hostname="n1",le="1"} 2 1002
a_count{Hostname="n1"} 3 1000
a_total{Hostname="n1"} 3 1000
a_bucket{pod="p"} 1 1000
a_count{pod="p"} 4 1000
a_count{Hostname="n1"} 4 1002
# EOF
"""
"""As `promtool tsdb dump-openmetrics` writes: in the order of all labels, among which `__name__` is one. A dump of a
Prometheus that scraped two targets, one with a label `Hostname`, was like this."""


def test_a_dump_without_metadata_is_in_any_order() -> None:
    columns = strictly(DUMPED)
    assert len(columns) == 7 and not columns.problems
    assert [columns.series[number].name for number in columns.series_index][-3:] == ["a_bucket", "a_count", "a_count"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"# TYPE a histogram\n{DUMPED}", "line 5: a_total|line 6: a_bucket again"),
        (DUMPED.replace("# EOF", "# TYPE a_count gauge\n# EOF"), "line 8: TYPE of a_count after its samples"),
        (DUMPED.replace("# EOF", "# TYPE a histogram\na_bucket 1 1\n# EOF"), "line 9: no label le"),
        (
            DUMPED.replace("# EOF", "# TYPE a counter\na_total 1 1005\n# EOF"),
            "line 10: a_total belongs to a family above already",
        ),
    ],
)
def test_what_metadata_declares_stands_together_in_a_dump_too(text: str, said: str) -> None:
    with pytest.raises(ParseError, match=said):
        strictly(text)


def test_a_value_far_into_a_file_is_told_once_for_a_series() -> None:
    lines = [f"a_total 1 {1000 + i}" for i in range(200_000)]
    lines[150_000] = "a_total -1 151000"
    lines[199_000] = "a_total -2 200000"
    columns = strictly("\n".join(["# TYPE a counter", *lines, "# EOF", ""]))
    (problem,) = columns.problems
    assert problem.startswith("line 150002: a_total is -1")


def test_a_gzip_that_is_cut_or_damaged_is_refused() -> None:
    whole = gzip.compress(GOOD.encode() * 1)
    with pytest.raises(ParseError, match="gzip data is cut"):
        read_openmetrics(io.BytesIO(whole[:-12]), strict=True)
    with pytest.raises(ParseError, match="gzip data is damaged"):
        read_openmetrics(io.BytesIO(whole[:30] + b"\x00\xff\x00" + whole[33:]), strict=True)


def test_values_are_judged_alike_one_by_one_and_in_blocks() -> None:
    """The same rule stands as words and as arithmetic on arrays."""
    rules = openmetrics_rules
    for kind in rules.TYPES:
        for suffix in rules.SUFFIXES.get(kind, ("",)):
            for value in (0.0, 1.0, 2.0, 0.5, -0.0, -1.0, -0.5, math.nan, math.inf, -math.inf, 1e300):
                try:
                    rules._value(kind, suffix, "x", value)
                    good = True
                except LineError:
                    good = False
                file = rules.FileRules()
                file._families, file._names, file._kinds = [0], ["x"], [(kind, suffix)]
                file._bits = [rules._bits(kind, suffix)]
                in_block = not file.block(np.array([0], np.int32), np.array([value]))
                assert good == in_block, (kind, suffix, value)


@pytest.mark.parametrize("name", ["control-steady", "kv-handshake-failure", "lora-thrash"])
def test_recordings_and_exports_are_what_the_standard_demands(name: str, tmp_path) -> None:
    with gzip.open(recording_path(name)) as file:
        assert len(read_openmetrics(file, strict=True))
    out = io.BytesIO()
    with Store.open(tmp_path / "a.db", "w") as store:
        import_file(store, recording_path(name))
        first, latest = store.first_ms() or 0, store.latest_ms() or 0
        export(store, first, latest, out)
    out.seek(0)
    assert len(read_openmetrics(out, strict=True)) > 1000


def test_what_the_simulator_writes_is_what_the_standard_demands() -> None:
    out = io.StringIO()
    write_openmetrics(record(adapted(load_scenario("demo-two-tiers"), None, None, "30s", None)).targets, out)
    assert len(strictly(out.getvalue())) > 1000


def test_a_counter_as_the_text_format_has_it_is_told_and_kept() -> None:
    """The DCGM exporter's energy counter, in a recording of its pages."""
    text = '# TYPE DCGM_ENERGY counter\nDCGM_ENERGY{gpu="0"} 5 10\nDCGM_ENERGY{gpu="1"} 6 10\n# EOF\n'
    columns = strictly(text)
    assert columns.values.tolist() == [5.0, 6.0]
    assert columns.problems == ["line 2: DCGM_ENERGY is a counter, and its samples do not end in _total; kept as it is"]
