"""Numbers of speculation: what drafts yield at the batch of a replica, and the draft length that yields most."""

from __future__ import annotations

from inferdoc.capacity.speculation import best_draft_length, speculative_speedup
from inferdoc.sizing.choice import Considered
from inferdoc.sizing.model import SizedPart
from inferdoc.sizing.number import at_ends, number
from inferdoc.sizing.replica import Replica
from inferdoc.sizing.wanted import SizingWanted

DRAFTS = "speculation"


def drafting_part(wanted: SizingWanted, taken: Considered) -> SizedPart:
    """At the streams that the objectives allow without drafts."""
    drafting, streams = wanted.drafting, max(1, round(taken.streams))
    assert drafting is not None
    length = len(drafting.accepted)

    def best(replica: Replica) -> int:
        return best_draft_length(drafting.accepted, drafting.cost, lambda k: _longer(replica, streams, k))

    def speed(replica: Replica, drafts: int) -> float:
        return speculative_speedup(drafting.accepted, drafts, drafting.cost, lambda k: _longer(replica, streams, k))

    inputs = {"streams": (streams, ""), "cost of a draft": (drafting.cost, "steps")}
    source = "Leviathan, Kalman, Matias; r(k) = a step over k + 1 times the tokens against a plain one"
    formula = "(1 + A1 + ... + Ak) / (r(k) + k x c)"
    return SizedPart(
        DRAFTS,
        [
            number(
                ("speedup", f"speed with drafts of {length}", "times"),
                at_ends(taken, lambda replica: speed(replica, length)),
                formula=formula,
                inputs=inputs,
                source=source,
                assumed=True,
            ),
            number(
                ("best_draft", "draft length that yields most", "tokens"),
                at_ends(taken, lambda replica: float(best(replica))),
                formula=f"the k, of 0 to {length}, with the highest of these",
                inputs=inputs,
                source=source,
                assumed=True,
            ),
            number(
                ("best_speedup", "speed with that", "times"),
                at_ends(taken, lambda replica: speed(replica, best(replica))),
                formula=formula,
                inputs=inputs,
                source=source,
                assumed=True,
            ),
        ],
    )


def _longer(replica: Replica, streams: int, drafts: int) -> float:
    return replica.step(streams, drafts + 1) / replica.step(streams)
