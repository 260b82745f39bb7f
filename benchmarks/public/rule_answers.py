"""What a set of Prometheus rules says of the cases: every alert that fires is a finding, the first to fire first.

    python benchmarks/public/rule_answers.py rules.yaml... > answers.json
    python benchmarks/public/score.py answers.json --names names.json

Rules are evaluated by promtool's rule engine, as `inferdoc alerts backtest` does it, over the whole recording; what
fires within the window that is asked about counts. An alert means the cause of its label `cause`, if it has one, else
its own name, which --names of score.py translates.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from cases import Case, read_cases
from score import UNPACKED
from unpack import unpack

from inferdoc.backtest.recording import read_file
from inferdoc.backtest.replay import Firing, RuleSet, replay

LEFT_OUT = ("severity=info", "severity=none")
"""Alerts that tell nobody of a fault: dead man's switches and the like."""


def answer(rules: RuleSet, folder: Path, case: Case, without: Collection[str] = LEFT_OUT) -> list[dict[str, Any]]:
    """The findings of a case: alerts of one name together, with all their pods. without: LABEL=VALUE of alerts that do
    not count."""
    found: dict[str, dict[str, Any]] = {}
    for firing in replay(rules, read_file(folder / case.file).with_pods()):
        if firing.end < case.begin or firing.begin > case.end:
            continue
        if any(f"{name}={value}" in without for name, value in firing.labels.items()):
            continue
        one = found.setdefault(meaning(firing), {"cause": meaning(firing), "pods": [], "onset": firing.begin})
        pod = firing.labels.get("pod")
        if pod is not None and pod not in one["pods"]:
            one["pods"].append(pod)
    return list(found.values())


def meaning(firing: Firing) -> str:
    """What an alert calls the fault."""
    return firing.labels.get("cause") or firing.alert


def main() -> int:
    """See the module."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("rules", nargs="+", type=Path)
    ask.add_argument("--folder", type=Path, default=UNPACKED)
    ask.add_argument("--without", action="append", default=list(LEFT_OUT), metavar="LABEL=VALUE", help="no finding")
    ask.add_argument("--only", nargs="+", metavar="ID", help="these cases")
    given = ask.parse_args()
    rules, cases = RuleSet(given.rules[0].stem, tuple(given.rules)), read_cases(only=given.only)
    unpack(given.folder, cases)
    answers = {}
    for number, case in enumerate(cases, start=1):
        print(f"\r{number}/{len(cases)}", end="", file=sys.stderr, flush=True)
        answers[case.id] = answer(rules, given.folder, case, given.without)
    print(json.dumps({"tool": rules.name, "answers": answers}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
