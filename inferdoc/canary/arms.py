"""The two groups of pods that are compared with each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from inferdoc.catalogue.document import nearest
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Member, Pool
from inferdoc.forecast.fromsource import Key, pool_name
from inferdoc.words import some


@dataclass(frozen=True)
class Arms:
    """stable: what runs; candidate: what is to replace it, pods of one pool."""

    stable: tuple[Member, ...]
    candidate: tuple[Member, ...]

    @property
    def pool(self) -> Pool:
        """That of the candidate."""
        return self.candidate[0].pool

    def keys(self) -> tuple[frozenset[Key], frozenset[Key]]:
        """The pods of the candidate and those of the stable group."""
        return frozenset(m.key for m in self.candidate), frozenset(m.key for m in self.stable)


def arms(members: Sequence[Member], candidate: str, baseline: str | None) -> Arms:
    """candidate, baseline: the name of a pool, or names of pods with * and commas; without a baseline the other pods
    that serve the model in the same role. Raises InferdocError."""
    chosen = _chosen(members, candidate, "--candidate")
    pools = {(member.pool.family, member.role) for member in chosen}
    if len(pools) > 1:
        names = ", ".join(sorted({pool_name(member.pool) for member in chosen}))
        raise InferdocError(f"--candidate {candidate}: its pods are of several pools ({names}); judge one at a time")
    keys = {member.key for member in chosen}
    usual = [m for m in members if (m.pool.family, m.role) in pools] if baseline is None else []
    rest = usual if baseline is None else _chosen(members, baseline, "--baseline")
    stable = [member for member in rest if member.key not in keys]
    if not stable:
        what = (
            "no other pod serves its model; name one with --baseline" if baseline is None else "has no pod of its own"
        )
        raise InferdocError(f"{'--candidate ' + candidate if baseline is None else '--baseline ' + baseline}: {what}")
    _comparable(chosen[0], stable)
    return Arms(tuple(stable), tuple(chosen))


def _comparable(candidate: Member, stable: Sequence[Member]) -> None:
    """Raises InferdocError where the groups serve other models, in other roles or on other hardware: then their
    difference says nothing of the change."""
    for what, mine, others in (
        ("serve the model", candidate.pool.model, {m.pool.model for m in stable}),
        ("have the role", candidate.role, {m.role for m in stable}),
        ("run on the tier", candidate.tier, {m.tier for m in stable}),
    ):
        if others != {mine}:
            other = ", ".join(sorted(others - {mine}))
            raise InferdocError(
                f"candidate pods {what} {mine}, baseline pods also {other}: choose like ones with --baseline"
            )


def _chosen(members: Sequence[Member], text: str, flag: str) -> list[Member]:
    pools = {pool_name(member.pool) for member in members}
    if text in pools:
        return [member for member in members if pool_name(member.pool) == text]
    patterns = [part.strip() for part in text.split(",") if part.strip()]
    found = [m for m in members if any(fnmatchcase(name, p) for p in patterns for name in {m.pod, m.shown})]
    if not found:
        names = sorted(pools | {member.shown for member in members})
        raise InferdocError(f'{flag}: no pool or pod "{text}"{nearest(text, names)}; seen: {some(names, MOST_NAMES)}')
    return found


MOST_NAMES = 8
