"""From what a user asked for to a verification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from inferdoc.errors import ExitCode, InferdocError
from inferdoc.times import rfc3339
from inferdoc.verify.asked import verify_as_asked
from inferdoc.verify.measure import LEAST, SETTLING, kept, moves_of_evidence, moves_of_users, outcome_of, sides
from inferdoc.verify.model import VERIFICATION_SCHEMA_ID, Verification
from inferdoc.version import __version__
from inferdoc.whatif.answer import limits_as_asked
from inferdoc.whatif.live import STEP, observed

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.config import Config
    from inferdoc.source.identified import Identified

MOST_HISTORY = "24h"


def verified(source: Identified, config: Config, catalogue: Catalogue, asked: Mapping[str, Any]) -> Verification:
    """What the step has brought. Raises InferdocError."""
    wanted = verify_as_asked(asked, catalogue)
    pool = observed(source, config, catalogue, {**asked, "history": MOST_HISTORY})
    both = sides(pool, wanted.onset, wanted.step_at)
    if both is None:
        raise InferdocError(
            f"{pool.name}: {LEAST} minutes with traffic are needed between onset and step, and after the step from "
            f"{SETTLING // 60} minutes on; give --at as it was, or wait"
        )
    limits = limits_as_asked(pool, catalogue, asked)
    titles = {
        name: (catalogue.signals[name].title, catalogue.signals[name].unit, str(catalogue.signals[name].harm))
        for name in wanted.evidence
    }
    moves = [*moves_of_users(both, limits), *moves_of_evidence(source, both, wanted.evidence, titles)]
    outcome, why = outcome_of(moves, both)
    prediction = wanted.prediction
    return Verification(
        VERIFICATION_SCHEMA_ID,
        __version__,
        wanted.finding,
        pool.name,
        rfc3339(wanted.onset, "seconds"),
        rfc3339(wanted.step_at, "seconds"),
        rfc3339(both.after.begin + both.after.stretches * STEP, "seconds"),
        outcome,
        why,
        moves,
        {} if prediction is None else prediction.changes,
        [] if prediction is None else kept(both, prediction, limits),
    )


def exit_code(answer: Verification) -> int:
    """0: no worse; 1: worse; 3: that cannot be told."""
    return {"worse": ExitCode.FINDINGS, "cannot tell": ExitCode.UNKNOWN}.get(answer.outcome, ExitCode.OK)
