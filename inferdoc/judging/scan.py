"""What a scan of a large fleet came to (`inferdoc.judging.triage`)."""

from __future__ import annotations

from dataclasses import dataclass

from inferdoc.fleet.members import Member

Family = tuple[str, str, str]
"""Cluster, namespace and model: pools that serve one model together."""


@dataclass(frozen=True)
class Scan:
    """members: all pods; targets: how many targets; read: the families that are read in full."""

    members: tuple[Member, ...]
    targets: int
    read: frozenset[Family]

    @property
    def quiet(self) -> list[Member]:
        """The pods that are not read in full."""
        return [member for member in self.members if member.pool.family not in self.read]

    def pools(self, read: bool = False) -> int:
        """Number of pools, or of those that are read in full."""
        return len({m.pool for m in self.members if not read or m.pool.family in self.read})
