"""What part of the fleet a report is about. Everything is read and compared all the same: a pod that is requested has
peers, and its fault may have started elsewhere.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from inferdoc.errors import InferdocError
from inferdoc.fleet.lineage import Key, Lineage
from inferdoc.fleet.members import Fleet, FleetFilter, Member, Pool
from inferdoc.judging.fold import WIDE_SCOPES, Cause
from inferdoc.source.base import Scrapes
from inferdoc.source.frame import Entity
from inferdoc.source.reads import Matcher, passes
from inferdoc.words import some

MOST_NAMES = 8
ASPECTS = ("cluster", "namespace", "model", "tier", "role", "pod")
"""In the order in which they narrow: from the widest on, so that the names that are left fit what came before."""


@dataclass(frozen=True)
class Focus:
    """members: the pods a report is about; None where it is about all of them. warnings: what was requested and is no
    part of the fleet."""

    selected: FleetFilter = field(default_factory=FleetFilter)
    members: tuple[Member, ...] | None = None
    warnings: tuple[str, ...] = ()

    @cached_property
    def keys(self) -> set[Key]:
        """Cluster, namespace and name of each pod in focus."""
        return {member.key for member in self.members or ()}

    def holds(self, member: Member) -> bool:
        """Whether a pod is in focus."""
        return self.members is None or member.key in self.keys

    def has_pool(self, pool: Pool) -> bool:
        """Whether a pod in focus is one of this pool."""
        return self.members is None or pool in {member.pool for member in self.members}

    def concerns(self, cause: Cause) -> bool:
        """Whether a cause shows on a pod in focus, or one of its effects does, or it is one of the pool or of the whole
        model that such a pod serves."""
        if self.members is None:
            return True
        if cause.pods & self.keys or any(self.concerns(child) for child in (*cause.effects, *cause.load_changes)):
            return True
        if cause.recipe.scope == "pool":
            return self.has_pool(cause.pool)
        families = {member.pool.family for member in self.members}
        return cause.recipe.scope in WIDE_SCOPES and cause.pool.family in families


def focus_on(
    selected: FleetFilter, fleet: Fleet, lineage: Lineage, scrapes: Sequence[Scrapes], *, lenient: bool = False
) -> Focus:
    """The pods that the names of `selected` select; a pod that was replaced stands for the one that has its place.

    Raises InferdocError where a name selects none, with the names there are; lenient: it is passed over with a warning
    instead (an alert carries labels that the metrics lack, such as an external one). A pod that is scraped and runs no
    engine (a router) is no mistake: the report is then about its namespace, and a warning says so.
    """
    required = {name: getattr(selected, name) for name in ASPECTS if getattr(selected, name) is not None}
    if not required or not fleet.members:
        return Focus(selected)
    present = {member.key: member for member in fleet.members}
    heirs = [(m, present[lineage.heir(m.key)]) for m in fleet.everyone if lineage.heir(m.key) in present]
    warnings: tuple[str, ...] = ()
    for name, value in required.items():
        kept = [(named, heir) for named, heir in heirs if _aspect(named, name) == value]
        if not kept and name == "pod" and _is_scraped(value, selected, scrapes):
            warnings = (*warnings, f"--pod {value} runs no engine: the report is about the engines beside it")
            kept = heirs
        if not kept:
            nobody = _nobody(name, value, [_aspect(named, name) for named, _ in heirs])
            if not lenient:
                raise InferdocError(nobody)
            warnings, kept = (*warnings, nobody), heirs
        heirs = kept
    if lenient and len(warnings) == len(required):
        return Focus(selected, None, warnings)
    return Focus(selected, tuple(dict.fromkeys(heir for _, heir in heirs)), warnings)


def _aspect(member: Member, name: str) -> str:
    return member.pod if name == "pod" else str(getattr(member.pool, name))


def _is_scraped(pod: str, selected: FleetFilter, scrapes: Iterable[Scrapes]) -> bool:
    entities = (Entity.of_labels(target.labels) for target in scrapes)
    members = (entity.member for entity in entities)
    return any(
        name == pod and selected.namespace in (None, namespace) and selected.cluster in (None, cluster)
        for cluster, namespace, name in members
    )


def _nobody(name: str, value: str, names: Collection[str]) -> str:
    """One line: what nobody is called, and the names there are, nearest first."""
    likeness = {each: difflib.SequenceMatcher(None, value, each).ratio() for each in names if each}
    known = sorted(likeness, key=lambda each: (-likeness[each], each))
    if not known:
        return f"--{name} {value}: nothing in the source shows the {name} of a pod; leave it out"
    return f"--{name} {value}: no such {name} in the window; known here: {some(known, MOST_NAMES)}"


def lost_peers(match: Sequence[Matcher], fleet: Fleet, scrapes: Sequence[Scrapes]) -> str | None:
    """A warning where label matchers keep the peers of the selected pods from being read, else None.

    The targets of a job are taken for peers. Matchers on labels that no target carries (a model) are passed over.
    """
    keys = {member.key for member in fleet.everyone}
    jobs = {_job(t) for t in scrapes if Entity.of_labels(t.labels).member in keys}
    there = [t.labels for t in scrapes if _job(t) in jobs]
    on_targets = [one for one in match if any(one[0] in labels for labels in there)]
    out = [labels for labels in there if not all(passes(labels.get(n, ""), op, v) for n, op, v in on_targets)]
    if not out:
        return None
    texts = " ".join(f"-l {''.join(one)}" for one in on_targets)
    return (
        f"{texts} leaves {len(out)} of {len(there)} targets of its job unread, and nothing is compared with them; "
        "--pod, --role, --tier, --model, --namespace and --cluster narrow the report alone"
    )


def check_matchers(match: Sequence[Matcher], scrapes: Sequence[Scrapes], labels: Collection[str] | None) -> None:
    """Raise InferdocError for a label matcher that leaves no target, or whose label no series has. labels: the names of
    all labels, None where the source cannot list them."""
    for name, operator, value in match:
        known = sorted({target.labels[name] for target in scrapes if name in target.labels})
        text = f"-l {name}{operator}{value}"
        if known and not any(passes(one, operator, value) for one in known):
            raise InferdocError(f"{text}: no target has it; known here: {some(known, MOST_NAMES)}")
        if labels is not None and name not in labels and not passes("", operator, value):
            raise InferdocError(f"{text}: no series in the window has the label {name}")


def _job(target: Scrapes) -> tuple[str, str, str]:
    labels = target.labels
    return labels.get("cluster", ""), labels.get("namespace", ""), labels.get("job", "")
