"""A large fleet in two stages: all pods for impact, then the families that show any in full.

Where one look holds what is scanned of all pods, it is scanned whole; else part by part, so that memory does not grow
with the fleet. Where recording rules watched it, what they left tells who is affected, without a sample of any pod.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from inferdoc.catalogue.aliases import Aliases
from inferdoc.errors import TooSlowError
from inferdoc.judging.answer import scraped_in_window
from inferdoc.judging.judged import Judged
from inferdoc.judging.reading import names_of
from inferdoc.judging.references.first_look import FirstLook, absolute
from inferdoc.judging.references.providers import references
from inferdoc.judging.scan.impacts import (
    has_families,
    hurt_families,
    is_scanned_whole,
    looked,
    may_leave_out,
    scan_signals,
    targets_at_once,
)
from inferdoc.judging.scan.model import Family, Looked, Scan
from inferdoc.judging.scan.parts import PartScans, PartSeen
from inferdoc.judging.scan.records import RecordedScan, by_records
from inferdoc.judging.session import Inquiry, Session, needed_signals
from inferdoc.source.identified import Identified

Deep = Callable[[Inquiry, Scan | None], Judged]
"""Reads in full what a source is set to read, and judges it. The scan: what was looked at before, if anything."""


def in_stages(inquiry: Inquiry, deep: Deep) -> Judged:
    """A deep read, or a scan and a deep read of what it chose, where there is much to read."""
    if not may_leave_out(inquiry):
        return deep(inquiry, None)
    recorded = by_records(inquiry)
    if recorded is not None and len(recorded.looked.sizes) > 1:
        return _of_records(inquiry, recorded, deep)
    source = inquiry.source
    assert isinstance(source, Identified)
    if not has_families(inquiry, needed_signals(inquiry.catalogue)):
        return deep(inquiry, None)
    try:
        return (_scanned_whole if is_scanned_whole(source) else _scanned_in_parts)(inquiry, source, deep)
    finally:
        source.leave_out_pods((), (), 0, 0)


def _of_records(inquiry: Inquiry, recorded: RecordedScan, deep: Deep) -> Judged:
    source = inquiry.source
    assert isinstance(source, Identified)
    try:
        with inquiry.reading():
            read_chosen(inquiry, recorded.scan, recorded.span)
        return deep(inquiry, recorded.scan)
    finally:
        source.read_all_pods()


def _scanned_whole(inquiry: Inquiry, source: Identified, deep: Deep) -> Judged:
    session = inquiry.session(scan_signals(inquiry.catalogue), None)
    overview = _looked(session)
    hurt = hurt_families(session.context, inquiry.catalogue.recipes)
    judged = _of_part(inquiry, overview, hurt, deep) if hurt else None
    if judged is None or not judged.is_explained:
        source.leave_out_pods((), (), 0, 0)
        further = hurt | _hurt_by_references(inquiry, session)
        if judged is None or further != hurt:
            judged = _of_part(inquiry, overview, further, deep)
    return judged


def _scanned_in_parts(inquiry: Inquiry, source: Identified, deep: Deep) -> Judged:
    with PartScans.of(inquiry, scanned_part, targets_at_once()) as scans:
        scans.run()
        overview, hurt, below = scans.together()
    judged = _of_part(inquiry, overview, hurt, deep) if hurt else None
    if judged is None or not judged.is_explained:
        if below is None:
            source.leave_out_pods((), (), 0, 0)
            with PartScans.of(inquiry, scanned_part, targets_at_once(), scans) as scans:
                scans.run(always=True)
                _, _, below = scans.together()
        if judged is None or below:
            judged = _of_part(inquiry, overview, hurt | (below or set()), deep)
    return judged


def scanned_part(inquiry: Inquiry, climbs: bool) -> PartSeen:
    """What is seen of the families that are read now, which of them are affected, and where none is, which are against
    another reference."""
    session = inquiry.session(scan_signals(inquiry.catalogue), None)
    hurt = hurt_families(session.context, inquiry.catalogue.recipes)
    below = set[Family]() if hurt else _hurt_by_references(inquiry, session) if climbs else None
    return PartSeen(_looked(session), frozenset(hurt), None if below is None else frozenset(below))


def _looked(session: Session) -> Looked:
    return looked(session.context, scraped_in_window(session.context.view, session.scrapes))


def _of_part(inquiry: Inquiry, overview: Looked, hurt: Collection[Family], deep: Deep) -> Judged:
    """Only these families, and one beside them, read in full."""
    scan = overview.scan(hurt)
    read_chosen(inquiry, scan, (overview.start_ms, overview.end_ms), overview.quiet_hosts(scan))
    return deep(inquiry, scan)


def _hurt_by_references(inquiry: Inquiry, session: Session) -> set[Family]:
    """The families that are affected against the first other reference by which any is."""
    recipes = inquiry.catalogue.recipes
    for reference in references(session, of_an_earlier_day=False):
        try:
            later = inquiry.session(scan_signals(inquiry.catalogue), reference)
        except TooSlowError:
            break
        first_look = FirstLook.of(later.context.view) if later.context.view.lead_kind == "lifetime" else None
        hurt = hurt_families(later.context, absolute(recipes, first_look) if first_look else recipes)
        if hurt:
            return hurt
    return set()


def read_chosen(inquiry: Inquiry, scan: Scan, span: tuple[int, int], quiet_hosts: Collection[str] = ()) -> None:
    """From now on read what is about the chosen families, with their exporters. A server is asked for the pods by their
    names, since pods of several clusters have the same addresses; where it names none, and of a store, the targets of
    the other pods are left out. span: from the begin of the history until the end of the window, milliseconds;
    quiet_hosts: those of exporters that tell of other pods only. Raises SourceError."""
    source, catalogue = inquiry.source, inquiry.catalogue
    assert isinstance(source, Identified)
    quiet = {member.key for member in scan.quiet}
    source.leave_out_pods((), (), 0, 0)
    needed = names_of(needed_signals(catalogue), catalogue, Aliases(catalogue.exporters.values()))
    pods = {member.key for member in scan.members if member.key not in quiet}
    if not source.read_pods(pods, needed, span):
        source.leave_out_pods(quiet, quiet_hosts, *span)
