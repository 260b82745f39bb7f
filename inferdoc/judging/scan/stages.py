"""A large fleet in two stages: all pods for impact, then the families that show any in full.

Where one look holds what is scanned of all pods, it is scanned whole; else part by part, so that memory does not grow
with the fleet. Where recording rules watched it, what they left shows who is affected, without a sample of any pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.names import load_identity, load_name_forms
from inferdoc.catalogue.record_names import AMONG, fact, observations, records_of
from inferdoc.errors import SourceError, TooSlowError
from inferdoc.fleet.members import UNKNOWN_TIER, Family, Member, Pool, Role
from inferdoc.judging.answer import scraped_in_window
from inferdoc.judging.judged import Judged
from inferdoc.judging.reading import LEAST_HISTORY_MS, names_of
from inferdoc.judging.references.lifetime import FirstLook, absolute
from inferdoc.judging.references.providers import references
from inferdoc.judging.scan.impacts import (
    affected_families,
    has_families,
    impacts,
    is_scanned_whole,
    looked,
    may_leave_out,
    scan_signals,
    targets_at_once,
)
from inferdoc.judging.scan.model import Looked, Scan
from inferdoc.judging.scan.parts import PartScans, PartSeen
from inferdoc.judging.session import Inquiry, Session, needed_signals
from inferdoc.source.identified import Identified
from inferdoc.source.rule_records import RuleRecords

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
    affected = affected_families(session.context, inquiry.catalogue.recipes)
    judged = _of_part(inquiry, overview, affected, deep) if affected else None
    if judged is None or not judged.is_explained:
        source.leave_out_pods((), (), 0, 0)
        further = affected | _affected_by_references(inquiry, session)
        if judged is None or further != affected:
            judged = _of_part(inquiry, overview, further, deep)
    return judged


def _scanned_in_parts(inquiry: Inquiry, source: Identified, deep: Deep) -> Judged:
    with PartScans.of(inquiry, scanned_part, targets_at_once()) as scans:
        scans.run()
        overview, affected, below = scans.together()
    judged = _of_part(inquiry, overview, affected, deep) if affected else None
    if judged is None or not judged.is_explained:
        if below is None:
            source.leave_out_pods((), (), 0, 0)
            with PartScans.of(inquiry, scanned_part, targets_at_once(), scans) as scans:
                scans.run(always=True)
                _, _, below = scans.together()
        if judged is None or below:
            judged = _of_part(inquiry, overview, affected | (below or set()), deep)
    return judged


def scanned_part(inquiry: Inquiry, climbs: bool) -> PartSeen:
    """What is seen of the families that are read now, which of them are affected, and where none is, which are against
    another reference."""
    session = inquiry.session(scan_signals(inquiry.catalogue), None)
    affected = affected_families(session.context, inquiry.catalogue.recipes)
    below = set[Family]() if affected else _affected_by_references(inquiry, session) if climbs else None
    return PartSeen(_looked(session), frozenset(affected), None if below is None else frozenset(below))


def _looked(session: Session) -> Looked:
    return looked(session.context, scraped_in_window(session.context.view, session.scrapes))


def _of_part(inquiry: Inquiry, overview: Looked, affected: Collection[Family], deep: Deep) -> Judged:
    """Only these families, and one beside them, read in full."""
    scan = overview.scan(affected)
    read_chosen(inquiry, scan, (overview.start_ms, overview.end_ms), overview.quiet_hosts(scan))
    return deep(inquiry, scan)


def _affected_by_references(inquiry: Inquiry, session: Session) -> set[Family]:
    """The families that are affected against the first other reference by which any is."""
    recipes = inquiry.catalogue.recipes
    for reference in references(session, of_an_earlier_day=False):
        try:
            later = inquiry.session(scan_signals(inquiry.catalogue), reference)
        except TooSlowError:
            break
        first_look = FirstLook.of(later.context.view) if later.context.view.lead_kind == "lifetime" else None
        affected = affected_families(later.context, absolute(recipes, first_look) if first_look else recipes)
        if affected:
            return affected
    return set()


def read_chosen(inquiry: Inquiry, scan: Scan, span: tuple[int, int], quiet_hosts: Collection[str] = ()) -> None:
    """From now on read what is about the chosen families, with their exporters. A server is requested the pods by their
    names, since pods of several clusters have the same addresses; where it names none, and of a store, the targets of
    the other pods are left out. span: from the begin of the history until the end of the window, milliseconds;
    quiet_hosts: those of exporters that describe other pods only. Raises SourceError."""
    source, catalogue = inquiry.source, inquiry.catalogue
    assert isinstance(source, Identified)
    quiet = {member.key for member in scan.quiet}
    source.leave_out_pods((), (), 0, 0)
    needed = names_of(needed_signals(catalogue), catalogue, catalogue.aliases)
    pods = {member.key for member in scan.members if member.key not in quiet}
    if not source.read_pods(pods, needed, span):
        source.leave_out_pods(quiet, quiet_hosts, *span)


@dataclass(frozen=True)
class RecordedScan:
    """looked: what records show of all families; affected: the families that are, or that no rule watched; span: from
    the history's begin until the end of the window, milliseconds."""

    looked: Looked
    affected: frozenset[Family]
    span: tuple[int, int]

    @property
    def scan(self) -> Scan:
        """Which families are read in full."""
        return replace(self.looked.scan(self.affected), by_records=True)


def by_records(inquiry: Inquiry) -> RecordedScan | None:
    """What records show, None where a source has none, or none of most of its families."""
    source = inquiry.source
    records = source.rule_records() if isinstance(source, Identified) else None
    if records is None:
        return None
    begin_ms, end_ms = inquiry.span
    try:
        with inquiry.reading():
            return _scan_of(records, inquiry.catalogue, begin_ms, end_ms)
    except SourceError:  # a reading of samples says what is wrong, or requires less
        return None


def _scan_of(records: RuleRecords, catalogue: Catalogue, begin_ms: int, end_ms: int) -> RecordedScan | None:
    since_ms = begin_ms - LEAST_HISTORY_MS
    watched = records.watched(since_ms, end_ms)
    if not watched:
        return None
    forms = load_name_forms(catalogue.overlays)
    engines = [form for name in load_identity(catalogue.overlays).engines[-1] for form in forms.spelled(name)]
    members = tuple(_members(records.pods(begin_ms, end_ms)))
    families = _Families.of(members)
    unwatched = families.sizes.keys() - watched | (records.unwatched(engines, end_ms))
    if len(unwatched) > len(watched):
        return None
    affected = set(unwatched)
    for labels in (
        *records.true_records(records_of(impact_names(catalogue)), begin_ms, end_ms),
        *records.alarmed(begin_ms, end_ms),
    ):
        affected |= families.about(labels)
    targets = frozenset(frozenset(labels.items()) for labels in records.targets(begin_ms, end_ms))
    looked = Looked(
        members, targets, dict(families.sizes), frozenset(records.busy(engines, end_ms)), {}, since_ms, end_ms
    )
    return RecordedScan(looked, frozenset(affected), (since_ms, end_ms))


def impact_names(catalogue: Catalogue) -> list[str]:
    """The names of the observations that any recipe calls an impact, of whomever they are observed."""
    names = observations(catalogue)
    of_impacts = {names[fact(each)] for each in impacts(catalogue.recipes.values()) if fact(each) in names}
    own = {_own(name, catalogue) for name in of_impacts}
    return sorted({f"{name}{words}" for name in own for words in AMONG.values()})


def _own(name: str, catalogue: Catalogue) -> str:
    """The observation itself, of one that is evaluated on others."""
    ends = (words for words in AMONG.values() if words and name.endswith(words))
    return next((own for words in ends if (own := name.removesuffix(words)) in catalogue.dictionary.observations), name)


def _members(pods: Iterable[Mapping[str, str]]) -> Iterable[Member]:
    """The pods as records name them; of several roles or tiers that a pod had the first."""
    by_key: dict[tuple[str, str, str], Member] = {}
    for labels in pods:
        key = (labels.get("cluster", ""), labels.get("namespace", ""), labels.get("pod", ""))
        role = labels.get("role", "")
        pool = Pool(
            key[0], key[1], labels.get("model_name", ""),
            role if role in get_args(Role) else "both", labels.get("tier", UNKNOWN_TIER),
        )  # fmt: skip
        by_key.setdefault(key, Member(key, "", "", pool))
    return [by_key[key] for key in sorted(by_key)]


@dataclass(frozen=True)
class _Families:
    """sizes: pods of each family; of_pod: by the key of a pod; of_place: by cluster and namespace."""

    sizes: Counter[Family] = field(default_factory=Counter)
    of_pod: dict[tuple[str, str, str], Family] = field(default_factory=dict)
    of_place: dict[tuple[str, str], set[Family]] = field(default_factory=dict)

    @classmethod
    def of(cls, members: Iterable[Member]) -> _Families:
        families = cls()
        for member in members:
            family = member.pool.family
            families.sizes[family] += 1
            families.of_pod[member.key] = family
            families.of_place.setdefault(family[:2], set()).add(family)
        return families

    def about(self, labels: Mapping[str, str]) -> set[Family]:
        """The families that a record or an alert with these labels is about."""
        place = labels.get("cluster", ""), labels.get("namespace", "")
        family = (*place, labels.get("model_name", ""))
        if family in self.sizes:
            return {family}
        of_pod = self.of_pod.get((*place, labels.get("pod", "")))
        if of_pod is not None:
            return {of_pod}
        return self.of_place.get(place, set()) if any(place) else set()
