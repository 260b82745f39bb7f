"""What `inferdoc audit` says of fleets in which a state always stood, of well-run ones, and of real recordings.

    python benchmarks/audit.py                     all of them, into docs/measurements/audit.md
    python benchmarks/audit.py --only NAME ...     some simulated fleets, printed only, without recordings
    python benchmarks/audit.py --fleet DIR         also the recordings (*.om.gz) of a folder, by its labels.json

Exit code 1 where a state is missed, or a well-run fleet is not silent. Progress goes to standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measured import measured_line
from benchmarks.process_cost import Spent
from benchmarks.stores import temporary_store
from benchmarks.workers import results
from inferdoc.audit.api import audit
from inferdoc.audit.describe import cost_words
from inferdoc.catalogue.load import load_catalogue
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scenario_files import read_scenario, scenarios
from inferdoc.simulate.scrape import simulate
from inferdoc.source.open import open_source

ROOT = Path(__file__).resolve().parent.parent
STATES = ROOT / "fixtures" / "audit"
RECORDINGS = (ROOT / "fixtures" / "recordings", ROOT / "fixtures" / "heldout")

ABOUT = """\
# Persistent issues: results of `inferdoc audit`

One run per scenario, with its seed. A persistent issue is declared in `diagnostics/standing`: absolute observations
that are true over most of the busy time, named limits of `collectors/tiers.yaml`, and a formula for its cost. There
is no baseline, so an issue that was always present is found.

With `--manifest FILE` (a Deployment, StatefulSet or LeaderWorkerSet with its HorizontalPodAutoscaler or
ScaledObject) flags, probes, grace period and autoscaler are checked too, against the start times and request
durations in the metrics. These issues have tests of their own (`tests/audit/test_manifest.py`). Issues that need a
day of load, an SLO or a restart are tested in `tests/audit/test_states_of_load.py`.

{measured}
"""
SHORT = (
    "They are shorter than a day; the last column lists the issues that `inferdoc audit` can evaluate only over a "
    "whole day."
)
WITHOUT_FLEET = "These need a manifest, an SLO, a restart or a day of load, which the fleets above do not have."
RECORDED = """\
Recordings of real vLLM engines (fixtures/recordings, fixtures/heldout) of a few minutes each, most with a fault that
starts in the middle, and the recordings named on the command line. No issue was reported for:"""


@dataclass(frozen=True)
class Row:
    """One source. expected: the state that stands there, None where the fleet is well run; states: what the audit says,
    dearest first, with costs; doubts: states it cannot tell; seconds: CPU of the audit alone."""

    name: str
    title: str
    expected: str | None
    states: tuple[tuple[str, str], ...]
    doubts: tuple[str, ...]
    window: str
    seconds: float

    @property
    def right(self) -> bool:
        """Whether the expected state is named, or nothing is where nothing is expected."""
        ids = [name for name, _ in self.states]
        return self.expected in ids if self.expected else not ids

    @property
    def extra(self) -> list[str]:
        """States beside the expected one."""
        return [name for name, _ in self.states if name != self.expected]


def scenario_of(name: str) -> Scenario:
    """A scenario of fixtures/audit, or a control of fixtures/incidents."""
    path = STATES / f"{name}.yaml"
    if path.is_file():
        return read_scenario(path.read_text("utf-8"), path.name)
    return next(scenario for scenario in scenarios() if scenario.id == name)


def simulated(name: str) -> Row:
    """Simulate one fleet and audit all of it."""
    scenario = scenario_of(name)
    with temporary_store(simulate(scenario)) as path:
        return looked_at(name, scenario.title, scenario.expect.cause, path)


def recorded(path: Path) -> Row:
    """Import one recording and audit all of it."""
    with temporary_store(path) as store:
        return looked_at(path.name.removesuffix(".om.gz"), "", None, store)


def looked_at(name: str, title: str, expected: str | None, path: Path) -> Row:
    """Audit a store from its first sample to its last, at most seven days."""
    with Spent() as spent, closing(open_source(store=str(path))) as source:
        answer = audit(source, since="7d", until="latest")
    return Row(
        name,
        title,
        expected,
        tuple((state.id, cost_words(state)) for state in answer.states),
        tuple(dict.fromkeys(doubt.id for doubt in answer.cannot_tell if doubt.reason == "window")),
        f"{answer.window.from_[11:19]} to {answer.window.until[11:19]}",
        spent.cpu,
    )


def names() -> list[str]:
    """Every simulated fleet: those of fixtures/audit, then the controls."""
    controls = [scenario.id for scenario in scenarios() if scenario.expect.cause is None]
    return [*sorted(path.stem for path in STATES.glob("*.yaml")), *controls]


def without_fleet(named: set[str]) -> list[str]:
    """The section on the persistent issues that no fleet and no recording shows. named: ids of the others."""
    states = load_catalogue().standing.states
    others = [f"| `{name}` | {states[name].title} |" for name in sorted(states.keys() - named)]
    return ["## Issues without a fleet", "", WITHOUT_FLEET, "", "| issue | title |", "| --- | --- |", *others]


def page(rows: list[Row], real: list[tuple[str, Row]]) -> str:
    """The tables as Markdown."""
    wrong, well = [r for r in rows if r.expected], [r for r in rows if not r.expected]
    named = sum(row.right for row in wrong)
    silent = sum(row.right for row in well)
    alone = f"{sum(not row.extra for row in wrong)} of them without a second issue."
    lines = [ABOUT.format(measured=measured_line()), "## Fleets with a persistent issue", ""]
    lines += [f"{named} of {len(wrong)} named; {alone}", ""]
    lines += ["| fleet | named | costs | beside it | CPU of the audit, s |", "| --- | --- | --- | --- | --- |"]
    for row in wrong:
        costs = dict(row.states).get(str(row.expected), "")
        beside = ", ".join(f"`{name}`" for name in row.extra)
        mark = "yes" if row.right else "MISSED"
        lines.append(f"| `{row.name}`: {row.title} | {mark} | {costs} | {beside} | {row.seconds:.2f} |")
    lines += ["", "## Healthy fleets", "", f"{silent} of {len(well)} silent. {SHORT}", ""]
    lines += ["| fleet | reported | not evaluated yet |", "| --- | --- | --- |"]
    for row in well:
        said = ", ".join(f"`{name}`" for name, _ in row.states) or "nothing"
        early = ", ".join(f"`{name}`" for name in row.doubts)
        lines.append(f"| `{row.name}`: {row.title} | {said} | {early} |")
    named_ids = {str(row.expected) for row in wrong} | {name for _, row in real for name, _ in row.states}
    lines += ["", *without_fleet(named_ids)]
    lines += [
        "",
        "## Recordings",
        "",
        RECORDED,
        ", ".join(f"`{row.name}`" for _, row in real if not row.states) + ".",
        "",
    ]
    lines += ["| recording | from | reported |", "| --- | --- | --- |"]
    for origin, row in real:
        if row.states:
            said = ", ".join(f"`{name}` ({costs})" for name, costs in row.states)
            lines.append(f"| `{row.name}` | {origin} | {said} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="these fleets; writes nothing")
    parser.add_argument("--fleet", type=Path, metavar="DIR", help="recordings (*.om.gz) beside the project's own")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "measurements" / "audit.md")
    args = parser.parse_args()
    rows: list[Row] = []
    real: list[tuple[str, Row]] = []
    for row in results(simulated, args.only or names(), args.jobs):
        rows.append(row)
        said = json.dumps(row.states)
        print(f"{'right' if row.right else 'WRONG'} {row.name} {said} {row.doubts}", file=sys.stderr, flush=True)
    places = [] if args.only else [*RECORDINGS, *([args.fleet] if args.fleet else [])]
    files = [path for place in places for path in sorted(place.glob("*.om.gz"))]
    for path, row in zip(files, results(recorded, files, args.jobs), strict=True):
        real.append((path.parent.name, row))
        print(f"{row.name} {json.dumps(row.states)}", file=sys.stderr, flush=True)
    text = page(rows, real)
    if args.only:
        print(text)
    else:
        args.out.write_text(text, "utf-8")
    return 0 if all(row.right for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
