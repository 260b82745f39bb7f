"""What recording rules would have recorded over a stretch of the past, as blocks beside the raw series.

Rules rest on what other rules record, so they are asked level by level of a server that already holds the levels below.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import requests
import yaml

from tests.prometheus_server import running

NAME = re.compile(r"\b[a-z]+:inferdoc_\w+:\w+")
STEP = 30


def rules_of(*paths: Path) -> dict[str, list[str]]:
    """Record -> its expressions, of the recording rules of some files."""
    found: dict[str, list[str]] = {}
    groups = (group for path in paths for group in yaml.safe_load(path.read_text("utf-8"))["groups"])
    for rule in (rule for group in groups for rule in group["rules"] if "record" in rule):
        found.setdefault(rule["record"], []).append(rule["expr"])
    return found


def levels(wanted: Iterable[str], rules: Mapping[str, list[str]]) -> list[list[str]]:
    """The records that these rest on, themselves included: each level needs only those before it."""
    needed: set[str] = set()
    stack = [name for name in wanted if name in rules]
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack += _below(name, rules)
    found: list[list[str]] = []
    done: set[str] = set()
    while needed - done:
        level = sorted(name for name in needed - done if set(_below(name, rules)) <= done)
        assert level, f"records that rest on themselves: {sorted(needed - done)}"
        found.append(level)
        done |= set(level)
    return found


def record(
    recordings: list[Path],
    folder: Path,
    rules: Mapping[str, list[str]],
    wanted: Iterable[str],
    start: float,
    end: float,
) -> None:
    """Write blocks of the recordings, and of what the rules say of them, into the database of a folder."""
    pending = recordings
    for number, level in enumerate(levels(wanted, rules)):
        with running(pending, folder) as address:
            lines = [line for name in level for line in _lines(address, name, rules[name], start, end)]
        path = folder / f"recorded-{number}.om"
        path.write_text("\n".join([*lines, "# EOF", ""]), "utf-8")
        pending = [path] if lines else []
    with running(pending, folder):
        pass


def _below(name: str, rules: Mapping[str, list[str]]) -> list[str]:
    return [other for expr in rules[name] for other in NAME.findall(expr) if other in rules and other != name]


def _lines(address: str, name: str, exprs: list[str], start: float, end: float) -> list[str]:
    found = [f"# TYPE {name} gauge"]
    for expr in exprs:
        form: dict[str, str | float] = {"query": expr, "start": start, "end": end, "step": STEP}
        answer = requests.post(f"{address}/api/v1/query_range", data=form, timeout=60).json()
        assert answer["status"] == "success", (name, answer)
        for series in answer["data"]["result"]:
            labels = {key: value for key, value in series["metric"].items() if key != "__name__"}
            told = ",".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in labels.items())
            found += [f"{name}{{{told}}} {value} {at}" for at, value in series["values"]]
    return found if len(found) > 1 else []
