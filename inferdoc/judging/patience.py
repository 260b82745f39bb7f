"""What no user puts up with, on any hardware: the last rung, where there is neither a past nor an objective.

With a past only the plainest of it counts: a service may always have been slow, and its users know. At first look the
limits at which the public benchmark of serving (MLPerf Inference, server scenario, Llama 2 70B) calls a service too
slow count as well: two seconds to the first token, a fifth of a second between tokens, slower than people read.
"""

from __future__ import annotations

from inferdoc.catalogue.conditions import Level
from inferdoc.judging.conditions import evaluate
from inferdoc.judging.context import Context, Outcome
from inferdoc.judging.view import Unit

QUEUE_SHARE = 0.5
"""A queue that holds more than this of the time to the first token is what users wait for (judging: physics)."""
NO_USER_WAITS_SECONDS = 10.0
"""Nielsen, "Response times: the three important limits": ten seconds keep a user's attention, no longer."""
BENCHMARK_TTFT_SECONDS = 2.0
BENCHMARK_TPOT_SECONDS = 0.2
"""MLPerf Inference v4.0, server scenario of Llama 2 70B: the 99th percentiles allowed. Here means are held against
them, which is more lenient."""
NO_READER_WAITS_SECONDS = 1.0
"""A token a second is a fifth of the speed at which people read (own choice: as five times the benchmark's limit)."""
MOSTLY = 0.7
HALF = 0.5
"""Of a look of a minute: queues that come and go leave others of its moments calm."""


def _longer(signal: str, seconds: float, share: float = MOSTLY) -> Level:
    return Level(signal=signal, limit=seconds, up=True, share_of=share)


def _held_up(place: str, seconds: float, share: float = MOSTLY) -> tuple[Level, ...]:
    """The wait for the first token is long, and most of it is spent in a place where nothing is computed: no long
    prompt explains it."""
    return _longer("ttft_mean", seconds, share), _longer(place, QUEUE_SHARE * seconds, share)


ALWAYS = (
    _held_up("queue_time_mean", NO_USER_WAITS_SECONDS),
    (_longer("itl_mean", NO_READER_WAITS_SECONDS),),
)
FIRST_LOOK = (
    _held_up("queue_time_mean", BENCHMARK_TTFT_SECONDS, HALF),
    _held_up("frontend_seconds", BENCHMARK_TTFT_SECONDS, HALF),
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
