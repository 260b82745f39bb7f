"""Whether the batch has room for the tokens that are drafted."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from inferdoc.audit.quantities import Amount, Quantity, compute_bound_batch
from inferdoc.audit.window_data import Watched
from inferdoc.judging.view import Unit


def drafts_over_room(watched: Watched, unit: Unit) -> Amount:
    """Tokens of a verification step over those from which on arithmetic binds: above 1 drafts displace streams."""
    running, draft = watched.values(unit, "running"), watched.values(unit, "spec_draft_length")
    if running is None or draft is None:
        return None
    return np.asarray(running * (draft + 1) / compute_bound_batch(watched, unit))


QUANTITIES: Mapping[str, Quantity] = {
    "drafts_over_room": Quantity(
        "Tokens of a verification step, over those from which on arithmetic binds,",
        "times",
        ("running", "spec_draft_length"),
        drafts_over_room,
    ),
}
