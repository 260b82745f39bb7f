"""Reads one scrape: Prometheus text format 0.0.4 or OpenMetrics 1.0.

Three ways, each falling back on the next where a page is not plain enough for it: the template of a known
layout (`LayoutCache`), lines in the plainest form, and the careful reading of single lines (`grammar`).
A fault in these must not lose a scrape: the parser of prometheus-client is the last resort.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from inferdoc.collect.grammar import (
    LineError,
    Metadata,
    SampleLine,
    read_metadata,
    read_milliseconds,
    read_number,
    read_plain_series,
    read_sample,
    read_seconds,
)
from inferdoc.collect.openmetrics_line import (
    TextRules,
    read_scraped_metadata,
    read_scraped_sample,
    read_strict_metadata,
    read_strict_sample,
)
from inferdoc.collect.openmetrics_rules import OpenMetricsRules
from inferdoc.collect.problems import ProblemList
from inferdoc.collect.samples import NO_TIMESTAMP, Layout, LayoutCache, Page, ParseError, Series, decode_values

_DEFAULT_CACHE = LayoutCache()
_UNDECODABLE = re.compile("[\udc80-\udcff]")
_EMPTY = Layout(())


def parse(body: bytes, content_type: str = "", *, strict: bool = True, layouts: LayoutCache | None = None) -> Page:
    """Read a metrics page; its values are decoded when this returns.

    Args:
        body: the page, decompressed.
        content_type: of the HTTP answer. `application/openmetrics-text` means OpenMetrics, `text/plain` with
            a version the text format; otherwise a closing `# EOF` means OpenMetrics.
        strict: raise at the first line that cannot be read. Otherwise keep the good lines and list
            the bad ones in `Page.problems`.
        layouts: where known layouts are looked up and kept; by default one cache for the process.

    Returns:
        The page. A series that stands twice keeps its first value and is named in `problems`, strict
        or not. Exemplars are read and dropped. An empty body is a page of no samples.

    Raises:
        ParseError: a bad line (strict), no good line at all, an OpenMetrics page without its `# EOF`
            or a last line without its newline (strict: the page is cut), or HTML.
    """
    cache = _DEFAULT_CACHE if layouts is None else layouts
    openmetrics = is_openmetrics(body, content_type)
    text = body.decode("latin-1")
    lines = text.split("\n")
    form = (openmetrics, strict)
    known = cache.read(form, text, lines)
    if known is not None:
        return Page(*known)
    if not body.strip() and not (strict and openmetrics):
        return Page(cache.intern(_EMPTY), np.empty(0), problems=["the page is empty"])
    _refuse_html(body)
    reader = _PageReader(openmetrics, strict, cache.heads)
    try:
        page = reader.read(body)
    except ParseError:
        raise
    except Exception as error:
        page = _read_with_prometheus_client(body, openmetrics, error)
        reader.plain = False
    page.layout = cache.intern(page.layout)
    if reader.plain and not page.problems:
        cache.remember(form, text, lines, page.layout, reader.rows)
    return page


def is_openmetrics(body: bytes, content_type: str) -> bool:
    """Whether a page is to be read as OpenMetrics, see `parse`."""
    kind, _, parameters = content_type.lower().partition(";")
    if kind.strip() == "application/openmetrics-text":
        return True
    if kind.strip() == "text/plain" and "version" in parameters:
        return False
    return body.endswith((b"\n# EOF\n", b"\n# EOF")) or body in (b"# EOF\n", b"# EOF")


def _refuse_html(body: bytes) -> None:
    start = body[:512].lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body", b"<!--")):
        raise ParseError("HTML page, not metrics: is this behind a login?")


class _PageReader:
    """Reads one page line by line. Afterwards `plain` says whether all lines were in the plainest form,
    and `rows` on which lines the samples stand."""

    def __init__(self, openmetrics: bool, strict: bool, heads: dict[str, Series]) -> None:
        self._openmetrics = openmetrics
        self._strict = strict
        self._heads = heads
        self._problems = ProblemList()
        self._series: list[Series] = []
        self._types: dict[str, str] = {}
        self._ended = False
        self._text_rules = TextRules()
        self.plain = True
        self.rows: list[int] = []

    def read(self, body: bytes) -> Page:
        try:
            lines = body.decode("utf-8").split("\n")
        except UnicodeDecodeError:
            self.plain = False
            lines = body.decode("utf-8", "surrogateescape").split("\n")
        last = lines.pop()
        if self._strict and self._openmetrics:
            return self._read_to_the_letter(lines, last)
        values = self._read_plain(lines) if self.plain else None
        if values is None:
            values, timestamps = self._read_carefully(lines)
        else:
            timestamps = None
        self._check_end(last, len(lines) + 1)
        if not self._series and self._problems:
            raise ParseError(f"no line is a metric: {self._problems.lines()[0]}")
        return self._page(values, timestamps)

    def _read_plain(self, lines: list[str]) -> NDArray[np.float64] | None:
        """Values, if every line is `name{labels} value` or a comment; None at the first that is not."""
        heads, texts = self._heads, []
        for row, line in enumerate(lines):
            if line.startswith("#"):
                try:
                    self._read_comment(line)
                except LineError:
                    return None
                if self._ended and row != len(lines) - 1:
                    return None
                continue
            if not line and not self._openmetrics:
                continue
            head, _, value = line.rpartition(" ")
            series = heads.get(head)
            if series is None:
                series = read_plain_series(head)
                if series is None:
                    return None
                heads[head] = series
            self._series.append(series)
            self.rows.append(row)
            texts.append(value)
        if self._strict:
            try:
                for series in self._series:
                    self._text_rules.sample(series)
            except LineError:
                return None
        return decode_values(texts)

    def _read_to_the_letter(self, lines: list[str], last: str) -> Page:
        """A page as OpenMetrics 1.0 demands it; raises ParseError at the first line that is not."""
        self.plain = False
        rules = OpenMetricsRules()
        values: list[float] = []
        stamps: list[int] = []
        number = 0
        try:
            for line in [*lines, last] if last else lines:
                number += 1
                if self._ended:
                    raise LineError("text after # EOF")
                if _UNDECODABLE.search(line):
                    raise LineError("not UTF-8")
                if line == "# EOF":
                    self._ended = True
                elif line.startswith("#"):
                    metadata = read_strict_metadata(line)
                    rules.metadata(*metadata)
                    self._keep(metadata)
                elif not line:
                    raise LineError("blank line")
                else:
                    sample, stamp = read_strict_sample(line)
                    rules.sample(sample)
                    self._series.append(sample.series)
                    values.append(sample.value)
                    stamps.append(stamp)
            rules.end()
        except LineError as error:
            raise ParseError(f"line {number}: {error}") from None
        if not self._ended:
            raise ParseError(f"line {len(lines) + 1}: no # EOF: the page is cut")
        timestamps = np.array(stamps, np.int64) if any(stamp != NO_TIMESTAMP for stamp in stamps) else None
        return self._page(np.array(values, np.float64), timestamps)

    def _read_carefully(self, lines: list[str]) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
        self.plain = False
        self._ended = False
        self._series.clear()
        self._text_rules = TextRules()
        values: list[float] = []
        stamps: list[int] = []
        for number, line in enumerate(lines, 1):
            if self._ended:
                self._problem(number, "text after # EOF")
                break
            try:
                if _UNDECODABLE.search(line):
                    raise LineError("not UTF-8")
                if line.startswith("#") or (not self._openmetrics and line.lstrip(" \t").startswith("#")):
                    self._read_comment(line if self._openmetrics else line.strip())
                elif not line.strip(" \t\r"):
                    if self._openmetrics:
                        raise LineError("blank line")
                else:
                    sample = self._read_known(line) or self._read_new(line)
                    if self._strict:
                        self._text_rules.sample(sample.series)
                    self._series.append(sample.series)
                    values.append(sample.value)
                    stamps.append(sample.timestamp)
            except LineError as error:
                self._problem(number, str(error))
        timestamps = np.array(stamps, np.int64) if any(stamp != NO_TIMESTAMP for stamp in stamps) else None
        return np.array(values, np.float64), timestamps

    def _read_known(self, line: str) -> SampleLine | None:
        """A plain line of a series seen before, with or without a timestamp; None where in doubt."""
        head, _, last = line.rpartition(" ")
        try:
            series = self._heads.get(head)
            if series is not None:
                return SampleLine(series, read_number(last), NO_TIMESTAMP)
            head, _, value = head.rpartition(" ")
            series = self._heads.get(head)
            if series is not None:
                stamp = read_seconds(last) if self._openmetrics else read_milliseconds(last)
                return SampleLine(series, read_number(value), stamp)
        except LineError:
            pass
        return None

    def _read_new(self, line: str) -> SampleLine:
        sample = read_scraped_sample(line) if self._openmetrics else read_sample(line, openmetrics=False)
        head = line.rsplit(" ", 1 if sample.timestamp == NO_TIMESTAMP else 2)[0]
        if read_plain_series(head) == sample.series:
            self._heads[head] = sample.series
        return sample

    def _read_comment(self, line: str) -> None:
        if self._openmetrics and line == "# EOF":
            self._ended = True
            return
        metadata = read_scraped_metadata(line) if self._openmetrics else read_metadata(line)
        if metadata is None:
            return
        if self._strict:
            self._text_rules.metadata(metadata, self._series)
        self._keep(metadata)

    def _keep(self, metadata: Metadata) -> None:
        if metadata.kind == "TYPE":
            self._types.setdefault(metadata.family, metadata.text)

    def _check_end(self, last: str, number: int) -> None:
        if self._openmetrics and last == "# EOF" and not self._ended:
            self._ended = True
        elif last.strip():
            self._problem(number, "no newline at its end: the page is cut; line dropped")
        if self._openmetrics and not self._ended:
            self._problem(number, "no # EOF: the page is cut")

    def _problem(self, number: int, reason: str) -> None:
        if self._strict:
            raise ParseError(f"line {number}: {reason}")
        self._problems.add(f"line {number}: {reason}")

    def _page(self, values: NDArray[np.float64], timestamps: NDArray[np.int64] | None) -> Page:
        if len(set(self._series)) != len(self._series):
            first: dict[Series, int] = {}
            for index, series in enumerate(self._series):
                if first.setdefault(series, index) != index:
                    self._problems.add(f"series {series_text(series)} stands twice; the first value is kept")
            kept = list(first.values())
            self._series = list(first)
            values = values[kept]
            timestamps = timestamps[kept] if timestamps is not None else None
        layout = Layout(self._series, self._types)
        return Page(layout, values, timestamps, self._problems.lines())


def series_text(series: Series) -> str:
    """A series the way people write it: `name{label="value"}`."""
    inside = ",".join(f'{name}="{value}"' for name, value in series.labels)
    return f"{series.name}{{{inside}}}" if inside else series.name


def _read_with_prometheus_client(body: bytes, openmetrics: bool, fault: Exception) -> Page:
    """The last resort. Counters of the text format come out with `_total`, as prometheus-client names them."""
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
    from prometheus_client.parser import text_string_to_metric_families as read_text

    try:
        families = list((read_openmetrics if openmetrics else read_text)(body.decode("utf-8")))
    except ValueError as error:
        raise ParseError(f"cannot be read: {' '.join(str(error).split())[:200] or 'not a metrics page'}") from fault
    samples = [sample for family in families for sample in family.samples]
    layout = Layout(
        [Series(sample.name, tuple(sorted(sample.labels.items()))) for sample in samples],
        {family.name: family.type for family in families},
    )
    stamps = [NO_TIMESTAMP if sample.timestamp is None else round(float(sample.timestamp) * 1000) for sample in samples]
    return Page(
        layout,
        np.array([float(sample.value) for sample in samples], np.float64),
        np.array(stamps, np.int64) if any(stamp != NO_TIMESTAMP for stamp in stamps) else None,
        [f"read by prometheus-client, since inferdoc's parser failed: {type(fault).__name__}"],
    )
