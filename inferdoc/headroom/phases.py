"""What a request costs in GPU-seconds of prefill and of decode, as the pods of a pool show it.

Prefill takes the seconds of a computed token where nothing else holds a prompt up, in the quietest readings. Decode
takes what is left of the time of an engine that always has streams; its cost per token falls with the batch, so the
time of a step is fitted over the streams (reference: capacity, sections B1 and C5) and taken at the largest batch that
a pool of decode alone would run: as many streams as the objective for the time per token allows, and no more than half
as many again as were ever seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from inferdoc.forecast.fromsource import Gathered, Key

COMPUTED, GENERATED, REQUESTS = "prefill_tokens_rate", "generation_tokens_rate", "request_rate"
RUNNING, PACE, PROMPT = "running_mean", "prefill_seconds_per_token", "prompt_len_mean"
PHASE_SIGNALS = (RUNNING, PACE, PROMPT)
"""What has to be read besides the history of capacity."""
QUIET = 1 / 3
"""Prefill is timed in the readings with the least computed tokens: there it waits for nothing."""
LEAST = 30
"""Readings with traffic that a figure needs."""
SPREAD = 2.0
"""The largest batch over the smallest from which on a slope is fitted."""
BEYOND = 1.5
"""Of the largest batch seen, up to which a step is taken from the fit (reference: capacity, section J)."""
MOST_PREFILL = 0.95
"""Share of a busy engine that prompts take at most: streams are written beside them."""


@dataclass(frozen=True)
class DecodeStep:
    """Seconds of a decode step without prompts: fixed + each x streams. seen: the largest batch of a reading."""

    fixed: float
    each: float
    seen: float

    def seconds(self, batch: float) -> float:
        """Of a step with so many streams."""
        return self.fixed + self.each * batch

    def batch_within(self, limit: float | None) -> float:
        """Streams whose step keeps within a time, and at most half as many again as were seen; without a limit as many
        as were seen."""
        if limit is None:
            return self.seen
        most = BEYOND * self.seen
        allowed = (limit - self.fixed) / self.each if self.each > 0 else most
        return float(np.clip(allowed, 1.0, most))


@dataclass(frozen=True)
class PhasesSeen:
    """One pool. computed, output, prompt: tokens of a mean request, prompt None where not counted; pace: seconds per
    computed token, None of decode pods; step: None of prefill pods; at_once: requests running in the pool at its
    busiest twentieth."""

    computed: float
    output: float
    prompt: float | None
    pace: float | None
    step: DecodeStep | None
    at_once: float


def phases_seen(made: Gathered, keys: Sequence[Key], role: str) -> PhasesSeen | str:
    """What readings of the pods of a pool show of its phases, or what is missing."""
    blank = np.full(made.count, np.nan)
    rows = {
        name: np.stack([made.rows.get(name, {}).get(key, blank) for key in keys])
        for name in (COMPUTED, GENERATED, REQUESTS, *PHASE_SIGNALS)
    }
    busy = np.isfinite(rows[REQUESTS]) & (rows[REQUESTS] > 0)
    if busy.sum() < LEAST:
        return f"{int(busy.sum())} readings with requests, {LEAST} are needed"
    requests = float(rows[REQUESTS][busy].sum())
    pace = None if role == "decode" else _pace(rows)
    if pace is None and role != "decode":
        return "prefill was not timed: see doctor for vllm:request_prefill_time_seconds"
    step = None if role == "prefill" else _step(rows, pace or 0.0)
    if step is None and role != "prefill":
        return f"fewer than {LEAST} readings with requests running and tokens generated"
    lengths = rows[PROMPT]
    weighed = busy & np.isfinite(lengths)
    return PhasesSeen(
        float(np.nansum(rows[COMPUTED][busy])) / requests,
        float(np.nansum(rows[GENERATED][busy])) / requests,
        float(np.average(lengths[weighed], weights=rows[REQUESTS][weighed])) if weighed.any() else None,
        pace,
        step,
        float(np.nanquantile(np.nansum(rows[RUNNING], axis=0), 0.95)),
    )


def _pace(rows: Mapping[str, np.ndarray]) -> float | None:
    known = np.isfinite(rows[PACE]) & (rows[PACE] > 0) & (rows[COMPUTED] > 0)
    if not known.any():
        return None
    quiet = known & (rows[COMPUTED] <= np.quantile(rows[COMPUTED][known], QUIET))
    return float(np.median(rows[PACE][quiet]))


def _step(rows: Mapping[str, np.ndarray], pace: float) -> DecodeStep | None:
    """From streams x seconds / tokens of each reading, less the time that prompts took. Where no stream runs for a part
    of a reading, its streams are as many fewer, so the quotient is not changed by that."""
    known = np.isfinite(rows[RUNNING]) & (rows[RUNNING] > 0) & (rows[GENERATED] > 0)
    if known.sum() < LEAST:
        return None
    streams, tokens = rows[RUNNING][known], rows[GENERATED][known]
    prompts = np.minimum(np.nan_to_num(rows[COMPUTED][known]) * pace, MOST_PREFILL)
    seconds = streams / tokens * (1.0 - prompts)
    seen = float(np.quantile(streams, 0.95))
    if seen < SPREAD * float(np.quantile(streams, 0.05)):
        return DecodeStep(float(np.median(seconds)), 0.0, seen)
    each, fixed = np.polyfit(streams, seconds, 1)
    if each <= 0 or fixed <= 0:
        return DecodeStep(float(np.median(seconds)), 0.0, seen)
    return DecodeStep(float(fixed), float(each), seen)
