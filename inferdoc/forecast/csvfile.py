"""Reads a load series from CSV: header `timestamp,value`, and an optional `tenant`; plain or gzip, from a file or
standard input."""

from __future__ import annotations

import csv
import gzip
import io
import math
import sys
import zlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import numpy as np

from inferdoc.errors import SourceError
from inferdoc.forecast.series import Kind, LoadSeries, on_grid

MAX_BYTES = 512 * 1024 * 1024
TENANTS, OTHERS = 100, "all other tenants"
"""Tenants that are kept separate: a file may contain thousands."""
GAPS = {"", "nan", "null", "na", "none"}


def from_csv(path: str, kind: Kind = "amount", stdin: BinaryIO | None = None) -> LoadSeries:
    """The series in `path` (`-` = standard input). Rows in any order; equal duplicates are dropped, unequal ones are an
    error that names the line; empty or NaN values and missing rows are gaps. Raises SourceError, one line."""
    where = "standard input" if path == "-" else path
    text = _text(path, where, stdin)
    times, by_tenant = _columns(text, where)
    order = np.argsort(times, kind="stable")
    parts = [on_grid(times[order], values[order], kind, where) for values in by_tenant.values()]
    series = parts[0]
    if len(parts) > 1:
        named = [replace(part, name=tenant) for part, tenant in zip(parts, by_tenant, strict=True)]
        series = replace(series, values=np.sum([part.values for part in named], axis=0), parts=tuple(named))
    if not np.isfinite(series.values).any():
        raise SourceError(f"{where}: every value is empty; a forecast needs numbers in the column `value`")
    name = "load" if path == "-" else Path(path).name.removesuffix(".gz").removesuffix(".csv")
    return replace(series, name=name)


def _text(path: str, where: str, stdin: BinaryIO | None) -> str:
    try:
        raw = (stdin or sys.stdin.buffer).read(MAX_BYTES + 1) if path == "-" else Path(path).read_bytes()
    except OSError as fault:
        raise SourceError(f"{where}: cannot be read: {fault.strerror or fault}") from fault
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as fault:
            raise SourceError(f"{where}: broken gzip ({fault}); was the file cut short?") from fault
    if len(raw) > MAX_BYTES:
        raise SourceError(f"{where}: more than {MAX_BYTES >> 20} MiB of text; aggregate the rows into bins first")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise SourceError(
            f"{where}: not UTF-8 text (byte {fault.start}); expected CSV with the header timestamp,value"
        ) from fault


def _columns(text: str, where: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Moments (Unix seconds), and the load of each tenant at each of them: one without a row at a moment of which
    others have one was idle. A file without the column is of one tenant. Those with little load are one together."""
    rows = _rows(text)
    header = next(rows, None)
    if header is None:
        raise SourceError(f"{where}: empty; expected CSV with the header timestamp,value")
    names = [cell.strip().lower() for cell in header[1]]
    if "timestamp" not in names or "value" not in names:
        shown = ",".join(header[1])[:60]
        raise SourceError(f"{where}: line {header[0]}: header `{shown}` lacks timestamp,value; put that line first")
    at, of = names.index("timestamp"), names.index("value")
    whose = names.index("tenant") if "tenant" in names else None
    loads: dict[str, dict[float, float]] = {}
    for line, cells in rows:
        if len(cells) <= max(at, of, whose or 0):
            raise SourceError(
                f"{where}: line {line}: {len(cells)} column(s), expected {len(names)}; is the line cut short?"
            )
        moment, value = _moment(cells[at], where, line), _value(cells[of], where, line)
        tenant = "" if whose is None else cells[whose].strip()
        before = loads.setdefault(tenant, {}).setdefault(moment, value)
        if before != value and not (math.isnan(before) and math.isnan(value)):
            raise SourceError(
                f"{where}: line {line}: {cells[at].strip()} occurs twice with different values ({before:g}, {value:g})"
                f"{'' if whose is None else f' for tenant {tenant}'}"
            )
    if not loads:
        raise SourceError(f"{where}: a header but no data rows")
    moments = dict.fromkeys(moment for load in loads.values() for moment in load)
    by_tenant: dict[str, np.ndarray] = {}
    for place, tenant in enumerate(sorted(loads, key=lambda name: _sum(loads[name]), reverse=True)):
        values = np.array([loads[tenant].get(moment, 0.0) for moment in moments])
        if place < TENANTS:
            by_tenant[tenant] = values
        else:
            by_tenant[OTHERS] = by_tenant.get(OTHERS, 0.0) + values
    return np.fromiter(moments, dtype=np.float64), by_tenant


def _sum(load: dict[float, float]) -> float:
    return math.fsum(value for value in load.values() if not math.isnan(value))


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""))
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield reader.line_num, cells


def _moment(cell: str, where: str, line: int) -> float:
    cell = cell.strip()
    try:
        seconds = float(cell)
    except ValueError:
        seconds = math.nan
        try:
            parsed = datetime.fromisoformat(cell)
        except ValueError as fault:
            raise SourceError(
                f"{where}: line {line}: timestamp `{cell[:40]}` is neither RFC 3339 nor Unix seconds"
            ) from fault
        if parsed.tzinfo is None:
            raise SourceError(
                f"{where}: line {line}: timestamp `{cell[:40]}` has no zone; write it in UTC with a Z at the end"
            ) from None
        seconds = parsed.astimezone(UTC).timestamp()
    if not 0 <= seconds < 253402300800:
        hint = " (milliseconds? give seconds)" if seconds > 253402300800 else ""
        raise SourceError(f"{where}: line {line}: timestamp `{cell[:40]}` is out of range{hint}")
    return seconds


def _value(cell: str, where: str, line: int) -> float:
    cell = cell.strip()
    if cell.lower() in GAPS:
        return math.nan
    try:
        value = float(cell)
    except ValueError as fault:
        raise SourceError(
            f"{where}: line {line}: value `{cell[:40]}` is not a number (leave it empty for a gap)"
        ) from fault
    if value < 0:
        raise SourceError(
            f"{where}: line {line}: negative value {cell}; load is never below zero (a counter? take its rate)"
        )
    if math.isinf(value):
        raise SourceError(f"{where}: line {line}: value {cell} is not finite (leave it empty for a gap)")
    return value
