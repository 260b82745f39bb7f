"""Rules over a recording, evaluated by promtool: the groups in order, at their interval, with staleness, `for` and
`keep_firing_for` as a server applies them."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from inferdoc.backtest.recording import ScrapedSeries, grid_ms, input_series
from inferdoc.errors import InferdocError
from inferdoc.generate import promtool

STEP_SECONDS = 30
"""Evaluation interval of the pack."""
QUERY = 'ALERTS{alertstate="firing"}'
ANSWER = re.compile(r"time: (\S+?), *\n\s*exp: *(.*)\n\s*got: *(.*)\n")
ENDS = re.compile(r"^\s*(SUCCESS|FAILED)", re.MULTILINE)
"""Its absence means that promtool was killed: no output is then no proof that nothing fired."""
SERIES = re.compile(r"\{((?:[^\"{}]|\"(?:[^\"\\]|\\.)*\")*)\}")
LABEL = re.compile(r'([a-zA-Z_]\w*)=("(?:[^"\\]|\\.)*")')
SPAN = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:(\d+)ms)?")
METRIC = re.compile(r"[a-zA-Z_:][\w:]*")
BY_NAME = re.compile(r'__name__=~?"((?:[^"\\]|\\.)*)"')
NOT_STORED = ("alertname", "alertstate", "__name__")


@dataclass(frozen=True, slots=True)
class Firing:
    """One alert from when it fires to when it last does: seconds since 1970, at the evaluations of its rule."""

    alert: str
    labels: Mapping[str, str]
    begin: float
    end: float


@dataclass(frozen=True)
class RuleSet:
    """Rule files that belong together. name: what reports call them."""

    name: str
    files: tuple[Path, ...]

    @property
    def documents(self) -> list[dict[str, Any]]:
        """The files as read. Raises InferdocError for one that is not there or no rule file."""
        found = []
        for path in self.files:
            try:
                document = yaml.load(path.read_bytes(), yaml.CSafeLoader)
            except OSError as error:
                raise InferdocError(f"{path}: cannot be read: {error.strerror}") from None
            except yaml.YAMLError as error:
                raise InferdocError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
            if not isinstance(document, dict) or not isinstance(document.get("groups"), list):
                raise InferdocError(f"{path}: no rule file: `groups` is missing")
            found.append(document)
        return found

    @property
    def rules(self) -> list[dict[str, Any]]:
        """All rules in the order of the files."""
        return [rule for document in self.documents for group in document["groups"] for rule in group["rules"]]


def metrics_of(rules: RuleSet) -> tuple[frozenset[str], tuple[str, ...]]:
    """Words that may be names of metrics in the expressions of rules, and the patterns on `__name__`."""
    texts = [str(rule["expr"]) for rule in rules.rules]
    words = {word for text in texts for word in METRIC.findall(text)}
    return frozenset(words), tuple(pattern for text in texts for pattern in BY_NAME.findall(text))


def replay(rules: RuleSet, recording: ScrapedSeries, until: float | None = None) -> list[Firing]:
    """The firings, by begin.

    until: the last evaluation, seconds since 1970; default: the last sample. Raises InferdocError where promtool is
    missing or refuses the rules.
    """
    names, patterns = metrics_of(rules)
    begin_ms, end_ms = recording.span_ms
    read = recording.narrowed(names | {"up"}, patterns)
    last = (until if until is not None else end_ms / 1000) - begin_ms / 1000
    times = [STEP_SECONDS * n for n in range(1, int(last // STEP_SECONDS) + 1)]
    if not read.series or not times:
        return []
    states = _evaluated(rules, read, begin_ms, times)
    return sorted(_firings(states, begin_ms / 1000), key=lambda firing: (firing.begin, firing.alert))


def _evaluated(rules: RuleSet, recording: ScrapedSeries, begin_ms: int, times: Sequence[int]) -> dict[int, list[str]]:
    step_ms = grid_ms(recording)
    test = {
        "interval": f"{step_ms}ms",
        "input_series": input_series(recording, begin_ms, step_ms),
        "promql_expr_test": [{"expr": QUERY, "eval_time": f"{at}s", "exp_samples": []} for at in times],
    }
    with tempfile.TemporaryDirectory(prefix="inferdoc-") as name:
        folder, files = Path(name), []
        documents = rules.documents
        for number, document in enumerate(documents):
            files.append(f"rules-{number}.yaml")
            # JSON is YAML, and written many times faster
            (folder / files[-1]).write_text(json.dumps(document), "utf-8")
        order = list(dict.fromkeys(group["name"] for document in documents for group in document["groups"]))
        evaluation = {"evaluation_interval": f"{STEP_SECONDS}s", "group_eval_order": order}
        (folder / "test.yaml").write_text(json.dumps({"rule_files": files, **evaluation, "tests": [test]}), "utf-8")
        output = promtool.output_of_test(folder / "test.yaml")
    if "error" in output.lower() and not ANSWER.search(output):
        raise InferdocError(f"{rules.name}: promtool refuses these rules: {' '.join(output.split())[:400]}")
    if not ENDS.search(output):
        raise InferdocError(f"{rules.name}: promtool was killed before it finished; free memory and run again")
    return {int(_seconds(at)): SERIES.findall(got) for at, _, got in ANSWER.findall(output)}


def _firings(states: Mapping[int, Sequence[str]], origin: float) -> Iterator[Firing]:
    """Joins consecutive evaluations of a firing series into one firing."""
    open_: dict[str, tuple[int, int]] = {}
    for at in sorted(states):
        for series in states[at]:
            begin, last = open_.get(series, (at, at))
            if at - last > STEP_SECONDS:
                yield _firing(series, begin, last, origin)
                begin = at
            open_[series] = (begin, at)
    for series, (begin, last) in open_.items():
        yield _firing(series, begin, last, origin)


def _firing(series: str, begin: int, end: int, origin: float) -> Firing:
    labels = {key: json.loads(value) for key, value in LABEL.findall(series)}
    kept = {key: value for key, value in labels.items() if key not in NOT_STORED}
    return Firing(labels["alertname"], kept, origin + begin, origin + end)


def _seconds(text: str) -> float:
    """A duration as promtool prints it: 1m30s, 2h."""
    found = SPAN.fullmatch(text)
    hours, minutes, seconds, milliseconds = found.groups() if found else (None,) * 4
    return 3600 * float(hours or 0) + 60 * float(minutes or 0) + float(seconds or 0) + float(milliseconds or 0) / 1000
