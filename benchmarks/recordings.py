"""The verdicts on labelled recordings, as a table.

usage: python benchmarks/recordings.py [FOLDER]...     (default: fixtures/recordings and fixtures/heldout)

A folder holds labels.json and the OpenMetrics files it names. A fault is right when the first finding is the labelled
cause (or one that the label accepts), on labelled pods only, with the onset within 20 s; a control is right when
nothing is found.
"""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from inferdoc import diagnose, open_source
from inferdoc.diagnose.model import Diagnosis
from inferdoc.store import Store, import_file

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = [ROOT / "fixtures" / "recordings", ROOT / "fixtures" / "heldout"]
TOLERANCE_SECONDS = 20.0


def unix(stamp: str) -> float:
    """Seconds since the epoch of an RFC 3339 stamp."""
    return datetime.fromisoformat(stamp).timestamp()


def judge(label: dict[str, Any], answer: Diagnosis) -> list[str]:
    """What is wrong with an answer; empty when it is right."""
    first = answer.findings[0] if answer.findings else None
    name = first.id if first else "none"
    if label.get("edge_accepts"):
        return [] if name in label["edge_accepts"] else [f"first is {name}"]
    if label.get("control"):
        return [] if first is None and answer.verdict == "healthy" else [f"verdict {answer.verdict}, first is {name}"]
    if first is None:
        return ["no finding"]
    wrong = [] if name in label["expected"] else [f"first is {name}"]
    pods, sick = set(first.scope.pods), set(label["affected_pods"])
    if sick and not pods <= sick:
        wrong.append(f"pods {sorted(pods)}")
    late = max(0.0, (label.get("onset_latest") or label["onset"]) - label["onset"])
    off = unix(first.onset) - label["onset"]
    if not -TOLERANCE_SECONDS <= off <= late + TOLERANCE_SECONDS:
        wrong.append(f"onset {off:+.0f} s")
    return wrong


def row(label: dict[str, Any], answer: Diagnosis, wrong: list[str]) -> str:
    """The row of one recording."""
    first = answer.findings[0] if answer.findings else None
    cause = "control" if label.get("control") else f"`{label['expected'][0]}`"
    said = f"`{first.id}`, {first.certainty}" if first else "nothing"
    effects = ", ".join(f"`{e}`" for e in first.effects) if first else ""
    off = f"{unix(first.onset) - label['onset']:+.0f}" if first and label.get("onset") else ""
    mark = "WRONG: " + "; ".join(wrong) if wrong else ("right (debatable)" if label.get("edge") else "right")
    return f"| {label['file'].removesuffix('.om.gz')} | {cause} | {said} | {effects} | {off} | {mark} |"


def main() -> int:
    """Print a table for each folder; the exit code says whether every answer is right."""
    folders = [Path(a) for a in sys.argv[1:]] or [f for f in FOLDERS if f.is_dir()]
    bad = 0
    for folder in folders:
        labels = json.loads((folder / "labels.json").read_text("utf-8"))["recordings"]
        print(f"\n### {folder.name}\n")
        print("| recording | what was done | first finding | effects folded | onset off, s | |")
        print("| --- | --- | --- | --- | --- | --- |")
        right = 0
        for number, label in enumerate(labels, start=1):
            print(f"\r{number}/{len(labels)} {label['file']:<50}", end="", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory() as temporary:
                path = Path(temporary) / "fleet.db"
                with Store.open(path, "w") as store:
                    import_file(store, str(folder / label["file"]))
                answer = diagnose(open_source(store=path), since=label.get("since", "10m"), until="latest")
            wrong = judge(label, answer)
            right += not wrong
            bad += bool(wrong)
            print(row(label, answer, wrong))
        print(file=sys.stderr)
        print(f"\n{right} right of {len(labels)}.")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
