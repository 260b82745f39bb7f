"""Numbers of the back-test: how well the first half of a pool's history predicts the second."""

from __future__ import annotations

from inferdoc.sizing.calibrate import BackTest
from inferdoc.sizing.model import SizedPart
from inferdoc.sizing.number import Inputs, number

BACK_TEST = "back-test on the pool's own history"


def back_test_part(test: BackTest) -> SizedPart:
    """Errors and coverage."""
    inputs: Inputs = {"readings": (test.readings, "")}
    off = "median of |predicted / measured - 1| over the second half, from the rate alone; shares of the first half"
    within = "readings of the second half inside the predicted range"
    rows = [
        (("itl_error", "time between tokens, off by", "ratio"), test.itl, off),
        (("ttft_error", "time to first token, off by", "ratio"), test.ttft, off),
        (("itl_within", "between tokens, inside the range", "ratio"), test.itl_within, within),
        (("ttft_within", "first token, inside the range", "ratio"), test.ttft_within, within),
    ]
    if test.kv_tokens is not None:
        what = "KV tokens predicted, over those that the engine says, - 1; from then on the engine's own count"
        rows.append((("kv_tokens_error", "KV tokens, off by", "ratio"), test.kv_tokens, what))
    source = "the pool's own metrics"
    return SizedPart(
        BACK_TEST, [number(what, value, formula=how, inputs=inputs, source=source) for what, value, how in rows]
    )
