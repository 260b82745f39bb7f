"""Backfills recording rules: what they would have recorded from raw samples.

Recording rules read what other recording rules write. So they are evaluated level by level in a private Prometheus that
stores the raw samples and the levels below, each at the interval of its group: what `promtool tsdb create-blocks-from
rules` does with one level. A series that ends stays visible for five more minutes, because no text format has a
staleness marker. A pod has one info series at a time, otherwise joins fail: where it changes, the earlier series ends
five minutes early.
"""

from __future__ import annotations

import ctypes
import fcntl
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import requests

from inferdoc.backtest.recording import series_text
from inferdoc.backtest.replay import METRIC, RuleSet
from inferdoc.errors import NOT_JSON, InferdocError
from inferdoc.generate.pod_info import ONE_OF_A_POD, POD
from inferdoc.generate.promtool import create_blocks
from inferdoc.times import length_of

MISSING = "prometheus is not on the PATH; rules are evaluated by it (Debian and Ubuntu: apt-get install prometheus)"
START_SECONDS, STOP_SECONDS, TRIES = 60, 20, 3


@contextmanager
def serving(folder: Path, *more: str, auth: tuple[str, str] | None = None) -> Iterator[str]:
    """The address of a server over the blocks in folder/data; it is stopped in any case. more: further options; auth:
    user and password that they require. Raises InferdocError."""
    program = shutil.which("prometheus")
    if program is None:
        raise InferdocError(MISSING)
    (folder / "prometheus.yml").write_text("global: {}\n", "utf-8")
    for _ in range(TRIES):  # another process may take the port in between
        address = f"127.0.0.1:{free_port()}"
        options = {
            "config.file": folder / "prometheus.yml",
            "storage.tsdb.path": folder / "data",
            "storage.tsdb.retention.time": "100y",
            "web.listen-address": address,
            "log.level": "warn",
        }
        command = [program, *(f"--{name}={value}" for name, value in options.items()), *more]
        with started(command, f"http://{address}/-/ready", folder / "log", auth) as is_ready:
            if is_ready:
                yield f"http://{address}"
                return
    log_lines = (folder / "log").read_text("utf-8", "replace").splitlines()
    raise InferdocError(f"{program} does not start: {log_lines[-1] if log_lines else 'its log is empty'}")


def free_port() -> int:
    """A TCP port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def started(command: Sequence[str], url: str, log: Path, auth: tuple[str, str] | None = None) -> Iterator[bool]:
    """Runs a server, and yields whether it responds at `url`; it is stopped in any case."""
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, preexec_fn=die_with_parent)
    try:
        yield _is_ready(process, url, auth)
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def die_with_parent() -> None:
    """In a child process: the kernel kills it if its parent is killed (prctl(2), Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _is_ready(process: subprocess.Popen[bytes], url: str, auth: tuple[str, str] | None) -> bool:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            if requests.get(url, timeout=2, auth=auth).status_code == 200:
                return True
        except requests.exceptions.RequestException:
            pass
        time.sleep(0.05)
    return False


INTERVAL = "1m"
"""Evaluation interval of a group that sets none: Prometheus' default."""
MOST_POINTS = 10_000
"""Points of a series in one response; Prometheus refuses more than 11,000 (web/api/v1/api.go)."""
ANSWER_SECONDS = 300
LOOKBACK_SECONDS = 300
"""How long a server returns the last sample of a series (--query.lookback-delta)."""
STAGE = ".inferdoc-backfill"
"""Prometheus ignores a folder of this name."""
LONGEST_BLOCK = "768h"
"""Block duration of the private server."""


class RecordingRule(NamedTuple):
    """record, expr, labels: as in the file; seconds: between two evaluations."""

    record: str
    expr: str
    labels: tuple[tuple[str, str], ...]
    seconds: int


@dataclass
class Backfilled:
    """Counts of what was written: rules with output, series and samples."""

    rules: int = 0
    series: int = 0
    samples: int = 0


class _RangeSeries(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]]


class _RangeResult(msgspec.Struct):
    result: list[_RangeSeries] = []


class _RangeAnswer(msgspec.Struct):
    status: str
    data: _RangeResult | None = None
    error: str = ""


def recording_rules(rules: RuleSet) -> list[RecordingRule]:
    """The recording rules of the files, in their order. Raises InferdocError."""
    return [
        RecordingRule(
            rule["record"],
            str(rule["expr"]),
            tuple(sorted(rule.get("labels", {}).items())),
            int(length_of(group.get("interval", INTERVAL), "interval")),
        )
        for document in rules.documents
        for group in document["groups"]
        for rule in group["rules"]
        if "record" in rule
    ]


def levels(rules: Sequence[RecordingRule]) -> list[list[RecordingRule]]:
    """The rules such that each level needs only those before it. Raises InferdocError if records depend on each other
    in a circle."""
    below: dict[str, set[str]] = {}
    known = {rule.record for rule in rules}
    for rule in rules:
        below.setdefault(rule.record, set()).update(known.intersection(METRIC.findall(rule.expr)) - {rule.record})
    found: list[list[RecordingRule]] = []
    done: set[str] = set()
    while known - done:
        level = {name for name in known - done if below[name] <= done}
        if not level:
            raise InferdocError(f"recording rules depend on each other in a circle: {', '.join(sorted(known - done))}")
        found.append([rule for rule in rules if rule.record in level])
        done |= level
    return found


def backfill(
    rules: RuleSet, raw: Path, span: tuple[float, float], blocks: Path, say: Callable[[str], None]
) -> Backfilled:
    """Writes what the rules would have recorded as blocks. raw: OpenMetrics text with timestamps; span: first and last
    evaluation, seconds since 1970; blocks: the folder for them. Raises InferdocError."""
    counts, ordered = Backfilled(), levels(recording_rules(rules))
    with tempfile.TemporaryDirectory(prefix="inferdoc-") as name, Path(name, "whole.om").open("wb") as whole:
        folder = Path(name)
        create_blocks(raw, folder / "data", LONGEST_BLOCK)
        for number, level in enumerate(ordered, start=1):
            say(f"level {number} of {len(ordered)}: {len(level)} rules")
            text, before = folder / "level.om", counts.samples
            with serving(folder) as address, text.open("wb") as stream:
                for record in dict.fromkeys(rule.record for rule in level):
                    of_record = [rule for rule in level if rule.record == record]
                    stream.writelines(line.encode() for line in _lines(address, of_record, span, counts))
            if counts.samples > before:
                with text.open("rb") as stream:
                    shutil.copyfileobj(stream, whole)
                _write_end(text)
                create_blocks(text, folder / "data", LONGEST_BLOCK)
        whole.flush()
        if counts.samples:
            _write_end(Path(whole.name))
            with _staged(blocks) as written:
                create_blocks(Path(whole.name), written)
    return counts


@contextmanager
def _staged(blocks: Path) -> Iterator[Path]:
    """A folder whose blocks are moved to `blocks` at the end: a run that is killed before adds none. What such a run
    left is removed. Raises InferdocError where another run is writing there."""
    folder = blocks / STAGE
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for left in folder.iterdir():
            shutil.rmtree(left)
        yield folder
        for block in sorted(folder.iterdir()):
            block.rename(blocks / block.name)
        folder.rmdir()
    except BlockingIOError:
        raise InferdocError(
            f"{blocks}: another backfill is writing there; wait for it, or give another folder"
        ) from None
    finally:
        os.close(handle)


def _write_end(text: Path) -> None:
    with text.open("ab") as stream:
        stream.write(b"# EOF\n")


def _lines(
    address: str, rules: Sequence[RecordingRule], span: tuple[float, float], counts: Backfilled
) -> Iterator[str]:
    """The samples of one record in OpenMetrics, from every rule that writes it."""
    started = False
    for rule in rules:
        evaluated = _evaluated(address, rule, span)
        recorded = _by_name(rule, _one_at_a_time(evaluated) if rule.record in ONE_OF_A_POD else evaluated)
        if recorded and not started:
            yield f"# TYPE {rule.record} gauge\n"
            started = True
        for name, values in recorded.items():
            counts.samples += len(values)
            yield from (f"{name} {value} {at:.3f}\n" for at, value in sorted(values.items()))
        counts.series += len(recorded)
        counts.rules += bool(recorded)


def _by_name(rule: RecordingRule, evaluated: Iterable[_RangeSeries]) -> dict[str, dict[float, str]]:
    """The samples of each recorded series by time. Over a range, an expression with `or` gives one series for each of
    its sides that kept the name of a metric; as records these are one."""
    recorded: dict[str, dict[float, str]] = {}
    for series in evaluated:
        values = recorded.setdefault(_named(rule, series.metric), {})
        for at, value in series.values:
            values.setdefault(at, value)
    return recorded


def _one_at_a_time(evaluated: Iterable[_RangeSeries]) -> list[_RangeSeries]:
    """The series without the samples that would still be visible when the next series of the same pod starts."""
    series = list(evaluated)
    at: dict[tuple[str, ...], list[tuple[float, int]]] = {}
    for number, one in enumerate(series):
        of_pod = at.setdefault(tuple(one.metric.get(name, "") for name in POD), [])
        of_pod += [(time, number) for time, _ in one.values]
    hidden = {
        (number, time)
        for samples in map(sorted, at.values())
        for place, (time, number) in enumerate(samples)
        if _another_begins(samples, place)
    }
    return [
        _RangeSeries(one.metric, [sample for sample in one.values if (number, sample[0]) not in hidden])
        for number, one in enumerate(series)
    ]


def _another_begins(samples: Sequence[tuple[float, int]], place: int) -> bool:
    """Whether a sample of another series follows while this one is visible. samples: times and numbers of series."""
    time, number = samples[place]
    following = itertools.takewhile(lambda sample: sample[0] - time <= LOOKBACK_SECONDS, samples[place + 1 :])
    return any(other != number for _, other in following)


def _named(rule: RecordingRule, metric: Mapping[str, str]) -> str:
    labels = {key: value for key, value in metric.items() if key != "__name__"} | dict(rule.labels)
    return series_text(rule.record, sorted(labels.items()))


def _evaluated(address: str, rule: RecordingRule, span: tuple[float, float]) -> Iterator[_RangeSeries]:
    first, last = -(-span[0] // rule.seconds) * rule.seconds, span[1] // rule.seconds * rule.seconds
    while first <= last:
        end = min(last, first + (MOST_POINTS - 1) * rule.seconds)
        form: dict[str, str | float] = {"query": rule.expr, "start": first, "end": end, "step": rule.seconds}
        try:
            body = requests.post(f"{address}/api/v1/query_range", data=form, timeout=ANSWER_SECONDS).content
            answer = msgspec.json.decode(body, type=_RangeAnswer)
        except (requests.exceptions.RequestException, *NOT_JSON) as error:
            raise InferdocError(f"{rule.record}: the server that evaluates it does not respond: {error}") from None
        if answer.status != "success" or answer.data is None:
            raise InferdocError(f"{rule.record}: cannot be evaluated: {answer.error}")
        yield from answer.data.result
        first = end + rule.seconds
