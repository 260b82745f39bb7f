"""Reads OpenMetrics text with many timestamps per series: back-fills, exports, recordings."""

from __future__ import annotations

import zlib
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from inferdoc.collect.grammar import LineError, read_metadata, read_number, read_sample, read_seconds
from inferdoc.collect.openmetrics_line import read_strict_metadata, read_strict_sample
from inferdoc.collect.openmetrics_rules import BlockError, FileRules
from inferdoc.collect.problems import ProblemList
from inferdoc.collect.samples import NO_TIMESTAMP, ParseError, Series

_GZIP_MAGIC = b"\x1f\x8b"
_READ_BYTES = 1 << 20
_MAX_LINE_BYTES = 1 << 24


LATEST_MS = 7_258_118_400_000
"""The year 2200: what is dated beyond it, or before 1970, would hide what is newest in a store."""


def _check_time(series: Series, milliseconds: int) -> None:
    if milliseconds == NO_TIMESTAMP:
        raise LineError(f"sample of {series.name} has no timestamp")
    if not 0 <= milliseconds <= LATEST_MS:
        raise LineError(f"sample of {series.name} is dated {milliseconds / 1000:.3f} s, not within 1970 to 2200")


@dataclass(frozen=True, slots=True)
class SampleColumns:
    """Samples as columns, in file order.

    Attributes:
        series: every series seen so far; `series_index` points into it.
        series_index: int32, shape (n,).
        timestamps_ms: int64, shape (n,), milliseconds since 1970 UTC.
        values: float64, shape (n,), exactly `float(text)`.
        types: declared type by family name.
        problems: one line for each thing that was dropped; empty for a clean file.
    """

    series: list[Series]
    series_index: NDArray[np.int32]
    timestamps_ms: NDArray[np.int64]
    values: NDArray[np.float64]
    types: dict[str, str]
    problems: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.values)


def read_openmetrics(stream: BinaryIO, *, strict: bool = False) -> SampleColumns:
    """Read a whole OpenMetrics file, plain or gzip (recognised by its first bytes).

    Samples are neither sorted nor de-duplicated; about 20 bytes of memory per sample.

    Args:
        stream: the file.
        strict: raise ParseError, with line and rule, at the first thing that OpenMetrics does not allow. The order of
            points is free, since a file with many times of each series is written series by series, by promtool too; a
            value that may not be (a counter below 0) is kept and stands in `problems`.
            Otherwise whatever is good is kept; a cut gzip stream, a cut last line, a missing `# EOF`, lines that
            cannot be read and samples without a timestamp are listed in `problems`, each with its line number.
    """
    reader = OpenMetricsReader(stream, strict=strict)
    blocks = list(reader.blocks())
    return SampleColumns(
        reader.series,
        np.concatenate([block.series_index for block in blocks]) if blocks else np.empty(0, np.int32),
        np.concatenate([block.timestamps_ms for block in blocks]) if blocks else np.empty(0, np.int64),
        np.concatenate([block.values for block in blocks]) if blocks else np.empty(0, np.float64),
        reader.types,
        reader.problems,
    )


def _name_of(line: str) -> str:
    """The metric a plain sample line begins with."""
    return line.partition("{")[0].partition(" ")[0]


class OpenMetricsReader:
    """Reads an OpenMetrics file in blocks, so that memory stays bounded however long the file is.

    `series`, `types`, `problems` and `line_number` (the last line read) grow while `blocks()` is consumed and are
    complete at its end.
    """

    def __init__(self, stream: BinaryIO, max_series: int | None = None, *, strict: bool = False) -> None:
        """max_series: where there are more, the metrics with the most are given up whole. Their samples in earlier
        blocks are those whose series is named in `left_out` at the end. strict: as in `read_openmetrics`."""
        self._stream = stream
        self._max_series = max_series
        self._rules = FileRules() if strict else None
        self._ids_by_text: dict[str, int] = {}
        self._ids: dict[Series, int] = {}
        self._milliseconds: dict[str, int] = {}
        self.line_number = 0
        self._ended = False
        self._warned_after_end = False
        self._problems = ProblemList()
        self.series: list[Series] = []
        self.types: dict[str, str] = {}
        self.left_out: Counter[str] = Counter()
        """Metrics that were given up, and how many of their series or lines were met at least."""

    @property
    def place(self) -> str:
        """How far it has read, for messages."""
        return f"line {self.line_number}"

    @property
    def problems(self) -> list[str]:
        """What was dropped so far, one line each."""
        lines = self._problems.lines()
        if self.left_out:
            names = ", ".join(name for name, _ in self.left_out.most_common(3))
            more = f" and {len(self.left_out) - 3} more metrics" if len(self.left_out) > 3 else ""
            lines.append(
                f"more than {self._max_series:,} series: {names}{more} left out whole; drop the label that takes new"
                " values all the time, or raise --max-series"
            )
        return lines

    def blocks(self) -> Iterator[SampleColumns]:
        """Yield the samples in file order, some ten thousand at a time."""
        rest = b""
        for data in self._decompressed():
            head, newline, tail = data.rpartition(b"\n")
            if not newline:
                rest += data
                if len(rest) > _MAX_LINE_BYTES:
                    self._problem(self.line_number + 1, "longer than 16 MiB: this is no metrics file", "")
                    return
                continue
            yield self._read_block(rest + head)
            rest = tail
        if rest == b"# EOF":
            self._ended = True
        elif rest:
            self._problem(self.line_number + 1, "no newline at its end: the file is cut")
        if not self._ended:
            if self._rules is not None:
                raise ParseError("no # EOF at the end: the file is cut, or still being written")
            self._problems.add("no # EOF at the end: the file is cut, or still being written")
        if self._rules is not None:
            try:
                self._rules.end()
            except LineError as error:
                raise ParseError(f"line {self.line_number}: {error}") from None

    def _problem(self, number: int, reason: str, outcome: str = "; line dropped") -> None:
        """Something is wrong with a line: the end where reading is strict, else a line of `problems`."""
        if self._rules is not None:
            raise ParseError(f"line {number}: {reason}")
        self._problems.add(f"line {number}: {reason}{outcome}")

    def _read(self) -> bytes:
        return self._stream.read(_READ_BYTES)

    def _decompressed(self) -> Iterator[bytes]:
        first = self._read()
        if first[:2] == _GZIP_MAGIC:
            yield from self._gunzipped(first)
            return
        while first:
            yield first
            first = self._read()

    def _gunzipped(self, data: bytes) -> Iterator[bytes]:
        member = zlib.decompressobj(wbits=31)
        done = 0
        while data or member.unconsumed_tail:
            try:
                text = member.decompress(member.unconsumed_tail or data, _READ_BYTES)
            except zlib.error as error:
                self._gzip_problem(
                    f"gzip data is damaged after {done} bytes of text ({error})", "; the rest is dropped"
                )
                return
            done += len(text)
            if text:
                yield text
            if member.eof:
                data = member.unused_data or self._read()
                if data:
                    member = zlib.decompressobj(wbits=31)
            elif not member.unconsumed_tail:
                data = self._read()
        if not member.eof:
            yield member.flush()
        if not member.eof:
            self._gzip_problem(f"gzip data is cut after {done} bytes of text", "")

    def _gzip_problem(self, reason: str, outcome: str) -> None:
        if self._rules is not None:
            raise ParseError(reason)
        self._problems.add(f"{reason}{outcome}")

    def _read_block(self, data: bytes) -> SampleColumns:
        ids, stamps, values = array("i"), array("q"), array("d")
        first_line = self.line_number
        skipped = array("q")
        known_ids, known_stamps = self._ids_by_text, self._milliseconds
        if len(known_stamps) > 1_000_000:
            known_stamps.clear()
        for line in self._lines(data):
            self.line_number += 1
            try:
                text, value, stamp = line.rsplit(" ", 2)
                series_id = known_ids[text]
                milliseconds = known_stamps[stamp]
                number = float(value) if value.isascii() and "_" not in value else read_number(value)
            except (KeyError, ValueError):
                sample = self._read_line(line)
                if sample is None:
                    skipped.append(self.line_number)
                    continue
                series_id, milliseconds, number = sample
            ids.append(series_id)
            stamps.append(milliseconds)
            values.append(number)
        numbers = np.array(ids, np.int32)
        decoded = np.array(values, np.float64)
        if self._rules is not None:
            lines = np.setdiff1d(np.arange(first_line + 1, self.line_number + 1), np.array(skipped, np.int64))
            try:
                for row, wrong in self._rules.block(numbers, decoded):
                    self._problems.add(f"line {lines[row]}: {wrong}; kept as it is")
            except BlockError as error:
                raise ParseError(f"line {lines[error.row]}: {error}") from None
        return SampleColumns(self.series, numbers, np.array(stamps, np.int64), decoded, self.types)

    def _lines(self, data: bytes) -> Iterator[str]:
        try:
            yield from data.decode("utf-8").split("\n")
            return
        except UnicodeDecodeError:
            pass
        for line in data.split(b"\n"):
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError:
                self.line_number += 1
                self._problem(self.line_number, "not UTF-8")

    def _read_line(self, line: str) -> tuple[int, int, float] | None:
        """A line the fast path does not know: metadata, a new series, a new time, or a bad line."""
        try:
            if self._rules is not None:
                return self._read_to_the_letter(line, self._rules)
            if line.startswith("#"):
                self._read_comment(line)
                return None
            if not line.strip(" \t\r"):
                return None
            if self.left_out and _name_of(line) in self.left_out:
                self.left_out[_name_of(line)] += 1
                return None
            if self._ended and not self._warned_after_end:
                self._warned_after_end = True
                self._problems.add(f"line {self.line_number}: more samples after # EOF; read all the same")
            series, value, milliseconds = read_sample(line.rstrip("\r"), openmetrics=True)
            if milliseconds == NO_TIMESTAMP:
                raise LineError(f"sample of {series.name} has no timestamp")
        except LineError as error:
            self._problem(self.line_number, str(error))
            return None
        return self._numbered(series, line, milliseconds, value)

    def _read_to_the_letter(self, line: str, rules: FileRules) -> tuple[int, int, float] | None:
        """As `_read_line`; raises LineError for what OpenMetrics does not allow."""
        if self._ended:
            raise LineError("text after # EOF")
        if line == "# EOF":
            self._ended = True
            return None
        if line.startswith("#"):
            metadata = read_strict_metadata(line)
            rules.metadata(metadata)
            if metadata.kind == "TYPE":
                self.types[metadata.family] = metadata.text
            return None
        if not line:
            raise LineError("blank line")
        sample, milliseconds = read_strict_sample(line)
        _check_time(sample.series, milliseconds)
        if sample.series.name in self.left_out:
            self.left_out[sample.series.name] += 1
            return None
        wrong = rules.sample(sample, self._ids.get(sample.series, len(self.series)))
        if wrong is not None:
            self._problems.add(f"line {self.line_number}: {wrong}; kept as it is")
        return self._numbered(sample.series, line, milliseconds, sample.value)

    def _numbered(self, series: Series, line: str, milliseconds: int, value: float) -> tuple[int, int, float] | None:
        """A sample with the number of its series, the texts of its line kept for the fast path; None where its metric
        had to be given up."""
        series_id = self._ids.get(series)
        if series_id is None:
            series_id = self._ids[series] = len(self.series)
            self.series.append(series)
            if self._max_series is not None and len(self._ids) > self._max_series:
                self._give_up(self._max_series)
                if series.name in self.left_out:
                    return None
        text, _, stamp = line.rsplit(" ", 2)
        if " # " not in line:
            self._ids_by_text[text] = series_id
            self._milliseconds[stamp] = read_seconds(stamp)
        return series_id, milliseconds, value

    def _give_up(self, most: int) -> None:
        """Forget the series of the metrics with the most, until a fifth of the room is free."""
        counts = Counter(series.name for series in self._ids)
        kept = len(self._ids)
        for name, count in counts.most_common():
            if kept <= 0.8 * most:
                break
            self.left_out[name] = count
            kept -= count
        for number, series in enumerate(self.series):
            if series.labels and series.name in self.left_out:
                self.series[number] = Series(series.name, ())
        self._ids = {series: number for series, number in self._ids.items() if series.name not in self.left_out}
        gone = [text for text, number in self._ids_by_text.items() if self.series[number].name in self.left_out]
        for text in gone:
            del self._ids_by_text[text]

    def _read_comment(self, line: str) -> None:
        if line.rstrip() == "# EOF":
            self._ended = True
            return
        metadata = read_metadata(line)
        if metadata is not None and metadata.kind == "TYPE":
            self.types[metadata.family] = metadata.text
