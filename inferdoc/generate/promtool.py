"""promtool on generated rules: are they well formed, and do their unit tests pass."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from inferdoc.errors import InferdocError
from inferdoc.generate.promql_words import selected
from inferdoc.source.reads import matches

MISSING = "promtool is not on the PATH; it comes with Prometheus (Debian and Ubuntu: apt-get install prometheus)"
LIMIT_SECONDS = 600
AT_ONCE = 2
MEMORY_FOR_TIME = {"GOGC": "800"}
"""promtool needs some 60 MB, and spends a quarter of its time on freeing it."""
NAME = re.compile(r"[a-z]+:inferdoc_\w+:\w+")
PROGRESS = re.compile(r"(Checking |Unit Testing:|SUCCESS|FAILED:?$|name: )")
ALERTS = re.compile(r"alertname: (\S+), time: (\S+?), *\n\s*exp:\[(.*?)\], *\n\s*got:\[(.*?)\]\n", re.DOTALL)
VALUES = re.compile(r'expr: "(.*)", time: (\S+?), *\n\s*exp: (.*)\n\s*got: (.*)\n')
LABELS = re.compile(r"Labels:\{(.*?)\}\n")
SERIES = re.compile(r"\{(.*?)\}")
ALERT = re.compile(r'alertname="([^"]+)"')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
WITHOUT_INPUT = {"absent", "absent_over_time", "vector", "ALERTS", "ALERTS_FOR_STATE"}
"""Functions that have a value where nothing is selected, and series that promtool makes itself."""


@dataclass(frozen=True)
class PromtoolCheck:
    """problems: one line each; count: how many rules or test files were looked at."""

    problems: list[str]
    count: int


def check(files: Iterable[Path]) -> PromtoolCheck:
    """`promtool check rules`, with its lints as errors. Raises InferdocError where promtool or a file is missing."""
    paths = list(files)
    done = _run("check", "rules", "--lint=all", "--lint-fatal", *map(str, paths))
    counted = sum(int(number) for number in re.findall(r"SUCCESS: (\d+) rules", done.stdout))
    if done.returncode == 0:
        return PromtoolCheck([], counted)
    return PromtoolCheck(_complaints(done), counted)


def test(tests: Iterable[Path]) -> PromtoolCheck:
    """`promtool test rules`, a file at a time.

    A test sees of its rule files what its alerts rest on: the other alerts would cost time and change nothing. A rule
    file that is missing, or does not hold an alert that the test names, is a failure; promtool itself passes there.
    """
    paths = sorted(tests)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(_test, paths))
    return PromtoolCheck([line for lines in found for line in lines], len(paths))


def output_of_test(path: Path) -> str:
    """All that `promtool test rules` prints of a test file. Raises InferdocError where promtool is missing."""
    done = _run("test", "rules", str(path))
    return done.stdout + done.stderr


def create_blocks(text: Path, data: Path, longest: str = "2h") -> None:
    """Writes OpenMetrics text with timestamps as blocks of a Prometheus. longest: of a block; promtool reads the whole
    text once for each. Raises InferdocError."""
    data.mkdir(parents=True, exist_ok=True)
    form = ("create-blocks-from", f"--max-block-duration={longest}", "openmetrics", "--quiet")
    done = _run("tsdb", *form, str(text), str(data))
    if done.returncode:
        raise InferdocError(f"{text}: promtool writes no blocks of it: {' '.join((done.stdout + done.stderr).split())}")


def reduced(
    documents: Mapping[str, dict[str, Any]], subjects: set[str], series: Iterable[str] | None = None
) -> dict[str, dict[str, Any]]:
    """Rule files with these alerts and records and the recording rules they rest on; every group stays, if empty.

    series: the input series of a test (`name{label="value"}`); recording rules that select none of them, nor what
    others record of them, are left out too.
    """
    rules = [rule for document in documents.values() for group in document["groups"] for rule in group["rules"]]
    recorded = {rule["record"]: rule for rule in rules if "record" in rule}
    open_, needed = [rule["expr"] for rule in rules if name_of(rule) in subjects], set[str]()
    while open_:
        for name in NAME.findall(open_.pop()):
            if name in recorded and name not in needed:
                needed.add(name)
                open_.append(recorded[name]["expr"])
    if series is not None:
        needed = _with_input({name: recorded[name]["expr"] for name in needed}, series)
    kept = subjects | needed
    return {
        path: {
            "groups": [
                {**group, "rules": [r for r in group["rules"] if name_of(r) in kept]} for group in found["groups"]
            ]
        }
        for path, found in documents.items()
    }


def _with_input(exprs: Mapping[str, str], series: Iterable[str]) -> set[str]:
    """The records, of these expressions, that can have a value in a test with these input series."""
    inputs: dict[str, list[dict[str, str]]] = {}
    for text in series:
        name, _, labels = text.partition("{")
        inputs.setdefault(name, []).append(dict(LABEL.findall(labels)))
    found, left = set[str](), dict(exprs)
    while filled := {name for name, expr in left.items() if _has_input(expr, inputs, found)}:
        found |= filled
        left = {name: expr for name, expr in left.items() if name not in filled}
    return found


def _has_input(expr: str, inputs: Mapping[str, list[dict[str, str]]], records: set[str]) -> bool:
    """Whether an expression selects an input series or a record, or needs neither."""
    for name, selector in selected(expr):
        if name in WITHOUT_INPUT or name in records:
            return True
        if any(matches(labels, selector) for labels in inputs.get(name, ())):
            return True
        names = [match for match in selector if match[0] == "__name__"]
        if not name and any(matches({"__name__": each}, tuple(names)) for each in (*inputs, *records)):
            return True
    return False


def _test(path: Path) -> list[str]:
    document = load(path)
    places = [(path.parent / name).resolve() for name in document.get("rule_files", ())]
    if missing := [place for place in places if not place.is_file()]:
        return [f"{path}: names rules that are not there: {missing[0]}"]
    documents = {str(place): load(place) for place in places}
    subjects = subjects_of(document)
    known = {name_of(rule) for found in documents.values() for group in found["groups"] for rule in group["rules"]}
    if not subjects or not subjects <= known:
        unknown = ", ".join(sorted(subjects - known))
        return [f"{path}: no rule is called {unknown}" if subjects else f"{path}: tests no rule"]
    with tempfile.TemporaryDirectory(prefix="inferdoc-") as name:
        folder, files = Path(name), []
        series = {line["series"] for each in document["tests"] for line in each["input_series"]}
        for number, found in enumerate(reduced(documents, subjects, series).values()):
            files.append(f"rules-{number}.yaml")
            write(folder / files[-1], found)
        write(folder / path.name, {**document, "rule_files": files})
        done = _run("test", "rules", str(folder / path.name))
    return [] if done.returncode == 0 else [f"{path}: {line}" for line in _complaints(done)]


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write a rule or test file for promtool."""
    path.write_text(yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, width=10**6), "utf-8")


def subjects_of(document: Mapping[str, Any]) -> set[str]:
    """Every alert that a test file names, and the records that it reads themselves."""
    found = set()
    for each in document.get("tests", ()):
        found |= {check["alertname"] for check in each.get("alert_rule_test", ())}
        for check in each.get("promql_expr_test", ()):
            found |= set(ALERT.findall(check["expr"]) or NAME.findall(check["expr"]))
    return found


def name_of(rule: Mapping[str, Any]) -> str:
    """What a rule alerts as, or records."""
    return str(rule.get("alert") or rule.get("record"))


def load(path: Path) -> dict[str, Any]:
    try:
        found = yaml.load(path.read_bytes(), yaml.CSafeLoader)
    except OSError as error:
        raise InferdocError(f"{path}: cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise InferdocError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict):
        raise InferdocError(f"{path}: expected a mapping at the top")
    return found


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        raise InferdocError(MISSING)
    command, env = [program, *arguments], {**MEMORY_FOR_TIME, **os.environ}
    try:
        return subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=LIMIT_SECONDS,
            check=False,
            env=env,
        )
    except subprocess.TimeoutExpired:
        raise InferdocError(f"promtool {arguments[0]} did not end within {LIMIT_SECONDS} s") from None


def _complaints(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What promtool has to say, a line per finding, without its progress."""
    output = done.stdout + done.stderr
    failures = [
        _wrong(name, time, LABELS.findall(want), LABELS.findall(got))
        for name, time, want, got in ALERTS.findall(output)
    ]
    for query, time, want, got in VALUES.findall(output):
        name = next(iter(ALERT.findall(query.replace("\\", ""))), query)
        failures.append(_wrong(name, time, SERIES.findall(want), SERIES.findall(got)))
    rest = VALUES.sub("", ALERTS.sub("", output))
    lines = [" ".join(line.split()) for line in rest.splitlines()]
    failures += [line for line in lines if line and not PROGRESS.match(line)]
    return failures or [f"promtool ends with {done.returncode} and says nothing"]


def _wrong(name: str, time: str, expected: list[str], got: list[str]) -> str:
    """Which alerts differ at a moment of a test: those missing, those too many, else what they say."""
    both = (set(expected) - set(got), set(got) - set(expected))
    missing, spare = (", ".join(_where(labels) for labels in sorted(each)) for each in both)
    differs = [f"not firing: {missing}"] if missing else []
    differs += [f"firing: {spare}"] if spare else []
    return f"{name} at {time}: {'; '.join(differs) or 'annotations differ'}"


def _where(labels: str) -> str:
    """What distinguishes one alert of a test from the others."""
    values = re.findall(r'(?:namespace|metric|pod)="([^"]*)"', labels)
    return " ".join(values) or "{}"
