"""A scan of a large server by what our recording rules left there, without the samples of any pod.

Rules judge all pods anyway. Where their records reach back to before the window, a few queries tell on which pods an
impact was observed, or an alert fired. Pools that no rule watched, or not all the time, are read in full like those
that are hurt. What rules cannot say, such as series that end, this scan does not see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

from inferdoc.catalogue.identity import load_identity
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.names import load_name_forms
from inferdoc.catalogue.record_names import AMONG, fact, observations, records_of
from inferdoc.errors import SourceError
from inferdoc.fleet.members import UNKNOWN_TIER, Member, Pool, Role
from inferdoc.judging.reading import LEAST_HISTORY_MS
from inferdoc.judging.scan.impacts import impacts
from inferdoc.judging.scan.model import Family, Looked, Scan
from inferdoc.judging.session import Inquiry
from inferdoc.source.identified import Identified
from inferdoc.source.rule_records import RuleRecords


@dataclass(frozen=True)
class RecordedScan:
    """looked: what records tell of all families; hurt: the families that are, or that no rule watched; span: from the
    history's begin until the end of the window, milliseconds."""

    looked: Looked
    hurt: frozenset[Family]
    span: tuple[int, int]

    @property
    def scan(self) -> Scan:
        """Which families are read in full."""
        return replace(self.looked.scan(self.hurt), by_records=True)


def by_records(inquiry: Inquiry) -> RecordedScan | None:
    """What records tell, None where a source has none, or none of most of its families."""
    source = inquiry.source
    records = source.rule_records() if isinstance(source, Identified) else None
    if records is None:
        return None
    begin_ms, end_ms = inquiry.span
    try:
        with inquiry.reading():
            return _told(records, inquiry.catalogue, begin_ms, end_ms)
    except SourceError:  # a reading of samples says what is wrong, or asks for less
        return None


def _told(records: RuleRecords, catalogue: Catalogue, begin_ms: int, end_ms: int) -> RecordedScan | None:
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
    hurt = set(unwatched)
    for labels in (
        *records.held(records_of(impact_names(catalogue)), begin_ms, end_ms),
        *records.alarmed(begin_ms, end_ms),
    ):
        hurt |= families.about(labels)
    targets = frozenset(frozenset(labels.items()) for labels in records.targets(begin_ms, end_ms))
    looked = Looked(
        members, targets, dict(families.sizes), frozenset(records.busy(engines, end_ms)), {}, since_ms, end_ms
    )
    return RecordedScan(looked, frozenset(hurt), (since_ms, end_ms))


def impact_names(catalogue: Catalogue) -> list[str]:
    """The names of the observations that any recipe calls an impact, of whomever they are observed."""
    names = observations(catalogue)
    of_impacts = {names[fact(each)] for each in impacts(catalogue.recipes.values()) if fact(each) in names}
    own = {_own(name, catalogue) for name in of_impacts}
    return sorted({f"{name}{words}" for name in own for words in AMONG.values()})


def _own(name: str, catalogue: Catalogue) -> str:
    """The observation itself, of one that is asked of others."""
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
