"""Diagnose from a Prometheus with faulty answers, and count verdicts HEALTHY that rest on part of the data.

    python benchmarks/faulty_answers.py [--incidents 10] [--controls 10] [--answers 50] [--seed 1] [--only KIND]

A real Prometheus serves recordings of fixtures. A proxy in this process sends each query once, stores the answer, and
adds one fault to each run of `inferdoc diagnose` (also in this process). Data is lost if the last answer to a query
lacks it: an answer that is complete at the second try has lost nothing.

`wrong`: HEALTHY, exit code 0, although the lost data could have mattered. In an incident all data can; in a control a
pod, a part of the time, or data that the server reports as incomplete. A lost family looks like an exporter without it,
and every second point of a steady fleet shows the same: both count in incidents only.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode

import requests
from labels import Label, read_labels
from measured import measured_line
from workers import results

from inferdoc.source import prometheus_http
from tests.cli.command import call
from tests.prometheus_server import running
from tests.source.fake_server import Answer, Asked, refusal, serving

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
FOLDERS = ("recordings", "heldout")
KINDS = (
    "pod without engine metrics", "pod in no answer, with a warning", "pod in half of the answers", "family",
    "family in half of the answers", "every second point", "first half of the time", "last half of the time",
    "warnings", "422", "503 from the middle on", "503 at the first try", "slow", "truncated",
    "pod in no answer, without a warning",
)  # fmt: skip
OF_INCIDENTS = ("family", "family in half of the answers", "every second point")
SCRAPE = ("up", "scrape_", "kube_")
TIMEOUT, DELAY = "3s", 2.0
Body = dict[str, Any]


@dataclass
class Fault:
    """One kind of fault over one run. lost: by query, whether its last answer lacked series, a part of the time or all;
    asked: how many queries came."""

    kind: str
    pods: frozenset[str]
    family: str
    lost: dict[str, bool] = field(default_factory=dict)
    asked: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, asked: Asked, key: str, whole: Body) -> Answer | Body:
        """What the client gets for a query."""
        with self.lock:
            self.asked += 1
            number, first = self.asked, key not in self.lost
            share = random.Random(f"{self.family} {key}").random()
            given, self.lost[key] = self._given(asked, whole, number, share, first)
        return given

    def _given(self, asked: Asked, whole: Body, number: int, share: float, first: bool) -> tuple[Answer | Body, bool]:
        query = asked.params.get("query", "")
        match self.kind:
            case "warnings":
                return {**whole, "warnings": ["store-1: connection refused"]}, True
            case "422" if share < 0.2:
                return refusal(422, "execution", "expanding series: context canceled"), True
            case "503 from the middle on" if number > 12:
                return Answer(503, "upstream connect error"), True
            case "503 at the first try" if first:
                return Answer(503, "upstream connect error"), True
            case "slow" if share < 0.15:
                return Answer(200, whole, delay=DELAY), False
            case "truncated" if share < 0.1:
                text = json.dumps(whole)
                return Answer(200, text, {"Content-Type": "application/json"}, cut=len(text) // 2), True
        if "query" not in asked.params or "data" not in whole:
            return whole, False
        rows = whole["data"]["result"]
        kept = [row for row in map(partial(self._kept, query, share), copy.deepcopy(rows)) if row is not None]
        changed = {**whole, "data": {**whole["data"], "result": kept}}
        if self.kind == "pod in no answer, with a warning" and len(kept) < len(rows):
            changed["warnings"] = ["store-1: connection refused"]
        return changed, kept != rows

    def _kept(self, query: str, share: float, row: Body) -> Body | None:
        """What is left of a series."""
        labels = row.get("metric", {})
        of_pod = bool({labels.get("pod"), labels.get("instance"), labels.get("exported_pod")} & self.pods)
        match self.kind:
            case "pod without engine metrics":
                return None if of_pod and not query.removeprefix("min_over_time(").startswith(SCRAPE) else row
            case "pod in no answer, with a warning" | "pod in no answer, without a warning":
                return None if of_pod else row
            case "pod in half of the answers":
                return None if of_pod and share < 0.5 else row
            case "family":
                return None if self.family in query else row
            case "family in half of the answers":
                return None if self.family in query and share < 0.5 else row
        points = row.get("values", [])
        middle = len(points) // 2
        if points and self.kind == "every second point":
            row["values"] = points[::2]
        elif points and self.kind == "first half of the time":
            row["values"] = points[:middle]
        elif points and self.kind == "last half of the time":
            row["values"] = points[middle:]
        return row if points == [] or row["values"] else None


@dataclass(frozen=True)
class Outcome:
    """One run. code: its exit code; lost: whether part of the data did not come; trace: what is
    no line for users."""

    recording: str
    control: bool
    kind: str
    code: int
    lost: bool
    trace: str

    @property
    def wrong(self) -> bool:
        """HEALTHY where what was lost could have mattered."""
        return self.code == 0 and self.lost and not (self.control and self.kind in OF_INCIDENTS)


class Server:
    """A Prometheus that is asked each query once, with a fault between."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.known: dict[str, Body] = {}
        self.fault: Fault | None = None

    def respond(self, asked: Asked) -> Answer | Body:
        """The answer to one request."""
        params = {name: value for name, value in asked.params.items() if name != "timeout"}
        key = f"{asked.path}?{urlencode(sorted(params.items()))}"
        if key not in self.known:
            self.known[key] = requests.get(f"{self.url}{key}", timeout=60).json()
        whole = self.known[key]
        return whole if self.fault is None else self.fault.answer(asked, key, whole)


@contextmanager
def faulty(recording: Path) -> Iterator[tuple[Server, str]]:
    """A server over a recording, and the address at which it is faulty."""
    with tempfile.TemporaryDirectory() as folder, running([recording], Path(folder)) as url:
        server = Server(url)
        with serving(server.respond) as fake:
            yield server, fake.url


def outcomes(task: tuple[Path, Label, Sequence[tuple[str, int]]]) -> list[Outcome]:
    """The runs over one recording: kinds of faults and seeds."""
    folder, label, faults = task
    found = []
    with faulty(folder / label.file) as (server, url), patch.object(prometheus_http, "FIRST_PAUSE_SECONDS", 0.01):
        command = ["diagnose", "--prometheus", url, "--since", label.since, "--until", "latest", "-o", "json"]
        whole = call(*command)
        if whole.code not in ((0,) if label.control else (1, 2)):
            raise SystemExit(f"{label.name}: exit code {whole.code} without a fault: {whole.err}")
        pods, families = sorted(pods_of(server.known)), sorted(families_of(server.known))
        for kind, seed in faults:
            chance = random.Random(f"{label.name} {kind} {seed}")
            sick = [pod for pod in pods if pod in label.affected_pods] or pods
            fault = server.fault = Fault(kind, frozenset([chance.choice(sick)]), chance.choice(families))
            done = call(*command, "--timeout", TIMEOUT)
            trace = done.err if done.code not in (0, 1, 3, 4) or "Traceback" in done.err else ""
            found.append(Outcome(label.name, label.control, kind, done.code, any(fault.lost.values()), trace))
            if found[-1].wrong or trace:
                print(f"\n{found[-1]} {fault.family} {set(fault.pods)}", file=sys.stderr)
    return found


def pods_of(known: dict[str, Body]) -> set[str]:
    """The pods of engines in the answers to `up`."""
    rows = [row for key, body in known.items() if "query=up" in key for row in body["data"]["result"]]
    return {row["metric"].get("pod", row["metric"].get("instance", "")) for row in rows} - {""}


def families_of(known: dict[str, Body]) -> set[str]:
    """The metrics that have data in the answers to queries."""
    names = next(body["data"] for key, body in known.items() if "__name__/values" in key)
    full = "\n".join(key for key, body in known.items() if isinstance(body["data"], dict) and body["data"]["result"])
    return {name for name in names if urlencode({"": name})[1:] in full and not name.startswith(SCRAPE)}


def table(found: Sequence[Outcome]) -> list[str]:
    """One row for each kind of fault, and one for all."""
    lines = ["| fault | answers | something lost | finding | unknown | error | healthy | wrong | tracebacks |"]
    lines.append("| --- |" + " ---: |" * 8)
    for kind in (*KINDS, "all"):
        rows = [one for one in found if kind in (one.kind, "all")]
        if rows:
            codes = Counter(one.code for one in rows)
            counts = [len(rows), sum(one.lost for one in rows), *(codes[code] for code in (1, 3, 4, 0))]
            counts += [sum(one.wrong for one in rows), sum(bool(one.trace) for one in rows)]
            lines.append(f"| {kind} | {' | '.join(map(str, counts))} |")
    return lines


def main() -> None:
    """Print the table."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--incidents", type=int, default=10)
    ask.add_argument("--controls", type=int, default=10)
    ask.add_argument("--answers", type=int, default=50, help="runs over each recording")
    ask.add_argument("--seed", type=int, default=1)
    ask.add_argument("--only", choices=KINDS, action="append")
    ask.add_argument("--jobs", type=int, default=2)
    wanted = ask.parse_args()
    every = [(FIXTURES / name, label) for name in FOLDERS for label in read_labels(FIXTURES / name)]
    chosen = [one for one in every if not one[1].control][: wanted.incidents]
    chosen += [one for one in every if one[1].control][: wanted.controls]
    kinds = wanted.only or KINDS
    faults = [(kinds[number % len(kinds)], wanted.seed + number) for number in range(wanted.answers)]
    found: list[Outcome] = []
    for number, part in enumerate(results(outcomes, [(*one, faults) for one in chosen], wanted.jobs), start=1):
        found += part
        print(f"\r{number}/{len(chosen)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print("\n".join([*table(found), "", measured_line()]))


if __name__ == "__main__":
    main()
