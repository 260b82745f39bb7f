"""The careful reading of single lines of Prometheus text 0.0.4 and OpenMetrics 1.0.

Everything here reads one line at a time and says what is wrong with it. The fast paths for whole
pages and files fall back on it wherever a line is not in the plainest form.

Sources: the Prometheus exposition formats page (text format 0.0.4) and the OpenMetrics 1.0
specification; quoted UTF-8 names as Prometheus 3 writes them.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import NamedTuple

from inferdoc.collect.samples import METRIC_TYPES, NO_TIMESTAMP, Labels, Series

_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_QUOTED = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_ESCAPE = re.compile(r'\\[\\n"]')
_ESCAPED_AS = {r"\\": "\\", r"\n": "\n", r"\"": '"'}
_BLANKS = re.compile(r"[ \t]*")
_WORD = re.compile(r"[^ \t]+")
_DECLARATION = re.compile(r"#[ \t]*(TYPE|HELP|UNIT)[ \t]+(.+)", re.DOTALL)
_PLAIN_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="([^"\\]*)"(?:,|\Z)')
_PAIRS_KEPT = 20_000
"""Labels of which one object is kept, 5 MB of them."""
_PLAIN_SERIES = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?", re.DOTALL)
_NOT_NUMERIC = re.compile(r"[^0-9.eE+\-infatyINFATY]")
_MILLISECONDS = re.compile(r"[+-]?[0-9]{1,18}\Z")
_EXEMPLAR = re.compile(r'# \{(?:[^"\\}]|"(?:[^"\\]|\\.)*")*\} (?P<value>[^ ]+)(?: (?P<time>[^ ]+))?\Z')

MAX_SECONDS = 10**11
"""Timestamps beyond this (the year 5138) are taken for milliseconds where seconds belong."""


class LineError(ValueError):
    """Why one line cannot be read; the caller adds where it stands."""


class SampleLine(NamedTuple):
    """A sample line taken apart: `timestamp` in milliseconds or `NO_TIMESTAMP`."""

    series: Series
    value: float
    timestamp: int


class Metadata(NamedTuple):
    """A `# TYPE`, `# HELP` or `# UNIT` line."""

    kind: str
    family: str
    text: str


def read_number(text: str) -> float:
    """`float(text)`, without what only Python takes for numbers: underscores, blanks, digits of other scripts."""
    if _NOT_NUMERIC.search(text):
        raise LineError(f"value {show(text)} is not a number")
    try:
        return float(text)
    except ValueError:
        raise LineError(f"value {show(text)} is not a number") from None


def read_seconds(text: str) -> int:
    """An OpenMetrics timestamp (seconds, decimal) as milliseconds, rounded half to even."""
    if _NOT_NUMERIC.search(text):
        raise LineError(f"timestamp {show(text)} is not a number of seconds")
    try:
        seconds = Decimal(text)
    except InvalidOperation:
        raise LineError(f"timestamp {show(text)} is not a number of seconds") from None
    if not seconds.is_finite():
        raise LineError(f"timestamp {show(text)} is not a number of seconds")
    if not -MAX_SECONDS < seconds < MAX_SECONDS:  # abs() overflows above 1e999999
        raise LineError(f"timestamp {show(text)} is out of range: OpenMetrics counts seconds, not milliseconds")
    return round(seconds * 1000)


def read_milliseconds(text: str) -> int:
    """A timestamp of the text format: whole milliseconds since 1970 UTC."""
    if not _MILLISECONDS.match(text):
        raise LineError(f"timestamp {show(text)} is not a whole number of milliseconds")
    return int(text)


def read_plain_labels(text: str) -> Labels | None:
    """Labels between braces in the plainest form (no blanks, no escapes), sorted; None where it is not that."""
    pairs = _PLAIN_LABEL.findall(text)
    width = -1
    for name, value in pairs:
        width += len(name) + len(value) + 4
    if width != len(text):
        return None
    if len(pairs) > 1:
        pairs.sort()
        if len({name for name, _ in pairs}) != len(pairs):
            return None
    return tuple([_pair(name, value) for name, value in pairs])


@lru_cache(maxsize=_PAIRS_KEPT)
def _pair(name: str, value: str) -> tuple[str, str]:
    """The same object for every series with this label: the series of a page differ in one label of ten."""
    return name, value


def read_plain_series(text: str) -> Series | None:
    """`name` or `name{labels}` in the plainest form; None where the text is not that."""
    match = _PLAIN_SERIES.fullmatch(text)
    if match is None:
        return None
    name, inside = match.groups()
    if not inside:
        return Series(name, ())
    labels = read_plain_labels(inside)
    return None if labels is None or "__name__" in dict(labels) else Series(name, labels)


def read_sample(line: str, openmetrics: bool, *, trailing_comma: bool = True) -> SampleLine:
    """Read one sample line.

    Args:
        line: without its newline. Blanks around tokens are allowed in the text format only.
        openmetrics: timestamps in seconds, one space between tokens, exemplars allowed (and dropped).
        trailing_comma: a comma may stand before the closing brace.

    Raises:
        LineError: with the reason in words.
    """
    if not openmetrics:
        line = line.strip(" \t\r")
    series, position = read_series(line, trailing_comma=trailing_comma)
    rest = line[position:]
    if openmetrics:
        if not rest.startswith(" "):
            raise LineError(_missing_value(rest))
        return _read_openmetrics_rest(series, rest[1:])
    fields = _WORD.findall(rest)
    if not fields:
        raise LineError(_missing_value(rest))
    if len(fields) > 2:
        raise LineError(f"unexpected text {show(fields[2])} after value and timestamp")
    stamp = read_milliseconds(fields[1]) if len(fields) == 2 else NO_TIMESTAMP
    return SampleLine(series, read_number(fields[0]), stamp)


def read_metadata(line: str, *, stripped: bool = True) -> Metadata | None:
    """Read a line that starts with `#`; None for a comment that declares nothing.

    Args:
        stripped: take blanks off both ends of the text, and refuse an unknown type. Otherwise the text is whatever
            follows one space; it may be empty.

    Raises:
        LineError: a TYPE, HELP or UNIT line that declares nothing readable.
    """
    match = _DECLARATION.match(line)
    if match is None:
        return None
    kind, rest = match.groups()
    family, position = _read_family(rest)
    if not stripped:
        if rest[position : position + 1] != " ":
            raise LineError(f"{kind} of {family} has no space behind the name")
        return Metadata(kind, family, rest[position + 1 :])
    text = rest[position:].strip(" \t\r")
    if kind == "TYPE" and text not in METRIC_TYPES:
        raise LineError(f"TYPE of {family} is {show(text)}, which is no metric type")
    return Metadata(kind, family, text)


def _read_family(text: str) -> tuple[str, int]:
    quoted = _QUOTED.match(text)
    if quoted:
        return _unescape(quoted.group(1)), quoted.end()
    name = _METRIC_NAME.match(text)
    if name is None or not (name.end() == len(text) or text[name.end()] in " \t\r"):
        raise LineError(f"invalid metric name {show(text.split(' ')[0])}")
    return name.group(), name.end()


def read_series(line: str, *, trailing_comma: bool = True) -> tuple[Series, int]:
    """The series at the start of a line, and the position behind it."""
    match = _METRIC_NAME.match(line)
    name = match.group() if match else ""
    position = match.end() if match else 0
    if not name and not line.startswith("{"):
        raise LineError(f"invalid metric name at {show(line)}")
    brace = _skip_blanks(line, position)
    if line[brace : brace + 1] != "{":
        if line[position : position + 1] not in ("", " ", "\t"):
            raise LineError(f"invalid metric name {show(line.split(' ')[0])}")
        return Series(name, ()), position
    name, labels, position = read_labels(line, brace + 1, name, trailing_comma=trailing_comma)
    if not name:
        raise LineError("no metric name")
    return Series(name, tuple(sorted(labels.items()))), position


def read_labels(line: str, position: int, name: str, *, trailing_comma: bool = True) -> tuple[str, dict[str, str], int]:
    """The metric's name (which may stand in quotes among the labels), the labels, and the position behind the closing
    brace. position: behind the opening one."""
    labels: dict[str, str] = {}
    position = _skip_blanks(line, position)
    while line[position : position + 1] != "}":
        label, value, position = _read_label(line, position)
        if value is None or label == "__name__":
            if name:
                raise LineError("metric name given twice")
            name = label if value is None else value
        elif label in labels:
            raise LineError(f"label {label} given twice")
        else:
            labels[label] = value
        position = _skip_blanks(line, position)
        following = line[position : position + 1]
        if following == ",":
            position = _skip_blanks(line, position + 1)
            if not trailing_comma and line[position : position + 1] == "}":
                raise LineError("comma before the closing brace")
        elif following != "}":
            raise LineError(
                "labels are cut: no closing brace" if not following else f"no comma at {show(line[position:])}"
            )
    return name, labels, position + 1


def _read_label(line: str, position: int) -> tuple[str, str | None, int]:
    """Label name, value (None: the quoted text is the metric's name), and the position behind."""
    quoted = _QUOTED.match(line, position)
    if quoted:
        label, position = _unescape(quoted.group(1)), quoted.end()
        after = _skip_blanks(line, position)
        if line[after : after + 1] in (",", "}"):
            return label, None, position
    else:
        match = _LABEL_NAME.match(line, position)
        if match is None:
            raise LineError(_cut_or("no label name", line, position))
        label, position = match.group(), match.end()
    position = _skip_blanks(line, position)
    if line[position : position + 1] != "=":
        raise LineError(_cut_or(f"no = after label {label}", line, position))
    position = _skip_blanks(line, position + 1)
    value = _QUOTED.match(line, position)
    if value is None:
        raise LineError(f"value of label {label} is not in quotes, or its closing quote is missing")
    return label, _unescape(value.group(1)), value.end()


def _read_openmetrics_rest(series: Series, rest: str) -> SampleLine:
    text, hash_sign, exemplar = rest.partition(" # ")
    if hash_sign and not _valid_exemplar(exemplar):
        raise LineError(f"invalid exemplar {show(exemplar)}")
    fields = text.split(" ")
    if len(fields) > 2:
        raise LineError(f"unexpected text {show(fields[2])} after value and timestamp")
    stamp = read_seconds(fields[1]) if len(fields) == 2 else NO_TIMESTAMP
    return SampleLine(series, read_number(fields[0]), stamp)


def _valid_exemplar(text: str) -> bool:
    match = _EXEMPLAR.match("# " + text)
    if match is None:
        return False
    try:
        read_number(match["value"])
        if match["time"] is not None:
            read_seconds(match["time"])
    except LineError:
        return False
    return True


def _skip_blanks(line: str, position: int) -> int:
    match = _BLANKS.match(line, position)
    return match.end() if match else position


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED_AS[match.group()], text) if "\\" in text else text


def _missing_value(rest: str) -> str:
    return "no value" if not rest.strip() else f"no space before the value at {show(rest)}"


def _cut_or(reason: str, line: str, position: int) -> str:
    return f"{reason} at {show(line[position:])}" if position < len(line) else "labels are cut: no closing brace"


def show(text: str) -> str:
    """A short, printable excerpt."""
    shown = text if len(text) <= 40 else text[:37] + "..."
    return ascii(shown) if not shown.isprintable() else f"'{shown}'"
