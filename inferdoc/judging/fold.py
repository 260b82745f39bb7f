"""Roots and effects: which of the causes that hold explain the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from inferdoc.catalogue.recipe import Kind, Recipe, Severity
from inferdoc.fleet.members import Pool
from inferdoc.judging.verdict import Match

KIND_ORDER = {"hardware": 0, "process": 1, "local": 2, "load": 3, "unexplained": 4, "telemetry": 5}
CERTAINTY = {"proven": 1.0, "likely": 0.8, "possible": 0.5}
SEVERITY: dict[Severity, float] = {"critical": 1.0, "warning": 0.7, "info": 0.2}

ARRIVALS = "arrival_rate"
"""Evidence that no limit of an engine brings about: more requests come."""
WIDE_SCOPES = {"pool", "fleet", "tenant"}


@dataclass
class Cause:
    """A recipe that holds on one or more units of a pool. onset, last: grid steps; again: its other episodes."""

    recipe: Recipe
    pool: Pool
    matches: list[Match]
    effects: list[Cause] = field(default_factory=list)
    load_changes: list[Cause] = field(default_factory=list)
    again: list[Match] = field(default_factory=list)

    @property
    def onset(self) -> int:
        """The first step of the earliest match."""
        return min(m.onset for m in self.matches)

    @property
    def stands(self) -> int:
        """The first step from which on all symptoms hold on a unit."""
        return min(max(m.stands, m.onset) for m in self.matches)

    @property
    def harms(self) -> int:
        """The first step at which its impact shows on a unit."""
        begins = (e.outcome.first for m in self.matches for e in m.evidence if e.role == "harm")
        return max(self.onset, min((begin for begin in begins if begin is not None), default=self.onset))

    @property
    def last(self) -> int:
        """The last step of the latest match."""
        return max(m.last for m in self.matches)

    @property
    def best(self) -> Match:
        """The match that shows it best: most certain, then earliest."""
        return max(self.matches, key=lambda m: (CERTAINTY[m.certainty], -m.onset))

    @property
    def pods(self) -> set[tuple[str, str, str]]:
        """The pods it shows on."""
        return {m.unit.member.key for m in self.matches}

    @property
    def severity(self) -> Severity:
        """Critical where any match is, else the recipe's; one more where it came again."""
        worst_first = list(SEVERITY)
        own = 0 if any(m.critical for m in self.matches) else worst_first.index(self.recipe.severity)
        return worst_first[max(0, own - bool(self.again))]


def group(matches: Iterable[Match], pool_size: Callable[[Pool, int], int]) -> list[Cause]:
    """Matches of one recipe in one pool are one cause; dropped where it must hold for a larger share of the pool.
    pool_size: how many pods of a pool served at a step."""
    found: dict[tuple[str, Pool], Cause] = {}
    for match in matches:
        key = match.recipe.id, match.unit.member.pool
        found.setdefault(key, Cause(match.recipe, key[1], [])).matches.append(match)
    return [
        cause
        for cause in found.values()
        if cause.recipe.pool_share is None
        or len(cause.pods) >= cause.recipe.pool_share * pool_size(cause.pool, cause.onset)
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
    """The roots, best first, with effects and load changes put under them.

    An effect begins no earlier than its cause (minus `slack` steps), serves the same model and touches the same pods,
    or is reached through the pool or the other role. A load change is a root only where nothing local explains most
    of the pods it affects; it is an effect of a local limit only where no more requests arrive than before.
    """
    downstream = {cause.recipe.id: reach(cause.recipe.id, recipes) for cause in causes}
    order = sorted(causes, key=lambda c: (KIND_ORDER[c.recipe.kind], c.onset, -CERTAINTY[c.best.certainty]))
    roots: list[Cause] = []
    for cause in order:
        if cause.recipe.kind == "unexplained" and any(_covers(root, cause, slack) for root in roots):
            continue
        outside = _local_host(roots, cause, ("local",)) if _comes_from_outside(cause) else None
        if outside is not None and outside.recipe.limit and _fills(cause, outside, slack):
            for reached in [r for r in roots if r.recipe.limit and _touch(cause, r)]:
                roots.remove(reached)
                _adopt(cause, reached)
            roots.append(cause)
            continue
        if outside is not None and cause.recipe.kind == "load":
            outside.load_changes.append(cause)
            continue
        parent = next((r for r in roots if _explains(r, cause, downstream, slack)), None)
        if parent is not None:
            _adopt(parent, cause)
            continue
        host = _local_host(roots, cause) if cause.recipe.kind == "load" else None
        if host is not None:
            host.load_changes.append(cause)
            continue
        for child in [r for r in roots if _explains(cause, r, downstream, slack)]:
            if cause.recipe.kind != "load" or child.recipe.kind == "load":
                roots.remove(child)
                _adopt(cause, child)
        roots.append(cause)
    for cause in list(roots):
        specific = next((r for r in roots if _is_case_of(r, cause, slack)), None)
        if specific is not None:
            roots.remove(cause)
            _adopt(specific, cause)
    return sorted(roots, key=lambda c: (-score(c), c.onset))


def _is_case_of(specific: Cause, general: Cause, slack: int) -> bool:
    """Whether a cause covers what a catch-all, or one that it says it is a kind of, names: it started no later, on at
    least half of its pods."""
    if not general.recipe.catch_all and general.recipe.id not in specific.recipe.more_specific_than:
        return False
    if specific.recipe.catch_all or specific.recipe.kind in ("load", "unexplained", "telemetry"):
        return False
    if not _same_family(specific, general) or specific.onset > general.onset + slack:
        return False
    return _holds_on_most(specific, general) and _lasts_with(specific, general, slack)


def _covers(root: Cause, unexplained: Cause, slack: int) -> bool:
    """Whether a root, or what is folded under it, accounts for the place and the time of a harm that has no recipe.
    What only a router shows is the harm of any of the pods behind it."""
    if root.recipe.kind == "telemetry" or not _lasts_with(root, unexplained, slack):
        return False
    behind = all(m.above for m in unexplained.matches) and _same_family(root, unexplained)
    return behind or any(_touch(one, unexplained) for one in (root, *root.effects))


def _adopt(parent: Cause, child: Cause) -> None:
    """Put a cause and what it explains under another."""
    parent.effects += [child, *child.effects]
    child.effects = []


def _comes_from_outside(cause: Cause) -> bool:
    """Whether it shows on most of its pods what no engine does to itself. A pod that is lost sends its share to the
    others, so this speaks against local limits only."""
    return 2 * sum(any(e.outcome.signal == ARRIVALS for e in m.evidence) for m in cause.matches) > len(cause.matches)


def _fills(cause: Cause, limit: Cause, slack: int) -> bool:
    """Whether more requests keep a limit reached: more load from its beginning on, or requests that are sent again,
    which start after a timeout and outlast what first reached it."""
    if cause.recipe.kind == "load":
        return cause.onset <= limit.onset + slack
    return limit.recipe.id in cause.recipe.effects and _lasts_with(cause, limit, slack)


def _local_host(
    roots: Sequence[Cause], load_change: Cause, kinds: Sequence[Kind] = ("local", "hardware", "process")
) -> Cause | None:
    """The local root under which a load change is a mere change: it holds on most of the load change's pods."""
    for root in roots:
        if root.recipe.kind in kinds and _same_family(root, load_change) and _holds_on_most(root, load_change):
            return root
    return None


def _holds_on_most(root: Cause, load_change: Cause) -> bool:
    """Whether a cause holds on at least half of the pods that a load change affects."""
    return len(root.pods & load_change.pods) * 2 >= len(load_change.pods)


def _same_family(a: Cause, b: Cause) -> bool:
    return a.pool.family == b.pool.family


def _touch(a: Cause, b: Cause) -> bool:
    """Whether two causes concern the same place: shared pods, or a scope wider than a pod."""
    wide = {a.recipe.scope, b.recipe.scope} & WIDE_SCOPES
    return _same_family(a, b) and bool(a.pods & b.pods or wide)


def _explains(a: Cause, b: Cause, downstream: Mapping[str, set[str]], slack: int) -> bool:
    """Whether b is an effect of a. Between pods only direct effects count: those of a lost process or a slow machine on
    its like, which a balancer gives what it does not take, and those of one role on the other. In a circle that begins
    at one time a direct effect outweighs a remote one."""
    if a.recipe.kind == "telemetry" or not _same_family(a, b):
        return False
    if a.onset > max(b.onset, b.harms) + slack and a.stands > b.stands + slack:
        return False
    if not _lasts_with(a, b, slack):
        return False
    if a.recipe.id == b.recipe.id and a.recipe.scope == "pool":
        return a.pool.role != b.pool.role
    if a.recipe.kind == "local" and b.recipe.kind == "load" and not _holds_on_most(a, b):
        return False
    if _touch(a, b):
        together = min(abs(a.onset - b.onset), abs(a.stands - b.stands)) <= slack
        if together and a.recipe.id in b.recipe.effects and b.recipe.id not in a.recipe.effects:
            return False
        return b.recipe.id in downstream[a.recipe.id]
    spreads = a.recipe.kind in ("process", "hardware") or a.pool.role != b.pool.role
    return spreads and b.recipe.id in a.recipe.effects


def _lasts_with(a: Cause, b: Cause, slack: int) -> bool:
    """Whether a cause lasted for at least half of what it is to explain, from when that affects users on, and what it
    left behind to drain."""
    begin = min(b.harms, b.last)
    length = b.last - begin + 1
    return 2 * (min(b.last, a.last + slack) - max(begin, a.onset) + 1) >= length


def score(cause: Cause) -> float:
    """0..1: how much of what is wrong this root explains and how sure it is."""
    base = CERTAINTY[cause.best.certainty] * (0.6 + 0.3 * SEVERITY[cause.severity])
    return min(1.0, base + 0.02 * min(5, len(cause.effects) + len(cause.load_changes)))
