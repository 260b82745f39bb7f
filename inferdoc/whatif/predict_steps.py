"""What the next steps of a diagnosis would bring, where a step names replicas or a setting: each is played as
`inferdoc whatif` plays it, on the hour before the end of the window."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Pool
from inferdoc.forecast.fromsource import pool_name
from inferdoc.judging.model import Diagnosis, Finding, NextStep, PredictedMove, Scope, StepPrediction
from inferdoc.times import moment_of
from inferdoc.whatif.answer import calibrated_as_observed, changed_for_request, limits_for_request
from inferdoc.whatif.pairs import APART, observed_for_request
from inferdoc.whatif.predict import Calibrated, plays_now, predicted
from inferdoc.whatif.run_simulation import PlayedPool
from inferdoc.whatif.settings import settings_for_request

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.config import Config
    from inferdoc.source.identified import Identified

HISTORY = "1h"
NAMED = {
    "replicas": re.compile(r"\bscale\b.*--replicas=(\d+)"),
    "max-num-seqs": re.compile(r"--max-num-seqs[ =](\d+)"),
    "batch-tokens": re.compile(r"--max-num-batched-tokens[ =](\d+)"),
}
"""What a step or its command names."""


@dataclass(frozen=True)
class PoolPlayed:
    """A pool of the diagnosis, of one side with the other, and its plays as it is. role: of the pool."""

    pool: Calibrated
    role: str
    before: list[PlayedPool]


def predict_steps(answer: Diagnosis, source: Identified, config: Config, catalogue: Catalogue) -> None:
    """Fills in `predicted` of the steps that name what can be played; why a pool cannot be played becomes a warning of
    the document."""
    known: dict[str, PoolPlayed | None] = {}
    for finding in answer.findings:
        steps = [(step, named) for step in finding.next_steps if (named := named_settings(step))]
        if not steps:
            continue
        name = _name(finding.scope)
        if name not in known:
            known[name] = _played(answer, finding, source, config, catalogue)
        played_pool = known[name]
        for step, named in steps if played_pool is not None else ():
            assert played_pool is not None
            step.predicted = _prediction(played_pool, named, catalogue, answer)


def named_settings(step: NextStep) -> dict[str, str]:
    """Settings by key that a step names with a number; empty where it names none."""
    text = f"{step.do} {step.command or ''}"
    return {key: match[1] for key, pattern in NAMED.items() if (match := pattern.search(text))}


def _name(scope: Scope) -> str:
    return pool_name(Pool(scope.cluster, scope.namespace, scope.model, scope.role, scope.tier))


def _played(
    answer: Diagnosis, finding: Finding, source: Identified, config: Config, catalogue: Catalogue
) -> PoolPlayed | None:
    name = _name(finding.scope)
    try:
        until = moment_of(answer.window.until, "until")
        live = observed_for_request(source, config, catalogue, {"history": HISTORY, "pool": name}, until=until)
        pool = calibrated_as_observed(live, catalogue, {}, limits_for_request(live, catalogue, {}))
    except InferdocError as error:
        answer.source.warnings.append(f"--predict: {error}")
        return None
    return PoolPlayed(pool, finding.scope.role, plays_now(pool))


def _prediction(
    played_pool: PoolPlayed, named: dict[str, str], catalogue: Catalogue, answer: Diagnosis
) -> StepPrediction | None:
    try:
        side = f"{played_pool.role}." if played_pool.role in APART else ""
        settings = settings_for_request([f"{side}{key}={value}" for key, value in named.items()], "--predict")
        change = changed_for_request(played_pool.pool, settings, catalogue)
        prediction = predicted(played_pool.pool, change, played_pool.before)
    except InferdocError as error:
        answer.source.warnings.append(f"--predict: {error}")
        return None
    moves = [
        PredictedMove(
            row.quantity.name,
            row.quantity.title,
            row.quantity.unit,
            row.now.value,
            row.then.value,
            row.then.low,
            row.then.high,
        )
        for row in prediction.rows
    ]
    return StepPrediction(named, moves, list(prediction.guesses))
