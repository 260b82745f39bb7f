"""What counts as impact without a past: limits, and means that must move.

A comparison needs a past; an objective does not. Where one is broken and no cause covers the place, users are affected
and the diagnosis says so, with the limit as its evidence. Without objectives a few absolute limits remain, which hold
on any hardware. With a past only the plainest of them counts: a service may always have been slow, and its users know.
At first look the limits at which the public benchmark of serving (MLPerf Inference, server scenario, Llama 2 70B) calls
a service too slow count as well: two seconds to the first token, a fifth of a second between tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inferdoc.catalogue.conditions import Level, Move
from inferdoc.catalogue.recipe import Recipe
from inferdoc.judging.conditions import evaluate, prepare
from inferdoc.judging.context import Context, Outcome, UnitQuery
from inferdoc.judging.verdict import Evidence, Match
from inferdoc.judging.view import Unit

TAILS = ("itl_p99", "ttft_p99", "e2e_p99")
PARTS = ("prefill_time_mean", "queue_time_mean")
SEEN_PAUSE_SECONDS = 0.25
"""A stream that pauses for so long at every hundredth token stutters for the eye (own choice)."""
FELT = (
    Move(signal="ttft_mean", ratio=1.5, up=True, average=True),
    Move(signal="itl_mean", ratio=1.3, up=True, average=True),
    Move(signal="tpot_request_mean", ratio=1.3, up=True, average=True),
    Move(signal="e2e_mean", ratio=1.3, up=True, average=True),
)
"""What users wait for, and by how much its mean must grow to be felt: as much as the recipes query of it."""


def immaterial(harms: Sequence[Outcome], inside: Context, unit: Unit) -> bool:
    """Whether an impact shows in tails or parts alone, and the means were looked at and do not move. inside: the
    episode."""
    limits = inside.limits(unit)
    if any(o.signal not in (*TAILS, *PARTS) or o.signal in limits for o in harms):
        return False
    if any(o.signal == "itl_p99" and (o.observed or 0.0) >= SEEN_PAUSE_SECONDS for o in harms):
        return False
    felt = [evaluate(condition, inside, unit).holds for condition in FELT]
    return True not in felt and False in felt


QUEUE_SHARE = 0.5
"""A queue that holds more than this of the time to the first token is what users wait for (judging: physics)."""
NO_USER_WAITS_SECONDS = 10.0
"""Nielsen, "Response times: the three important limits": ten seconds keep a user's attention, no longer."""
BENCHMARK_TTFT_SECONDS = 2.0
BENCHMARK_TPOT_SECONDS = 0.2
"""MLPerf Inference v4.0, server scenario of Llama 2 70B: the 99th percentiles allowed. Here means are compared with
them, which is more lenient."""
NO_READER_WAITS_SECONDS = 1.0
"""A token a second is a fifth of the speed at which people read (own choice: as five times the benchmark's limit)."""
MOSTLY = 0.7
HALF = 0.5
"""Of a look of a minute: queues that come and go leave others of its moments quiet."""


def _longer(signal: str, seconds: float, share: float = MOSTLY) -> Level:
    return Level(signal=signal, limit=seconds, up=True, share_of=share)


def _delayed(place: str, seconds: float, share: float = MOSTLY) -> tuple[Level, ...]:
    """The wait for the first token is long, and most of it is spent in a place where nothing is computed: no long
    prompt explains it."""
    return _longer("ttft_mean", seconds, share), _longer(place, QUEUE_SHARE * seconds, share)


ALWAYS = (_delayed("queue_time_mean", NO_USER_WAITS_SECONDS), (_longer("itl_mean", NO_READER_WAITS_SECONDS),))
FIRST_LOOK = (
    _delayed("queue_time_mean", BENCHMARK_TTFT_SECONDS, HALF),
    _delayed("frontend_seconds", BENCHMARK_TTFT_SECONDS, HALF),
    (_longer("itl_mean", BENCHMARK_TPOT_SECONDS),),
)


def levels_of(window: Context) -> list[Level]:
    """The limits that count in a window."""
    return [level for group in _groups(window) for level in group]


def _groups(window: Context) -> tuple[tuple[Level, ...], ...]:
    return (*ALWAYS, *FIRST_LOOK) if window.view.lead_kind == "lifetime" else ALWAYS


def lost(window: Context, unit: Unit) -> list[Outcome]:
    """The limits that are broken on a unit in a window; of what an objective speaks of, none."""
    spoken = {name.split("_")[0] for name in window.limits(unit)}
    found: dict[str, Outcome] = {}
    for group in _groups(window):
        outcomes = [evaluate(level, window, unit) for level in group if level.signal.split("_")[0] not in spoken]
        if len(outcomes) == len(group) and all(one.holds for one in outcomes):
            found |= {one.signal: one for one in outcomes if one.signal not in found}
    return list(found.values())


SLO_SHARE = 0.3
"""An SLO is broken when this share of the windows of the episode is beyond it."""
UNEXPLAINED = "unexplained-anomaly"


def breaches(context: Context, recipes: Mapping[str, Recipe]) -> list[Match]:
    """A match of the recipe for unexplained harm on every unit whose objective, or absolute limit, is broken in the
    window; empty without that recipe."""
    recipe = recipes.get(UNEXPLAINED)
    if recipe is None:
        return []
    window = context.at(context.view.begin, context.view.steps - 1)
    queries = [UnitQuery(unit, window.split, window.last) for unit in context.view.units]
    prepare(levels_of(window), window, queries)
    broken = ((unit, _broken(window, unit)) for unit in context.view.units)
    return [_match(recipe, unit, outcomes, context) for unit, outcomes in broken if outcomes]


def _broken(window: Context, unit: Unit) -> list[Outcome]:
    limits = window.limits(unit)
    required = [objective(name, limit) for name, limit in limits.items()]
    outcomes = [evaluate(condition, window, unit) for condition in required if condition.signal in window.signals]
    broken = [
        one.but(text=f"{one.text}: the objective is {one.threshold:g}", missing=()) for one in outcomes if one.holds
    ]
    return [*broken, *lost(window, unit)]


def _match(recipe: Recipe, unit: Unit, outcomes: list[Outcome], context: Context) -> Match:
    """from_start: what an absolute limit shows from the first step of the window on started nobody knows when."""
    first = min(o.first for o in outcomes if o.first is not None)
    last = max(o.last for o in outcomes if o.last is not None)
    from_start = first <= context.view.begin + context.clock.window_steps
    evidence = [Evidence("harm", outcome) for outcome in outcomes]
    return Match(recipe, unit, first, last, from_start, evidence, "possible", stands=first)


def objective(signal: str, limit: float) -> Level:
    """What a broken SLO is."""
    return Level(signal=signal, limit=limit, up=True, share_of=SLO_SHARE)
