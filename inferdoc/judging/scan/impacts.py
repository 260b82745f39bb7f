"""Which pools of a large fleet are looked at in full.

No cause is reported without an impact, so whoever shows none of the impacts that the recipes name has no finding. The
scan reads only the signals of these impacts and of who is who, for all pods, and requires them as the recipes do,
without waiting for the symptoms that would begin an episode. Pods of one model in one namespace are compared with each
other, share a router and explain each other's harm (prefill and decode, several tiers): where one of them is affected,
all are read. Beside them one busy family is, so that a fleet in which nobody is affected is judged by somebody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from inferdoc.catalogue.conditions import Condition, Move
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recipe import Recipe
from inferdoc.errors import SourceError
from inferdoc.fleet.members import COMPUTED, ENGINE_SIGNS, PROMPTS, Family, FleetFilter
from inferdoc.judging.clock import Clock, Rule
from inferdoc.judging.conditions import evaluate, holding_until, prepare
from inferdoc.judging.conditions.relative import rule_of
from inferdoc.judging.context import Context, UnitQuery
from inferdoc.judging.deviation import LEAST_BLOCKS, STANDARD_ERRORS
from inferdoc.judging.impact import FELT, breaches
from inferdoc.judging.judge import LATENCY, PROGRESS, can_judge
from inferdoc.judging.reading import history_ms, names_of
from inferdoc.judging.scan.model import Looked
from inferdoc.judging.session import Inquiry
from inferdoc.judging.unjudged import probe_trouble
from inferdoc.judging.view import Unit, by_family
from inferdoc.source.base import Scrapes
from inferdoc.source.fleet_places import host_of
from inferdoc.source.identified import Identified
from inferdoc.source.identity import Key

LEAST_TARGETS = 256
"""With fewer targets in a source all of them are read at once: that takes seconds, a scan half of them."""
SCANNED_AT_ONCE = 1200
"""Targets of a store of which a scan holds the samples: two hours of them, scraped every 15 s, take half a gigabyte."""
ROLES = (
    *ENGINE_SIGNS,
    *PROGRESS,
    PROMPTS,
    COMPUTED,
    "output_len_mean",
    "arrival_rate",
    "target_up",
    "probe_success",
    "probe_status",
    "process_start_time",
)
"""Read beside the impacts: who serves, as what, who came and left, and whose health probes fail."""
LOOKS = 6
"""An impact that needs to know when the mechanism started is requested at so many times."""
SLACK = 0.9
"""A mean is compared at a few places only; it is taken for moved from this share of what a recipe requires on."""


def may_leave_out(inquiry: Inquiry) -> bool:
    """Whether there is so much to read that a scan before it may pay, and nothing was named that it could leave out."""
    source, options = inquiry.source, inquiry.options
    named = options.baseline is not None or options.match or options.selected != FleetFilter()
    if options.deep or named or not isinstance(source, Identified):
        return False
    count = source.target_count()
    return count is not None and count >= LEAST_TARGETS


def has_families(inquiry: Inquiry, needed: Sequence[str]) -> bool:
    """Whether it has more than one family, so that some can be left out. needed: the signals of a deep read."""
    source = inquiry.source
    assert isinstance(source, Identified)
    return _families(source, inquiry, needed) != 1


def is_scanned_whole(source: Identified) -> bool:
    """Whether a scan reads all pods at once; of a larger store it reads some families after others. A server is
    required for one signal after the other, and would have to be given with each which thousands of targets to leave
    out."""
    count = source.target_count()
    return source.kind != "store" or count is None or count <= SCANNED_AT_ONCE


def targets_at_once() -> int:
    """About how many targets of a larger store are scanned in one look: two processes hold those of one each."""
    return SCANNED_AT_ONCE // 2


def _families(source: Identified, inquiry: Inquiry, needed: Sequence[str]) -> int | None:
    """In how many families the pods serve, as labels show; None where they cannot be read. What a scan reads of a store
    is read for it, and what a deep read needs as well as far as memory holds it."""
    catalogue, aliases = inquiry.catalogue, inquiry.catalogue.aliases
    from_ms, until_ms = inquiry.span
    since_ms = from_ms - history_ms(until_ms - from_ms)
    along, scanned = (names_of(each, catalogue, aliases) for each in (needed, scan_signals(catalogue)))
    if is_scanned_whole(source):
        source.read_along(along)
    else:
        scanned = set()  # who is who is looked up in all of the fleet, what is scanned in one part after the other
    source.expect(scanned, since_ms)
    try:
        with inquiry.reading():
            source.identify(since_ms, until_ms)
    except SourceError:  # whatever is read next says so, or requires less
        return None
    return source.findings.families


def impacts(recipes: Iterable[Recipe]) -> list[Condition]:
    """All that any recipe calls an impact, each once."""
    return list(dict.fromkeys([*FELT, *(condition for recipe in recipes for condition in recipe.harm)]))


def scan_signals(catalogue: Catalogue) -> list[str]:
    """What a scan reads of every pod."""
    felt = (signal for condition in impacts(catalogue.recipes.values()) for signal in condition.signals)
    agreed = (slo.signal for slo in catalogue.slos if slo.agreed)
    required = dict.fromkeys((*ROLES, *LATENCY, "gpu_util", "sm_clock", *felt, *agreed))
    return [name for name in required if name in catalogue.signals]


def affected_families(context: Context, recipes: Mapping[str, Recipe]) -> set[Family]:
    """The families in which some pod shows some impact in the window, or is not healthy by its probes."""
    required = impacts(recipes.values())
    units = context.view.units
    affected, in_words = set[Family](), list[Condition]()
    for condition in required:
        if condition.needs_split:
            continue
        beyond_noise = holding_until(condition, context)
        if beyond_noise is None:
            in_words.append(condition)
        else:
            having, lasts = beyond_noise
            affected |= {having[row].member.pool.family for row in np.flatnonzero(lasts >= context.view.begin).tolist()}
    baseline = [unit for unit in units if unit.member.pool.family not in affected]
    prepare(in_words, context, [UnitQuery(unit) for unit in baseline])
    affected |= {
        unit.member.pool.family
        for unit in baseline
        if any(
            one.holds and (one.last is None or one.last >= context.view.begin)
            for one in (evaluate(condition, context, unit) for condition in in_words)
        )
    }
    affected |= {match.unit.member.pool.family for match in breaches(context, recipes)}
    affected |= {unit.member.pool.family for unit in units if probe_trouble(context.view, unit) is not None}
    for condition in required:
        if condition.needs_split:
            baseline = [unit for unit in units if unit.member.pool.family not in affected]
            affected |= {unit.member.pool.family for unit in _with_split(condition, context, baseline)}
    return affected


def _with_split(condition: Condition, context: Context, units: Sequence[Unit]) -> Iterable[Unit]:
    """The units on which a condition holds for some beginning of an episode that reaches into the window."""
    if isinstance(condition, Move) and condition.scope == "own":
        having = [unit for unit in units if context.view.get(unit, condition.signal) is not None]
        if not having:
            return []
        rule = rule_of(condition, context)
        moved = may_have_moved(context.baselines(condition.signal, having, rule), rule, context.clock)
        return [unit for unit, one in zip(having, moved.tolist(), strict=True) if one]
    found: dict[Unit, None] = {}
    last = context.view.steps - 1
    for split in np.linspace(context.clock.baseline_steps, last, LOOKS, dtype=int)[:-1].tolist():
        context.make_room()
        inside = context.at(split, last)
        prepare([condition], inside, [UnitQuery(unit, split, last) for unit in units])
        found |= {unit: None for unit in units if evaluate(condition, inside, unit).holds}
    return found


def may_have_moved(values: np.ndarray, rule: Rule, clock: Clock) -> np.ndarray:
    """bool[R]: whether the mean after some time, over some span that reaches into the window, is as far from the
    mean before it as the rule requires, or nearly so. values: float64[R, T]."""
    blocks = values[:, :: -clock.window_steps][:, ::-1]
    there = np.isfinite(blocks)
    filled = np.where(there, blocks, 0.0)
    count, total, square = (_running(each) for each in (there.astype(float), filled, filled**2))
    number = blocks.shape[1]
    begin = max(0, number - 1 - (values.shape[1] - 1 - clock.begin) // clock.window_steps)
    splits = np.arange(1, number)
    found = np.zeros(len(values), dtype=bool)
    before = count[:, splits], total[:, splits], square[:, splits]
    length = 2
    while splits.size and length < 2 * number:
        ends = np.minimum(splits + length, number)
        after = tuple(each[:, ends] - each[:, splits] for each in (count, total, square))
        found |= (_moved(before, after, rule) & (ends > begin)).any(axis=1)
        length *= 2
    return found


def _running(values: np.ndarray) -> np.ndarray:
    """Sums of the first 0, 1, 2... of each row."""
    return np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)


def _moved(before: Sequence[np.ndarray], after: Sequence[np.ndarray], rule: Rule) -> np.ndarray:
    """Of each row at each split. before, after: count, sum and sum of squares."""
    with np.errstate(divide="ignore", invalid="ignore"):
        (baseline, baseline_error), (now, now_error) = (_mean_and_error(*each) for each in (before, after))
        ratio = 1.0 + SLACK * (rule.ratio - 1.0)
        far = now - baseline if rule.up else baseline - now
        beyond = (now >= ratio * baseline if rule.up else now <= ratio * baseline) & (far >= SLACK * rule.by)
        beyond_noise = far >= SLACK * STANDARD_ERRORS * np.sqrt(baseline_error + now_error)
    return np.asarray(beyond & beyond_noise & (before[0] >= LEAST_BLOCKS) & (after[0] >= 2))


def _mean_and_error(count: np.ndarray, total: np.ndarray, square: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean, and its squared standard error."""
    mean = total / count
    return mean, np.maximum(square - total * mean, 0.0) / (count - 1) / count


def looked(context: Context, scraped: Sequence[Scrapes]) -> Looked:
    """What was seen of the families of a view. scraped: the targets of the window."""
    families = by_family(context.view.units)
    members = tuple(context.view.fleet.members)
    keys = {member.key for member in members}
    about: dict[str, set[Key]] = {}
    for matrix in context.view.frame.signals.values():
        for entity in matrix.entities:
            if entity.member in keys and entity.get("instance"):
                about.setdefault(host_of(entity.get("instance")), set()).add(entity.member)
    return Looked(
        members,
        frozenset(frozenset(target.labels.items()) for target in scraped),
        {family: len(units) for family, units in families.items()},
        frozenset(family for family, units in families.items() if can_judge(context, units)),
        about,
        context.view.frame.grid.start_ms,
        context.view.frame.grid.end_ms,
    )
