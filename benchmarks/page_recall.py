"""Which incidents page, and how soon: a rule set over recordings with labels and over the cases of fixtures/public.

    inferdoc alerts build --set pages --out rules
    python benchmarks/page_recall.py --rules rules                       # fixtures/public
    python benchmarks/page_recall.py --rules rules --cold
    python benchmarks/page_recall.py --rules rules --slower 7.5 fixtures/recordings

A page is an alert with severity critical. With labels, a page counts within five minutes of the onset; a public case
has no onset, so a page counts within the window that the case is about. Any page in a control is wrong. --slower: the
time of the recordings runs that many times slower, for scrapes every 2 s that stand for scrapes every 15 s; latencies
stay, rates do not.
"""

from __future__ import annotations

import argparse
import json
import lzma
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from measured import measured_line

from inferdoc.backtest.recording import ScrapedSeries, read_file, read_labels
from inferdoc.backtest.replay import RuleSet, replay
from inferdoc.backtest.run import own_rules
from inferdoc.times import seconds_of

PUBLIC = Path(__file__).resolve().parents[1] / "fixtures" / "public"
SOON_SECONDS, COLD_SECONDS = 300.0, 120.0
WITHOUT_IMPACT = {"HEALTHY", "none", "telemetry-artifact", "metric-absent-or-renamed"}
"""What a public case without user impact accepts."""


@dataclass(frozen=True)
class Incident:
    """A recording. begin, end: when a page counts, seconds since the epoch; None: the whole."""

    name: str
    control: bool
    recording: ScrapedSeries
    begin: float | None = None
    end: float | None = None
    public: bool = False


def labelled(folder: Path, slower: float) -> Iterator[Incident]:
    """The recordings of a folder with labels.json."""
    for told in read_labels(folder):
        recording = read_file(folder / told.file).with_pods()
        origin = recording.span_ms[0] / 1000
        onset = None if told.impact is None else origin + (told.impact - origin) * slower
        late = None if onset is None else onset + SOON_SECONDS
        yield Incident(told.file.removesuffix(".om.gz"), told.control, stretched(recording, slower), onset, late)


def stretched(recording: ScrapedSeries, factor: float) -> ScrapedSeries:
    """The recording with its time running that many times slower."""
    origin = recording.span_ms[0]
    moved = (
        replace(p, times=origin + np.round((p.times - origin) * factor).astype(np.int64)) for p in recording.series
    )
    return replace(recording, series=tuple(moved))


def public(only: str) -> Iterator[Incident]:
    """The cases of fixtures/public with user impact, and the controls. only: how their names begin, by commas."""
    for path in sorted(path for each in only.split(",") for path in PUBLIC.glob(f"{each}*/case.json")):
        case = json.loads(path.read_text("utf-8"))
        if not case["control"] and (not case["accept"] or set(case["accept"]) & WITHOUT_IMPACT):
            continue
        with tempfile.TemporaryDirectory(prefix="inferdoc-") as folder:
            text = Path(folder) / "in.om"
            text.write_bytes(lzma.decompress(path.with_name("in.om.xz").read_bytes()))
            recording = read_file(text).with_pods()
        end = recording.span_ms[1] / 1000
        yield Incident(
            path.parent.name, case["control"], recording, end - seconds_of(case["since"], "since"), end, True
        )


def pages(rules: RuleSet, incident: Incident) -> list[tuple[float, str]]:
    """When which alert pages first: seconds after the begin of what counts, or of the recording. One over before
    the window of a public case does not count."""
    first: dict[str, float] = {}
    for firing in replay(rules, incident.recording):
        over = incident.public and incident.begin is not None and firing.end < incident.begin
        if firing.labels.get("severity") == "critical" and not over:
            first.setdefault(firing.alert, firing.begin)
    origin = incident.begin or incident.recording.span_ms[0] / 1000
    return sorted((at - origin, name) for name, at in first.items())


def main() -> None:
    """Print a row per recording, and the recall."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("folders", nargs="*", type=Path)
    ask.add_argument("--rules", type=Path, required=True, help="the folder of a built set")
    ask.add_argument("--slower", type=float, default=1.0)
    ask.add_argument("--cold", action="store_true", help="as after an install two minutes before what counts")
    ask.add_argument("--only", default="", metavar="PREFIX", help="of the names of public cases; several by commas")
    given = ask.parse_args()
    rules = own_rules(given.rules)
    found = (
        [each for folder in given.folders for each in labelled(folder, given.slower)]
        if given.folders
        else public(given.only)
    )
    hit, missed, wrong, controls, early = 0, 0, 0, 0, 0
    for incident in found:
        if given.cold and incident.begin is not None:
            start = int((incident.begin - COLD_SECONDS) * 1000)
            incident = replace(incident, recording=incident.recording.since(start))
        fired = pages(rules, incident)
        length = float("inf") if incident.begin is None or incident.end is None else incident.end - incident.begin
        within = [name for after, name in fired if (incident.public or after >= 0) and after <= length]
        early += sum(after < 0 for after, _ in fired) if not incident.control and not incident.public else 0
        controls, wrong = controls + incident.control, wrong + (len(fired) if incident.control else 0)
        hit, missed = hit + (not incident.control and bool(within)), missed + (not incident.control and not within)
        kind = "control" if incident.control else "pages" if within else "missed"
        print(f"{kind:8} {incident.name:44} {', '.join(f'{name} {after:+.0f} s' for after, name in fired)}", flush=True)
    print(f"\nrecall {hit} of {hit + missed} ({hit / max(1, hit + missed):.0%}), {early} pages before the onset")
    print(f"{wrong} pages in {controls} controls")
    print(f"\n{measured_line()}")


if __name__ == "__main__":
    main()
