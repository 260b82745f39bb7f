"""Every fault that inferdoc can simulate, injected and diagnosed as `inferdoc demo --fault ID` does it, as a table.

    python benchmarks/demos.py                        all of them, into docs/measurements/demos.md
    python benchmarks/demos.py --only slow-gpu ...    some of them, printed only

Exit code 1 where an answer is WRONG. Progress goes to standard error.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from measured import measured_line
from process_cost import Spent
from workers import results

from inferdoc.catalogue.load import load_catalogue
from inferdoc.errors import InferdocError
from inferdoc.report.demo import FIRST, faults, find, fleet, run_demo

ABOUT = """\
# Every fault, injected and diagnosed

What `inferdoc demo --fault ID` answers, one run each with the seed of its scenario (fixtures/incidents). right: the
fault is the first finding; accepted: the first finding is another one that its label calls right too, and the fault is
named after it or as its change; not visible: metrics cannot show it, the reason stands beside it; WRONG: none of these.
CPU seconds are those of one process on one core, simulation and diagnosis together. The [scoreboard](scoreboard.md)
draws fleets and severities by chance and says how often this holds; here nothing is drawn.
"""


@dataclass(frozen=True)
class Row:
    """One fault. mark: right, accepted, not visible or WRONG; found: ids of the findings, best first; seconds: CPU."""

    name: str
    mark: str
    found: tuple[str, ...]
    certainty: str
    scope: str
    fleet: str
    hidden: str
    seconds: float


def run(name: str) -> Row:
    """Strike one fleet and diagnose it."""
    spent = Spent()
    try:
        with spent:
            played = run_demo(find(name, load_catalogue()), load_catalogue())
    except InferdocError as error:
        return Row(name, "WRONG", (), "", "", "", str(error), spent.cpu)
    findings, hidden = played.answer.findings, played.scenario.expect.not_visible
    accepted = {"finding": "accepted", "change": "accepted, as the change"}.get(played.beside or "")
    mark = "not visible" if hidden else "right" if played.right else accepted or "WRONG"
    pods = set(findings[0].scope.pods) if findings else set()
    hit = set(played.scenario.expect.pods)
    scope = "exact" if pods == hit else f"{len(pods & hit)} of {len(hit)} hit, {len(pods - hit)} not hit"
    return Row(
        name,
        mark,
        tuple(f.id for f in findings),
        findings[0].certainty if findings else "",
        scope if played.right and hit else "",
        fleet(played.scenario),
        " ".join((hidden or "").split()),
        spent.cpu,
    )


def page(rows: list[Row]) -> str:
    """The table as Markdown."""
    count = {
        mark: sum(row.mark.startswith(mark) for row in rows) for mark in ("right", "accepted", "not visible", "WRONG")
    }
    lines = [
        ABOUT,
        measured_line(),
        "",
        f"{len(rows)} faults: " + ", ".join(f"{n} {mark}" for mark, n in count.items()) + ".",
        "",
    ]
    lines += ["| fault | | first finding | pods named | fleet | CPU, s |", "| --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        said = f"`{row.found[0]}`, {row.certainty}" if row.found else "nothing"
        said += f" (then {', '.join(f'`{i}`' for i in row.found[1:])})" if row.found[1:] else ""
        mark = f"not visible: {row.hidden}" if row.mark == "not visible" else row.mark
        cells = (f"`{row.name}`", mark, said, row.scope, row.fleet, f"{row.seconds:.1f}")
        lines.append(f"| {' | '.join(cells)} |")
    total, slow = sum(row.seconds for row in rows), max(rows, key=lambda row: row.seconds)
    lines += ["", f"Together {total:.0f} CPU seconds; the slowest is `{slow.name}` with {slow.seconds:.1f} s."]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], metavar="ID", help="these faults; prints and writes nothing")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "docs" / "measurements" / "demos.md")
    args = parser.parse_args()
    names = args.only or [*(s.id for s in faults(load_catalogue())), FIRST]
    rows: list[Row] = []
    for row in results(run, names, args.jobs):
        rows.append(row)
        count, found = f"[{len(rows)}/{len(names)}]", ", ".join(row.found)
        print(f"{count} {row.name:<28} {row.mark:<12} {row.seconds:5.1f} s  {found}", file=sys.stderr, flush=True)
    text = page(rows)
    print(text)
    if not args.only:
        args.out.write_text(text, "utf-8")
    return 1 if any(row.mark == "WRONG" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
