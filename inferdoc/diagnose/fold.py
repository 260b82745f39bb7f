"""Roots and effects: which of the causes that hold explain the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from inferdoc.catalogue.recipe import Recipe
from inferdoc.diagnose.match import Match
from inferdoc.fleet.members import Pool

KIND_ORDER = {"hardware": 0, "process": 1, "local": 2, "driver": 3, "unexplained": 4, "telemetry": 5}
CERTAINTY = {"proven": 1.0, "likely": 0.8, "possible": 0.5}
SEVERITY = {"critical": 1.0, "warning": 0.7, "info": 0.2}


@dataclass
class Cause:
    """A recipe that holds on one or more units of a pool. onset, last: grid steps."""

    recipe: Recipe
    pool: Pool
    matches: list[Match]
    effects: list[Cause] = field(default_factory=list)
    drivers: list[Cause] = field(default_factory=list)

    @property
    def onset(self) -> int:
        return min(m.onset for m in self.matches)

    @property
    def last(self) -> int:
        return max(m.last for m in self.matches)

    @property
    def best(self) -> Match:
        """The match that shows it best: most certain, then earliest."""
        return max(self.matches, key=lambda m: (CERTAINTY[m.certainty], -m.onset))

    @property
    def severity(self) -> str:
        return "critical" if any(m.critical for m in self.matches) else self.recipe.severity


def group(matches: Iterable[Match], pool_sizes: Mapping[Pool, int]) -> list[Cause]:
    """Matches of one recipe in one pool are one cause; a cause that must hold for a share of the pool does, or is dropped."""
    found: dict[tuple[str, Pool], Cause] = {}
    for match in matches:
        key = match.recipe.id, match.unit.member.pool
        found.setdefault(key, Cause(match.recipe, key[1], [])).matches.append(match)
    return [
        cause
        for cause in found.values()
        if cause.recipe.pool_share is None
        or len({m.unit.member.key for m in cause.matches}) >= cause.recipe.pool_share * pool_sizes[cause.pool]
    ]


def reach(recipe_id: str, recipes: Mapping[str, Recipe]) -> set[str]:
    """Every cause downstream of one in the graph of effects."""
    seen: set[str] = set()
    queue = list(recipes[recipe_id].effects) if recipe_id in recipes else []
    while queue:
        name = queue.pop()
        if name not in seen and name in recipes:
            seen.add(name)
            queue += recipes[name].effects
    return seen


def fold(causes: Sequence[Cause], recipes: Mapping[str, Recipe], slack: int) -> list[Cause]:
    """The roots, best first, with effects and drivers put under them.

    An effect begins no earlier than its cause (minus `slack` steps) and serves the same model. A workload driver is a
    root only where nothing local explains the harm of its model.
    """
    downstream = {cause.recipe.id: reach(cause.recipe.id, recipes) for cause in causes}
    order = sorted(causes, key=lambda c: (KIND_ORDER[c.recipe.kind], c.onset, -CERTAINTY[c.best.certainty]))
    roots: list[Cause] = []
    for cause in order:
        if cause.recipe.kind == "unexplained" and any(
            _same_family(r, cause) and r.recipe.kind != "telemetry" for r in roots
        ):
            continue
        parent = next((r for r in roots if _explains(r, cause, downstream, slack)), None)
        if parent is None:
            adopted = [
                r
                for r in roots
                if _explains(cause, r, downstream, slack) and not _explains(r, cause, downstream, slack)
            ]
            for child in adopted:
                if cause.recipe.kind != "driver":
                    roots.remove(child)
                    cause.effects += [child, *child.effects]
                    child.effects = []
            if cause.recipe.kind == "driver" and any(
                _same_family(r, cause) and r.recipe.kind in ("local", "hardware", "process") for r in roots
            ):
                host = next(
                    r for r in roots if _same_family(r, cause) and r.recipe.kind in ("local", "hardware", "process")
                )
                host.drivers.append(cause)
                continue
            roots.append(cause)
        else:
            parent.effects += [cause, *cause.effects]
            cause.effects = []
    return sorted(roots, key=lambda c: (-score(c), c.onset))


def _same_family(a: Cause, b: Cause) -> bool:
    return a.pool.family == b.pool.family


def _explains(a: Cause, b: Cause, downstream: Mapping[str, set[str]], slack: int) -> bool:
    return (
        _same_family(a, b)
        and b.recipe.id in downstream[a.recipe.id]
        and a.onset <= b.onset + slack
        and a.recipe.kind != "telemetry"
    )


def score(cause: Cause) -> float:
    """0..1: how much of what is wrong this root explains and how sure it is."""
    base = CERTAINTY[cause.best.certainty] * (0.6 + 0.3 * SEVERITY[cause.severity])
    return min(1.0, base + 0.02 * min(5, len(cause.effects) + len(cause.drivers)))
