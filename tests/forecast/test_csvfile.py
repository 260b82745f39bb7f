"""The file contract: what is read, what is a gap, and one clear line for what cannot be read."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pytest

from inferdoc.errors import ExitCode, SourceError
from inferdoc.forecast.agenda import from_csv
from inferdoc.forecast.series import LoadSeries


def read(text: str | bytes, kind: str = "amount") -> LoadSeries:
    raw = text.encode() if isinstance(text, str) else text
    return from_csv("-", kind, stdin=io.BytesIO(raw))  # type: ignore[arg-type]


def test_stamps_in_both_spellings_and_any_order_make_one_grid() -> None:
    series = read("timestamp,value\n2026-03-02T00:10:00Z,3\n1772409600,1\n2026-03-02T01:05:00+01:00,2\n")
    assert (series.start, series.step) == (1772409600, 300)
    assert series.values.tolist() == [1, 2, 3]


def test_empty_nan_and_missing_rows_are_gaps_and_zero_is_zero() -> None:
    series = read("timestamp,value\n0,1\n300,\n600,NaN\n900,0\n1500,4\n1800,5\n")
    assert np.isnan(series.values).tolist() == [False, True, True, False, True, False, False]
    assert series.values[3] == 0
    assert series.gaps() == [(300, 900), (1200, 1500)]


def test_rows_off_the_grid_are_summed_as_amounts_and_averaged_as_rates() -> None:
    rows = "timestamp,value\n0,1\n300,2\n450,4\n600,3\n900,3\n1200,3\n"
    assert read(rows).values.tolist() == [1, 6, 3, 3, 3]
    assert read(rows, "rate").values.tolist() == [1, 3, 3, 3, 3]


def test_the_phase_of_the_grid_is_that_of_most_rows() -> None:
    series = read("timestamp,value\n127,1\n427,2\n727,3\n1027,4\n")
    assert (series.start, series.values.tolist()) == (127, [1, 2, 3, 4])


def test_equal_duplicates_are_dropped() -> None:
    assert read("timestamp,value\n0,1\n300,2\n300,2\n600,3\n").values.tolist() == [1, 2, 3]


def test_gzip_and_byte_order_mark_are_read(tmp_path: Path) -> None:
    file = tmp_path / "pool-a.csv.gz"
    file.write_bytes(gzip.compress("\ufefftimestamp,value\n0,1\n300,2\n".encode()))
    series = from_csv(str(file))
    assert (series.name, series.values.tolist()) == ("pool-a", [1, 2])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty; expected CSV"),
        ("timestamp,value\n", "no data rows"),
        ("0,1\n300,2\n", "line 1: header `0,1` lacks timestamp,value"),
        ("timestamp,value\n0,1\n", "at least two different timestamps"),
        ("timestamp,value\n0,1\n300,-2\n", "line 3: negative value -2"),
        ("timestamp,value\n0,1\n300,2\n300,3\n", "line 4: 300 occurs twice with different values (2, 3)"),
        ("timestamp,value\n0,1\n300,two\n", "line 3: value `two` is not a number"),
        ("timestamp,value\n0,1\n300,inf\n", "line 3: value inf is not finite"),
        ("timestamp,value\nyesterday,1\n300,2\n", "line 2: timestamp `yesterday` is neither RFC 3339 nor Unix seconds"),
        ("timestamp,value\n2026-03-02T00:00:00,1\n300,2\n", "has no zone"),
        ("timestamp,value\n1772409600000,1\n1772409900000,1\n", "milliseconds"),
        ("timestamp,value\n0,1\n300\n", "line 3: 1 column(s), expected 2"),
        ("timestamp,value\n0,\n300,\n", "every value is empty"),
        (b"timestamp,value\n\xff\xfe,1\n", "not UTF-8"),
        (gzip.compress(b"timestamp,value\n0,1\n300,2\n", mtime=0)[:-9], "broken gzip"),
    ],
)
def test_bad_input_gets_one_clear_line(text: str | bytes, said: str) -> None:
    with pytest.raises(SourceError) as fault:
        read(text)
    message = str(fault.value)
    assert said in message
    assert message.startswith("standard input: ")
    assert "\n" not in message
    assert fault.value.exit_code == ExitCode.SOURCE


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(SourceError, match="no-such-file"):
        from_csv("no-such-file.csv")


def test_a_grid_beyond_reason_is_refused() -> None:
    with pytest.raises(SourceError, match="aggregate the rows first"):
        read("timestamp,value\n0,1\n1,1\n2,1\n900000000,1\n")
