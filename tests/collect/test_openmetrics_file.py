"""OpenMetrics files with many timestamps per series, whole and damaged."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pytest

from inferdoc.collect.openmetrics_file import OpenMetricsReader, SampleColumns, read_openmetrics
from inferdoc.collect.samples import Series

TEXT = b"""\
# HELP vllm:tokens Tokens.
# TYPE vllm:tokens counter
vllm:tokens_total{pod="a",engine="0"} 1.0 1795253610.781
vllm:tokens_total{pod="a",engine="0"} 5.0 1795253612.782
vllm:tokens_total{pod="b",engine="0"} 7.0 1795253610.781
# TYPE up gauge
up 1 1795253610
up NaN 1795253611
up -Inf 1795253612.5
# EOF
"""


def read(data: bytes) -> SampleColumns:
    return read_openmetrics(io.BytesIO(data))


def test_columns_of_a_good_file() -> None:
    columns = read(TEXT)
    assert columns.problems == []
    assert columns.series == [
        Series("vllm:tokens_total", (("engine", "0"), ("pod", "a"))),
        Series("vllm:tokens_total", (("engine", "0"), ("pod", "b"))),
        Series("up", ()),
    ]
    assert columns.series_index.tolist() == [0, 0, 1, 2, 2, 2]
    assert columns.timestamps_ms.tolist() == [
        1795253610781,
        1795253612782,
        1795253610781,
        1795253610000,
        1795253611000,
        1795253612500,
    ]
    np.testing.assert_array_equal(columns.values, [1, 5, 7, 1, np.nan, -np.inf])
    assert columns.types == {"vllm:tokens": "counter", "up": "gauge"}
    assert (columns.series_index.dtype, columns.timestamps_ms.dtype, columns.values.dtype) == (
        np.int32,
        np.int64,
        np.float64,
    )


def test_gzip_and_concatenated_gzip_members_read_the_same() -> None:
    cut = TEXT.index(b"# TYPE up")
    for data in (gzip.compress(TEXT), gzip.compress(TEXT[:cut]) + gzip.compress(TEXT[cut:])):
        columns = read(data)
        assert columns.problems == []
        assert len(columns) == 6


def test_a_cut_gzip_keeps_what_was_good_and_says_so() -> None:
    many = b"".join(b"up %d %d\n" % (i * 7919 % 1000, 1795253610 + i) for i in range(20_000))
    packed = gzip.compress(many + b"# EOF\n")
    columns = read(packed[: len(packed) // 2])
    assert 5_000 < len(columns) < 20_000
    assert columns.values.tolist() == [i * 7919 % 1000 for i in range(len(columns))]
    assert any("gzip data is cut" in line for line in columns.problems)
    assert any("no # EOF" in line for line in columns.problems)


def test_damaged_gzip_is_reported() -> None:
    packed = bytearray(gzip.compress(TEXT * 50))
    packed[len(packed) // 2] ^= 0xFF
    assert any("gzip data is" in line for line in read(bytes(packed)).problems)


def test_half_a_line_is_dropped_and_reported() -> None:
    columns = read(TEXT[: TEXT.index(b"12.5\n") + 1])
    assert len(columns) == 5
    assert columns.problems == [
        "line 9: no newline at its end: the file is cut; line dropped",
        "no # EOF at the end: the file is cut, or still being written",
    ]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"up 1\n", "line 1: sample of up has no timestamp; line dropped"),
        (b"up 1 1795253610781\n", "out of range: OpenMetrics counts seconds"),
        (b"up 1 1e999999999\n", "out of range: OpenMetrics counts seconds"),
        (b"up 1 -1e999999999\n", "out of range: OpenMetrics counts seconds"),
        (b"up 1 NaN\n", "not a number of seconds"),
        (b"up 1_0 1\n", "value '1_0' is not a number"),
        (b"up 0x10 1\n", "value '0x10' is not a number"),
        (b'up{a="1} 1 1\n', "closing quote is missing"),
        (b'up{a="1"} 1 1 1\n', "unexpected text"),
        (b'up{a="\xff"} 1 1\n', "line 1: not UTF-8; line dropped"),
        (b"<html>\n", "invalid metric name"),
    ],
)
def test_a_bad_line_is_named_and_the_rest_kept(bad: bytes, reason: str) -> None:
    columns = read(bad + TEXT)
    assert len(columns) == 6
    assert len(columns.problems) == 1
    assert reason in columns.problems[0]


def test_bad_lines_are_found_behind_known_series_too() -> None:
    columns = read(TEXT.replace(b"# EOF\n", b"up 1_0 1795253610\nup \xc2\xa01 1795253610\nup x 1795253610\n# EOF\n"))
    assert len(columns) == 6
    assert [line.split(":")[0] for line in columns.problems] == ["line 10", "line 11", "line 12"]


def test_exemplars_are_dropped_and_escapes_read() -> None:
    columns = read(
        b'h_bucket{le="1"} 5 1795253610.1 # {trace="a b}c"} 0.5 1795253610.0\n'
        b'h_bucket{le="1"} 6 1795253611.1 # {} 0.5\n'
        b'x{a="q\\"u\\\\o\\nte, }"} 1 2\n# EOF\n'
    )
    assert columns.problems == []
    assert columns.series == [Series("h_bucket", (("le", "1"),)), Series("x", (("a", 'q"u\\o\nte, }'),))]
    assert columns.timestamps_ms.tolist() == [1795253610100, 1795253611100, 2000]


def test_millisecond_rounding_is_exact() -> None:
    columns = read(b"up 1 0.0005\nup 1 0.0015\nup 1 1795253610.9995\nup 1 -1.5\nup 1 1.7952536e9\n# EOF\n")
    assert columns.timestamps_ms.tolist() == [0, 2, 1795253611000, -1500, 1795253600000]


def test_empty_file() -> None:
    columns = read(b"")
    assert len(columns) == 0
    assert columns.problems == ["no # EOF at the end: the file is cut, or still being written"]


def test_an_endless_line_is_refused_without_being_held() -> None:
    class Endless(io.RawIOBase):
        given = 0

        def read(self, size: int = -1) -> bytes:
            self.given += size
            return b"x" * size

    stream = Endless()
    columns = read_openmetrics(stream)  # type: ignore[arg-type]
    assert "longer than 16 MiB" in columns.problems[0]
    assert stream.given < 20 << 20


def test_problems_are_bounded() -> None:
    problems = read(b"bad\n" * 5000 + b"# EOF\n").problems
    assert len(problems) == 21
    assert problems[-1] == "... and 4980 more problems"


def test_blocks_bound_memory_and_agree_with_the_whole() -> None:
    many = b"".join(b'x{n="%d"} %d %d\n' % (i % 50, i, 1795253610 + i // 50) for i in range(100_000)) + b"# EOF\n"
    reader = OpenMetricsReader(io.BytesIO(many))
    blocks = list(reader.blocks())
    assert len(blocks) > 1
    assert sum(len(block) for block in blocks) == 100_000
    assert len(reader.series) == 50
    np.testing.assert_array_equal(read(many).values, np.arange(100_000))
