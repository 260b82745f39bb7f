"""The verdicts on labelled recordings, as a table.

usage: python benchmarks/recordings.py [FOLDER]... [--every N] [--seen SECONDS]
       (default: fixtures/recordings and fixtures/heldout)

A folder holds labels.json and the OpenMetrics files it names. A fault is right when the first finding is the labelled
cause (or one that the label accepts), on labelled pods only, with the onset within 20 s; a control is right when
nothing is found. --every: only each so many scrape of a target, as if it were scraped less often; the onset may then be
as many intervals more off. --seen: the faults that are not debatable, cut off so long after their onset (negative:
before it): then nothing is right, too, and what else the first finding may be is its cause.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import tempfile
from collections.abc import Iterator
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


def thinned(path: Path, every: int) -> Iterator[bytes]:
    """The lines of a recording, with each so many scrape of every target."""
    scrapes: dict[bytes, dict[bytes, int]] = {}
    for line in gzip.decompress(path.read_bytes()).splitlines(keepends=True):
        sample = not line.startswith(b"#") and line.strip()
        if sample:
            target = re.search(rb'instance="[^"]*"', line)
            known = scrapes.setdefault(target.group() if target else b"", {})
            number = known.setdefault(line.rsplit(b" ", 1)[1], len(known))
        if not sample or number % every == 0:
            yield line


def judge_cut(label: dict[str, Any], answer: Diagnosis, seen: float) -> list[str]:
    """What is wrong with an answer to a recording that ends so many seconds after its onset."""
    names = [f"{finding.id}, {finding.certainty}" for finding in answer.findings]
    if not names or (seen > 0 and answer.findings[0].id in label["expected"]):
        return []
    return [f"first is {names[0]}"]


def judge(label: dict[str, Any], answer: Diagnosis, tolerance: float) -> list[str]:
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
    if not -tolerance <= off <= late + tolerance:
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
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("folders", nargs="*", type=Path, default=[f for f in FOLDERS if f.is_dir()])
    ask.add_argument("--every", type=int, default=1)
    ask.add_argument("--seen", type=float)
    asked = ask.parse_args()
    folders, bad = asked.folders, 0
    for folder in folders:
        labels = json.loads((folder / "labels.json").read_text("utf-8"))["recordings"]
        if asked.seen is not None:
            labels = [label for label in labels if not label["control"] and not label.get("edge_accepts")]
        print(f"\n### {folder.name}\n")
        print("| recording | what was done | first finding | effects folded | onset off, s | |")
        print("| --- | --- | --- | --- | --- | --- |")
        right = 0
        for number, label in enumerate(labels, start=1):
            print(f"\r{number}/{len(labels)} {label['file']:<50}", end="", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory() as temporary:
                path, file = Path(temporary) / "fleet.db", folder / label["file"]
                if asked.every > 1:
                    file = Path(temporary) / "thinned.om"
                    file.write_bytes(b"".join(thinned(folder / label["file"], asked.every)))
                with Store.open(path, "w") as store:
                    import_file(store, str(file))
                began = label.get("onset_latest") or label["onset"] if asked.seen is not None else None
                until = "latest" if began is None else began + asked.seen
                answer = diagnose(open_source(store=path), since=label.get("since", "10m"), until=until)
            interval = label.get("scrape_interval_s", 0)
            tolerance = TOLERANCE_SECONDS + (asked.every - 1) * interval
            wrong = judge(label, answer, tolerance) if began is None else judge_cut(label, answer, asked.seen)
            right += not wrong
            bad += bool(wrong)
            print(row(label, answer, wrong))
        print(file=sys.stderr)
        print(f"\n{right} right of {len(labels)}.")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
