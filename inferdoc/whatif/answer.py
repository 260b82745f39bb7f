"""Answer a what-if from options, and predict the next steps of a diagnosis."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from inferdoc.catalogue.slo import in_force
from inferdoc.cost.prices import HOW
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import Pool
from inferdoc.forecast.fromsource import pool_name
from inferdoc.judging.model import Diagnosis, Finding, NextStep, PredictedMove, Scope, StepPrediction
from inferdoc.slo.attainment import FIRST_TOKEN, PER_TOKEN
from inferdoc.times import length_of, moment_of
from inferdoc.version import __version__
from inferdoc.whatif.calibrate import calibrated
from inferdoc.whatif.calibrate_pair import CalibratedPair, calibrated_pair
from inferdoc.whatif.changes import changed_pair, changed_pool
from inferdoc.whatif.live import APART, STEP, ObservedPair, ObservedPool, observed_for_request
from inferdoc.whatif.predict import (
    QUANTITIES,
    SEEDS,
    WHATIF_SCHEMA_ID,
    Banded,
    Calibrated,
    Changed,
    HoldoutRow,
    MovedQuantity,
    Prediction,
    WhatIfAnswer,
    WhatIfRow,
    busiest,
    plays_now,
    predicted,
)
from inferdoc.whatif.run_simulation import PlayedPool
from inferdoc.whatif.setting import refuse_sides, settings_for_request
from inferdoc.words import figure, how_many

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


LARGE_ERROR = 0.15
"""Error on the holdout half from which on a note is printed."""
DEFAULT_TTFT, DEFAULT_TPOT = 2.5, 0.2
"""Seconds, where no objective is in force: those of alerts/slo.yaml."""


def whatif_for_request(
    source: Identified, config: Config, catalogue: Catalogue, options: Mapping[str, Any]
) -> WhatIfAnswer:
    """The answer that the values of the command's options request. Raises InferdocError."""
    settings = settings_for_request(options["settings"], "--set")
    if not settings:
        raise InferdocError("--set: what is to change? for example --set replicas=4")
    given = settings_for_request(options["as_now"], "--now", of_now=True) | {"model": options.get("model")}
    live = observed_for_request(source, config, catalogue, options)
    pool = calibrated_as_observed(live, catalogue, given, limits_for_request(live, catalogue, options))
    change = changed_for_request(pool, settings, catalogue)
    given_as = dict(part.split("=", 1) for part in options["settings"])
    return as_document(live, pool, change, predicted(pool, change, plays_now(pool)), given_as, config)


def as_document(
    live: ObservedPool | ObservedPair,
    pool: Calibrated,
    change: Changed,
    prediction: Prediction,
    given_as: Mapping[str, str],
    config: Config,
) -> WhatIfAnswer:
    """The document of a prediction. given_as: what changes, as the user wrote it."""
    sides = sides_of(live)
    rows = [_row(each, pool) for each in prediction.rows] + _paid(pool, change, config)
    return WhatIfAnswer(
        WHATIF_SCHEMA_ID,
        __version__,
        live.name,
        sides[0].pool.model,
        " + ".join(dict.fromkeys(side.pool.tier for side in sides)),
        sum(side.pods for side in sides),
        round(sides[0].seconds / 60, 1),
        {key.strip(): value.strip() for key, value in given_as.items()},
        _summary(prediction),
        rows,
        _holdout_rows(pool),
        _machine(pool),
        list(prediction.guesses),
        [*pool.setting.assumptions, "a mean prompt meets a mean answer: lengths are drawn apart"],
        _notes(pool, config),
    )


def sides_of(live: ObservedPool | ObservedPair) -> tuple[ObservedPool, ...]:
    """The pools of which it consists, the one that prompts come to first."""
    return live.sides if isinstance(live, ObservedPair) else (live,)


def calibrated_as_observed(
    live: ObservedPool | ObservedPair, catalogue: Catalogue, given: Mapping[str, Any], limits: tuple[float, float]
) -> Calibrated:
    """A pool, or a pair, as plays show it. Raises InferdocError."""
    if isinstance(live, ObservedPair):
        return calibrated_pair(live, catalogue, given, limits)
    refuse_sides(given, "--now", live.name)
    return calibrated(live, catalogue, given, limits)


def changed_for_request(pool: Calibrated, settings: Mapping[str, Any], catalogue: Catalogue) -> Changed:
    """It after a change. Raises InferdocError for what cannot be."""
    if isinstance(pool, CalibratedPair):
        return changed_pair(pool, settings, catalogue)
    refuse_sides(settings, "--set", pool.observed.name)
    return changed_pool(pool, settings, catalogue)


def limits_for_request(
    live: ObservedPool | ObservedPair, catalogue: Catalogue, options: Mapping[str, Any]
) -> tuple[float, float]:
    """Seconds to the first token and per token that count as good: as given, else the objectives in force, of the first
    token those of prefill pods and per token those of decode pods."""
    sides = sides_of(live)
    found = []
    for flag, family, default, side in (
        ("ttft", FIRST_TOKEN, DEFAULT_TTFT, sides[0]),
        ("tpot", PER_TOKEN, DEFAULT_TPOT, sides[-1]),
    ):
        given, slos = options.get(flag), in_force(catalogue.slos, side.pool)
        targets = [slo.target for name, slo in slos.items() if name.startswith(f"{family}_p")]
        found.append(length_of(given, f"--{flag}") if given else min(targets, default=default))
        if not 0 < found[-1] <= 3600:
            raise InferdocError(f"--{flag} {given}: expected more than 0 and at most 1h")
    return found[0], found[1]


def _machine(pool: Calibrated) -> dict[str, float]:
    """The fitted parts of a step, of a pair by side."""
    return {
        name if side.role == "both" else f"{side.role}.{name}": float(value)
        for side in pool.setting.sides
        for name, value in msgspec.to_builtins(side.parts).items()
    }


def _row(each: MovedQuantity, pool: Calibrated) -> WhatIfRow:
    quantity = each.quantity
    inputs = {
        "plays": f"{len(SEEDS)} of {how_many(len(busiest(pool.setting)), 'minute')}",
        "limits": f"TTFT {figure(pool.limits[0], 's')}, per token {figure(pool.limits[1], 's')}",
    }
    if quantity.name != "goodput":
        del inputs["limits"]
    return WhatIfRow(
        quantity.name,
        quantity.title,
        quantity.unit,
        each.now,
        each.then,
        each.ratio - 1.0 if math.isfinite(each.ratio) else None,
        each.move,
        quantity.formula,
        inputs,
        "simulation, calibrated on the pool's own metrics",
    )


def _paid(pool: Calibrated, change: Changed, config: Config) -> list[WhatIfRow]:
    """Replicas of a pair, GPUs, and money where all tiers have a price."""
    both = pool.setting.sides, change.setting.sides
    rows = [
        _exact(
            f"{now.role}_replicas",
            f"{now.role} pods",
            "replicas",
            [float(now.replicas), float(then.replicas)],
            "as set",
            "settings",
        )
        for now, then in zip(*both, strict=True)
        if now.role != "both"
    ]
    gpus = [float(sum(side.replicas * side.gpus for side in sides)) for sides in both]
    rows.append(_exact("gpus", "GPUs", "GPUs", gpus, "replicas x GPUs of a pod", "settings"))
    prices = [[config.prices.per_gpu_hour(side.tier) for side in sides] for sides in both]
    if not any(None in each for each in prices):
        money = [
            sum(side.replicas * side.gpus * (price or 0.0) for side, price in zip(sides, each, strict=True))
            for sides, each in zip(both, prices, strict=True)
        ]
        unit = f"{config.prices.currency}/h"
        rows.append(_exact("money", "money", unit, money, "GPUs x price of a GPU-hour x overhead", "[prices]"))
    return rows


def _exact(name: str, title: str, unit: str, values: list[float], formula: str, source: str) -> WhatIfRow:
    now, then = values
    change = then / now - 1.0 if now else None
    return WhatIfRow(
        name, title, unit, Banded(now, now, now), Banded(then, then, then), change, "", formula, {}, source
    )


def _holdout_rows(pool: Calibrated) -> list[HoldoutRow]:
    titles = {each.name: each.title for each in QUANTITIES}
    return [
        HoldoutRow(
            each.name,
            each.title or titles[each.name],
            each.unit,
            each.predicted,
            each.measured,
            math.expm1(each.off) if math.isfinite(each.off) else None,
        )
        for each in pool.holdout
    ]


def _summary(prediction: Prediction) -> str:
    goodput, first = prediction.row("goodput"), prediction.row("ttft_p99")
    words = [
        f"{title} {each.move}: {' to '.join(figure(band.value, each.quantity.unit) for band in (each.now, each.then))}"
        for title, each in (("goodput", goodput), ("TTFT p99", first))
    ]
    return "; ".join(words) + ("" if not prediction.guesses else "; the bands are guesses")


def _notes(pool: Calibrated, config: Config) -> list[str]:
    notes = []
    for each in pool.holdout:
        if math.isfinite(each.off) and abs(math.expm1(each.off)) > LARGE_ERROR:
            title = each.title or next(known.title for known in QUANTITIES if known.name == each.name)
            notes.append(f"{title}: the first half of the history predicts the second {math.expm1(each.off):+.0%} off")
    played_minutes = len(busiest(pool.setting)) * STEP / 60
    if played_minutes < len(pool.setting.traffic.rates) * STEP / 60:
        notes.append(f"the busiest {played_minutes:.0f} minutes are played")
    for tier in dict.fromkeys(side.tier for side in pool.setting.sides):
        if config.prices.per_gpu_hour(tier) is None:
            notes.append(f"no price: for money set {HOW.format(tier)}")
    return notes
