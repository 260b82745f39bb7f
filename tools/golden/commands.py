"""Write the golden answers, or compare them with new ones.

    python -m tools.golden write                       compute all answers, store those that changed
    python -m tools.golden diff                        compute all answers, print what differs from the stored ones
    python -m tools.golden diff --only 'fleets/*'      only these cases: a name, a part of it or a pattern
    python -m tools.golden diff --against main         compare the stored answers with those of a git revision
    python -m tools.golden diff --against v1..v2       compare those of two git revisions; nothing is computed

Exit codes: 0 nothing changed, or written; 1 `diff` found a change; 2 usage. Progress is on standard error.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from fnmatch import fnmatchcase

from tools.golden.cases import Document, answers_of, case_names, find_case
from tools.golden.changes import answers_in, changes_between, report
from tools.golden.files import GoldenFolder, stored_at, stored_now


def chosen(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The names that contain a pattern or match it as a glob; all of them without a pattern."""
    return [name for name in names if not patterns or any(each in name or fnmatchcase(name, each) for each in patterns)]


def compute(names: Sequence[str], jobs: int) -> dict[str, Document]:
    """The answers of the cases, computed by `jobs` processes. Progress is on standard error. Raises RuntimeError that
    names the case if one cannot be computed."""
    found: dict[str, Document] = {}
    began, context = time.perf_counter(), multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(names)), mp_context=context) as pool:
        for done in as_completed([pool.submit(_answers, name) for name in names]):
            document = done.result()
            found[document["case"]] = document
            spent = time.perf_counter() - began
            print(f"[{len(found)}/{len(names)}] {spent:4.0f} s  {document['case']}", file=sys.stderr, flush=True)
    return found


def _answers(name: str) -> Document:
    try:
        return answers_of(find_case(name))
    except Exception as error:
        raise RuntimeError(f"{name}: {error}") from error


def write(folder: GoldenFolder, patterns: Sequence[str], jobs: int) -> str:
    """Store the answers that changed, and delete those of cases that no longer exist. Returns a line on what it did."""
    names = chosen(case_names(), patterns)
    before = set(folder.names())
    written = [name for name, document in compute(names, jobs).items() if folder.write(document)] if names else []
    obsolete = chosen(sorted(before - set(case_names())), patterns)
    for name in obsolete:
        folder.remove(name)
    new = len(set(written) - before)
    return f"{len(names)} cases: {new} new, {len(written) - new} changed, {len(obsolete)} removed"


def compare(
    folder: GoldenFolder, patterns: Sequence[str], jobs: int, against: str | None, full: bool
) -> tuple[str, int]:
    """The report of all changes, and the exit code. Raises ValueError for an unknown revision."""
    if against is None:
        before, after = stored_now(folder), None
    else:
        old, dots, new = against.partition("..")
        before, after = stored_at(old), stored_at(new) if dots else stored_now(folder)
    if after is None:
        names = chosen(case_names(), patterns)
        after = compute(names, jobs) if names else {}
    before, after = ({name: each[name] for name in chosen(each, patterns)} for each in (before, after))
    found = changes_between(before, after)
    answers = sum(len(answers_in(document)) for document in after.values())
    return report(found, answers, len(after), full=full), 1 if found else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns its exit code."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser = argparse.ArgumentParser(
        "python -m tools.golden", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["write", "diff"])
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="only these cases; repeatable")
    parser.add_argument("--jobs", type=int, default=cores, metavar="N", help="processes (default: one per core)")
    parser.add_argument("--against", metavar="REV[..REV]", help="diff: a git revision instead of new answers")
    parser.add_argument("--full", action="store_true", help="diff: text changes of any length")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    if options.only and not chosen({*case_names(), *GoldenFolder().names()}, options.only):
        parser.error(f"--only {' '.join(options.only)}: no case has such a name")
    if options.command == "write":
        print(write(GoldenFolder(), options.only, options.jobs))
        return 0
    try:
        text, code = compare(GoldenFolder(), options.only, options.jobs, options.against, options.full)
    except ValueError as error:
        parser.error(str(error))
    print(text, end="")
    return code
