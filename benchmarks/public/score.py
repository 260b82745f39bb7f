"""Scores any tool on the public benchmark.

    python benchmarks/public/score.py --run 'mytool --file {recording} --from {from} --until {until}'
    python benchmarks/public/score.py answers.json [--names names.json]

A tool answers a case with a JSON list of findings, best first: {"cause": ..., "pods": [...], "onset": ...}. cause: an
id of diagnostics/, or a name of its own that --names translates; pods and onset (Unix seconds or RFC 3339) may be left
out. [] says that nothing is wrong; null, or no JSON, is no answer. With --run it prints that, for one case a call;
answers.json holds {"tool": NAME, "answers": {ID: LIST}}. names.json: {"their name": ["cause id", ...]}.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from cases import Case, read_cases

ROOT = Path(__file__).resolve().parents[2]
UNPACKED = ROOT / "build" / "public-benchmark"
CALL_SECONDS = 300
EARLY_SECONDS = 60
"""An onset that is told this long before the deed is of something else."""


@dataclass(frozen=True)
class Told:
    """A finding. causes: what its name may mean; onset: Unix seconds."""

    causes: tuple[str, ...]
    pods: tuple[str, ...] = ()
    onset: float | None = None


@dataclass(frozen=True)
class Scored:
    """A case. answered: False where there was no answer; first, named: a cause that is right stands first, or anywhere;
    noticed: something was found that did not begin before the deed; overlap: of the pods of the finding that is right,
    intersection over union; off: seconds of its onset outside of what is right; blamed: a healthy pod was named."""

    case: Case
    answered: bool
    first: bool = False
    named: bool = False
    noticed: bool = False
    overlap: float | None = None
    off: float | None = None
    blamed: bool = False


def findings_of(answer: Any, names: Mapping[str, Sequence[str]]) -> list[Told] | None:
    """What a tool said of a case, None for no answer. Raises ValueError for something else than a list of findings."""
    if answer is None:
        return None
    if not isinstance(answer, list):
        raise ValueError("an answer is a list of findings, or null")
    told = []
    for one in answer:
        if not isinstance(one, dict) or not isinstance(one.get("cause"), str):
            raise ValueError(f"a finding without a cause: {json.dumps(one)[:80]}")
        causes = tuple(names.get(one["cause"], (one["cause"],)))
        told.append(Told(causes, tuple(map(str, one.get("pods") or ())), seconds(one.get("onset"))))
    return told


def seconds(moment: Any) -> float | None:
    """Unix seconds of a number or of an RFC 3339 stamp. Raises ValueError."""
    if moment is None or isinstance(moment, (int, float)):
        return moment
    return datetime.fromisoformat(str(moment)).timestamp()


def score(case: Case, told: list[Told] | None) -> Scored:
    """One case. Silence is right in a control, and where the label says so; some controls accept a finding, too."""
    if told is None:
        return Scored(case, answered=False)
    blamed = any(set(one.pods) & set(case.healthy) for one in told)
    right = [one for one in told if set(one.causes) & set(case.accepts)]
    if case.control:
        return Scored(case, True, first=right == told, blamed=blamed)
    if not told:
        return Scored(case, True, first=case.silence)
    begun = [one for one in told if not _early(case, one)]
    best = right[0] if right else None
    return Scored(
        case,
        True,
        first=best is told[0],
        named=bool(right),
        noticed=bool(begun),
        overlap=None if best is None or not (best.pods and case.pods) else _overlap(best.pods, case.pods),
        off=None if best is None or best.onset is None or case.onset is None else _off(case, best.onset),
        blamed=blamed,
    )


def _early(case: Case, told: Told) -> bool:
    return case.onset is not None and told.onset is not None and told.onset < case.onset - EARLY_SECONDS


def _overlap(one: Sequence[str], other: Sequence[str]) -> float:
    return len(set(one) & set(other)) / len(set(one) | set(other))


def _off(case: Case, onset: float) -> float:
    assert case.onset is not None
    return max(case.onset - onset, onset - (case.onset_latest or case.onset), 0.0)


def share(values: Sequence[bool]) -> str:
    """How many of how many."""
    return f"{sum(values)} of {len(values)}" if values else "-"


def middle(values: Sequence[float | None], unit: str) -> str:
    """The median of those that are known."""
    known = [value for value in values if value is not None]
    return f"{median(known):.2f}{unit}" if known and not unit else f"{median(known):.0f}{unit}" if known else "-"


COLUMNS = (
    "tool", "cases", "first right", "named", "noticed", "pods, IoU", "onset off", "controls quiet", "healthy blamed",
    "no answer",
)  # fmt: skip


def rows(tool: str, scored: Sequence[Scored]) -> list[tuple[str, ...]]:
    """A row for real engines, one for simulated fleets, one for all."""
    real = [one for one in scored if not one.case.origin.startswith("incidents/")]
    simulated = [one for one in scored if one.case.origin.startswith("incidents/")]
    return [
        _row(tool, name, part) for name, part in (("real", real), ("simulated", simulated), ("all", scored)) if part
    ]


def _row(tool: str, name: str, scored: Sequence[Scored]) -> tuple[str, ...]:
    faults = [one for one in scored if not one.case.control]
    controls = [one for one in scored if one.case.control]
    return (
        tool,
        name,
        share([one.first for one in faults]),
        share([one.named for one in faults]),
        share([one.noticed for one in faults]),
        middle([one.overlap for one in faults], ""),
        middle([one.off for one in faults], " s"),
        share([one.first for one in controls]),
        str(sum(one.blamed for one in scored)),
        str(sum(not one.answered for one in scored)),
    )


def table(lines: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [COLUMNS, ["---"] * len(COLUMNS), *lines]) + "\n"


def asked(template: str, folder: Path, wanted: Sequence[Case]) -> dict[str, Any]:
    """The answers of a command, called once a case."""
    answers = {}
    for number, case in enumerate(wanted, start=1):
        print(f"\r{number}/{len(wanted)}", end="", file=sys.stderr, flush=True)
        places = {"{recording}": str(folder / case.file), "{from}": str(case.begin), "{until}": str(case.end)}
        words = shlex.split(template)
        for place, value in places.items():
            words = [word.replace(place, value) for word in words]
        answers[case.id] = _answer(words, case)
    print(file=sys.stderr)
    return answers


def _answer(words: list[str], case: Case) -> Any:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=CALL_SECONDS, check=False)
        return json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        print(f"\n{case.id}: no answer within {CALL_SECONDS} s", file=sys.stderr)
    except json.JSONDecodeError:
        last = (done.stderr.strip().splitlines() or ["nothing on standard error"])[-1]
        print(f"\n{case.id}: no JSON, exit {done.returncode}: {last[:200]}", file=sys.stderr)
    return None


def main() -> int:
    """See the module. Exit code 2 where answers cannot be read."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("answers", nargs="?", type=Path)
    ask.add_argument("--run", metavar="COMMAND", help="{recording}, {from} and {until} stand for the case")
    ask.add_argument("--tool", metavar="NAME", help="how the table calls it")
    ask.add_argument("--names", type=Path, metavar="FILE")
    ask.add_argument("--save", type=Path, metavar="FILE", help="keep the answers of --run")
    ask.add_argument("--folder", type=Path, default=UNPACKED, help="where the recordings are, or are put")
    ask.add_argument("--misses", action="store_true", help="also each case whose first finding is not right")
    ask.add_argument("--only", nargs="+", metavar="ID", help="these cases")
    given = ask.parse_args()
    if (given.answers is None) == (given.run is None):
        ask.error("give answers.json, or --run COMMAND")
    wanted = read_cases(only=given.only)
    if given.run is not None:
        from unpack import unpack  # only this needs inferdoc

        unpack(given.folder, wanted)
        document = {"tool": given.tool or shlex.split(given.run)[0], "answers": asked(given.run, given.folder, wanted)}
        if given.save is not None:
            given.save.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    else:
        document = json.loads(given.answers.read_text("utf-8"))
    names = json.loads(given.names.read_text("utf-8")) if given.names is not None else {}
    try:
        scored = [score(case, findings_of(document["answers"].get(case.id), names)) for case in wanted]
    except ValueError as error:
        print(f"{given.answers or given.run}: {error}", file=sys.stderr)
        return 2
    print(table(rows(given.tool or document.get("tool", "?"), scored)), end="")
    if given.misses:
        for one in scored:
            if not one.first:
                print(f"{one.case.id} {one.case.origin}: {', '.join(one.case.accepts) or 'control'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
