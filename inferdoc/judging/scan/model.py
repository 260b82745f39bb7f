"""What a scan of a large fleet came to (`inferdoc.judging.scan.impacts`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from inferdoc.fleet.members import Family, Member
from inferdoc.source.identity import Key

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Scan:
    """members: all pods; targets: labels of each target; read: the families that are read in full; by_records: all pods
    were scanned by what recording rules left of them."""

    members: tuple[Member, ...]
    targets: frozenset[Labels]
    read: frozenset[Family]
    by_records: bool = False

    @property
    def quiet(self) -> list[Member]:
        """The pods that are not read in full."""
        return [member for member in self.members if member.pool.family not in self.read]

    def pools(self, read: bool = False) -> int:
        """Number of pools, or of those that are read in full."""
        return len({m.pool for m in self.members if not read or m.pool.family in self.read})


@dataclass(frozen=True)
class Looked:
    """What a scan saw of some families. members: their pods; targets: labels of each; sizes: units of each family;
    busy: the families that can be judged; about: host -> the pods that what was scanned there is about; start_ms,
    end_ms: the time range."""

    members: tuple[Member, ...]
    targets: frozenset[Labels]
    sizes: dict[Family, int]
    busy: frozenset[Family]
    about: dict[str, set[Key]]
    start_ms: int
    end_ms: int

    def scan(self, affected: Collection[Family]) -> Scan:
        """Which families are read in full: those that are affected, and one that serves and is not."""
        baseline = sorted((family for family in self.sizes if family not in affected), key=lambda f: (self.sizes[f], f))
        busy = next((family for family in baseline if family in self.busy), None)
        read = {*affected, *((busy,) if busy is not None else baseline[:1])}
        return Scan(self.members, self.targets, frozenset(read))

    def quiet_hosts(self, scan: Scan) -> set[str]:
        """The hosts of which what was scanned is about pods that are not read in full, as far as it is about pods of
        the fleet: the exporters of a node describe what runs there."""
        quiet = {member.key for member in scan.quiet}
        return {host for host, keys in self.about.items() if keys <= quiet}


def together(parts: Iterable[Looked]) -> Looked:
    """What several scans of other families each saw. What two of them read, such as a router, is one target."""
    parts = list(parts)
    sizes: dict[Family, int] = {}
    about: dict[str, set[Key]] = {}
    for part in parts:
        sizes |= part.sizes
        for host, keys in part.about.items():
            about.setdefault(host, set()).update(keys)
    return Looked(
        tuple(member for part in parts for member in part.members),
        frozenset().union(*(part.targets for part in parts)),
        sizes,
        frozenset().union(*(part.busy for part in parts)),
        about,
        min(part.start_ms for part in parts),
        max(part.end_ms for part in parts),
    )
