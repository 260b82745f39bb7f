"""The parts of the document that are not findings: verdict, summary, baseline, coverage."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import numpy as np

from inferdoc.judging.changes import gaps
from inferdoc.judging.completeness import without_metrics, without_some_metrics
from inferdoc.judging.fold import Cause
from inferdoc.judging.model import Baseline, Coverage, Finding, Rising, Scanned, Stopped, Timing, VerdictWord, stamp
from inferdoc.judging.scan.model import Scan
from inferdoc.judging.view import View
from inferdoc.source.base import Cost, Scrapes
from inferdoc.source.reads import Grid, Matcher, matches
from inferdoc.times import rfc3339
from inferdoc.words import figure, how_many, some


def baseline_of(view: View, roots: Sequence[Cause]) -> Baseline:
    """What the window was compared with, for the first root; without a root, the history, or nothing but itself."""
    grid = view.frame.grid
    if view.lead_kind == "lifetime":
        return Baseline(None, None, "lifetime")
    if view.lead is not None:
        begin, end = stamp(view.lead.start_ms / 1000), stamp(view.lead.end_ms / 1000)
        return Baseline(begin, end, view.lead_kind, view.lead_name)
    if not roots:
        if not view.begin:
            return Baseline(None, None, "none")
        return Baseline(stamp(grid.start_ms / 1000), stamp(view.time_at(view.begin)), "history")
    root = roots[0]
    if root.best.from_start:
        by_peers = any(e.outcome.reference == "peers" for e in root.best.evidence if e.role != "support")
        return Baseline(None, None, "peers" if by_peers else "absolute")
    onset = view.time_at(root.onset)
    inside = root.onset - view.begin
    if view.begin > inside:
        return Baseline(stamp(grid.start_ms / 1000), stamp(min(onset, view.time_at(view.begin))), "history")
    return Baseline(stamp(view.time_at(view.begin)), stamp(onset), "calm-before")


def verdict_of(findings: Sequence[Finding], judged: bool) -> VerdictWord:
    """critical, degraded, healthy; unknown where nothing could be judged."""
    if any(f.severity == "critical" for f in findings):
        return "critical"
    if findings:
        return "degraded"
    return "healthy" if judged else "unknown"


def summarise(
    verdict: VerdictWord,
    findings: Sequence[Finding],
    pods: int,
    ask_again: str | None = None,
    first_look: bool = False,
    spread: bool = False,
    newest: str | None = None,
    rising: tuple[str, Rising] | None = None,
    stopped: Stopped | None = None,
) -> str:
    """One sentence for a ticket. ask_again: when there will be enough to compare with; first_look: whether nobody
    scraped before; spread: whether the fleet lies in several clusters or namespaces; newest: time of the newest sample,
    where all samples are older than the window; rising: what is too new to be judged, after the title of its
    signal."""
    if newest is not None:
        return (
            f"There is no sample in the window: the newest is of {newest}. Look at that time (--until latest), or have "
            "the fleet scraped."
        )
    if verdict == "unknown" and rising is not None:
        title, one = rising
        moved = f"from {figure(one.baseline, one.unit)} to {figure(one.observed, one.unit)}"
        risen = f"{title} of {one.entity} has risen {moved} since {_to_seconds(one.since)}."
        if one.ask_again is not None:
            return f"{risen} That is too new to distinguish from a spike: ask again at {_to_seconds(one.ask_again)}."
        return f"{risen} {one.requests} requests are too few to rule out chance: diagnose again when more have ended."
    if verdict == "unknown" and stopped is not None:
        of = f" for model {stopped.model}" if stopped.model else ""
        return (
            f"No requests arrive{of} since {_to_seconds(stopped.since)}, after {figure(stopped.before, '1/s')}. The "
            "engines are idle. These metrics do not show if the clients stopped or cannot connect: check the gateway, "
            "and send one request through it (inferdoc probe URL)."
        )
    if verdict == "unknown" and ask_again is not None and first_look:
        return (
            "Nothing stands out against the time since the start, but too little was seen to call it healthy. What "
            "would show it: a longer look (--for 5m; of saved pages ten or more), the pages of its peers and of "
            "dcgm-exporter as further URLs (a slow GPU shows beside others), or what you call too slow ([[slo]] in "
            "inferdoc.toml)."
        )
    if verdict == "unknown" and ask_again is not None:
        return (
            f"Too few scrapes to compare with: ask again at {ask_again}, or name a baseline "
            "(--baseline TIME..TIME or NAME) or an objective ([[slo]] in inferdoc.toml)."
        )
    if verdict == "unknown":
        return "Not enough data to judge: no engine shows both work and a latency in the window."
    if not findings:
        return f"No cause found on {how_many(pods, 'pod')}; no impact on users was found in the window."
    first = findings[0]
    pods_named = some(first.scope.pods, 3)
    pods_named += "".join(f", {word} {value}" for word, value in first.scope.place if spread)
    pods_named += "".join(f", all with {name} {value}" for name, value in list(first.scope.shared.items())[:1])
    harm = next((e.statement for e in first.evidence if e.role == "harm"), "")
    times = f"{'seen since' if first_look else 'since' if first.ongoing else 'began'} {_to_seconds(first.onset)}"
    if first.ended is not None and not first.ongoing:
        times += f", ended {_to_seconds(first.ended)}"
    more = f" ({how_many(len(findings) - 1, 'more finding')})" if len(findings) > 1 else ""
    near = "no impact yet, but " if first.imminent else ""
    return f"{first.title} on {pods_named}, {times} ({first.certainty}): {near}{harm}.{more}"


def _to_seconds(moment: str) -> str:
    """A time as a sentence has it; the document has it to the millisecond."""
    return rfc3339(datetime.fromisoformat(moment), "seconds")


def timing_of(cost: Cost, read_seconds: float, judge_seconds: float) -> Timing:
    """What reading and judging took."""
    seconds, query = cost.slowest or (None, None)
    slowest = None if seconds is None else round(seconds, 4)
    return Timing(read_seconds, judge_seconds, cost.queries, cost.samples, cost.split, query, slowest)


def newest_sample(scrapes: Sequence[Scrapes], grid: Grid) -> str | None:
    """When the newest sample before the end of a window was scraped."""
    times = [int(s.times_ms[s.times_ms <= grid.end_ms][-1]) for s in scrapes if (s.times_ms <= grid.end_ms).any()]
    return stamp(max(times) / 1000) if times else None


def scraped_in_window(view: View, scrapes: Sequence[Scrapes]) -> list[Scrapes]:
    """The targets that were scraped in the window, and their scrapes since it started."""
    begin_ms = 1000 * view.time_at(view.begin) - view.frame.grid.interval_ms
    inside = [_since(target, begin_ms) for target in scrapes]
    return [target for target in inside if len(target.times_ms)]


def coverage_of(
    view: View,
    scrapes: Sequence[Scrapes],
    needed: Sequence[str],
    listed: Collection[str],
    scan: Scan | None = None,
    match: tuple[Matcher, ...] = (),
) -> Coverage:
    """What was there to look at in the window. listed: signs of engines with a series in the source; scan: of all pods,
    where a part of them was read in full; match: the part of the fleet that was read, of which targets are expected to
    show engine metrics."""
    inside = scraped_in_window(view, scrapes)
    present = [name for name in needed if name in view.frame]
    missing = [name for name in needed if name not in view.frame]
    pods, missed = len(view.fleet.members), gaps(inside, view.frame.grid.interval_ms, view.fleet)
    by_samples = scan is None or not scan.by_records
    silent = without_metrics(view, [target for target in inside if matches(target.labels, match)]) if by_samples else []
    partly = without_some_metrics(view, inside, listed) if scan is None else []
    if scan is None:
        return Coverage(pods, len(inside), present, missing, missed, None, silent, partly)
    read = len(scan.members) - len(scan.quiet)
    scanned = Scanned(scan.pools(), scan.pools(read=True), read, "records" if scan.by_records else "samples")
    return Coverage(len(scan.members), len(scan.targets), present, missing, missed, scanned, silent)


def _since(target: Scrapes, begin_ms: float) -> Scrapes:
    later = int(np.searchsorted(target.times_ms, begin_ms))
    return Scrapes(target.labels, target.times_ms[later:], target.up[later:])
