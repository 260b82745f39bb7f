"""What `inferdoc forecast` does, behind the command line."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from inferdoc.errors import ExitCode, InferdocError
from inferdoc.forecast.calendar import zone_of
from inferdoc.forecast.csvfile import from_csv
from inferdoc.forecast.engine import Request, forecast
from inferdoc.forecast.output import to_csv, to_image, to_json, to_table, to_textfile
from inferdoc.forecast.parse import dates_of, moment_of, seconds_of
from inferdoc.forecast.result import Forecast
from inferdoc.forecast.series import Kind, LoadSeries


def run(
    *,
    path: str | None,
    horizon: str,
    zone: str,
    output: str,
    kind: Kind,
    begin: str | None,
    model: str,
    holidays: str | None,
    keep_outages: bool,
    pool: str | None,
    target: str | None,
    fail_on_abstain: bool,
) -> int:
    """Reads, forecasts, writes; returns the exit code."""
    if path is None:
        raise InferdocError("nothing to forecast: give --input FILE (CSV timestamp,value) or a source")
    request = Request(
        horizon=seconds_of(horizon, "--horizon"),
        zone=zone,
        begin=None if begin is None else moment_of(begin, "--from"),
        model=model,
        holidays=dates_of(holidays),
        keep_outages=keep_outages,
    )
    zone_of(zone)
    series = from_csv(path, kind)
    result = forecast(series, request)
    write(render(series, result, output, pool or series.name), target)
    for line in remarks(result):
        print(line, file=sys.stderr)
    return ExitCode.FINDINGS if result.abstained and fail_on_abstain else ExitCode.OK


def render(series: LoadSeries, result: Forecast, output: str, pool: str) -> bytes:
    if output in ("png", "svg"):
        return to_image(series, result, output)
    if output == "prometheus":
        return to_textfile(result, pool, time.time()).encode()
    return {"csv": to_csv, "json": to_json, "table": to_table}[output](result).encode()


def remarks(result: Forecast) -> list[str]:
    """Abstention, fallbacks and notes, for standard error."""
    lines = [f"note: {note}" for note in result.notes]
    if result.abstained:
        shown = "not measurable" if result.skill is None else f"{result.skill:.2f}"
        lines.append(
            f"abstained: {result.reason}; skill {shown}; the numbers are the {result.method}, fit for no schedule"
        )
    return lines


def write(data: bytes, target: str | None) -> None:
    """To standard output, or to a file that is replaced in one step (a scraper never sees half of it)."""
    if target is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    place = Path(target)
    try:
        handle, name = tempfile.mkstemp(dir=place.parent or Path(), prefix=f".{place.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(0o644)
        Path(name).replace(place)
    except OSError as fault:
        raise InferdocError(f"{target}: cannot be written: {fault.strerror or fault}") from fault
