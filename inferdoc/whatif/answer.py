"""From what a user asked for to the document of a what-if."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from inferdoc.catalogue.slo import in_force
from inferdoc.cost.prices import HOW, per_gpu_hour
from inferdoc.errors import InferdocError
from inferdoc.judging.words import figure, how_many
from inferdoc.slo.goodput import FIRST_TOKEN, PER_TOKEN
from inferdoc.times import length_of
from inferdoc.version import __version__
from inferdoc.whatif.calibrate import CalibratedPool, calibrated
from inferdoc.whatif.changes import ChangedPool, changed_pool
from inferdoc.whatif.live import STEP, ObservedPool, observed
from inferdoc.whatif.model import WHATIF_SCHEMA_ID, Banded, HeldRow, WhatIfAnswer, WhatIfRow
from inferdoc.whatif.predict import QUANTITIES, SEEDS, MovedQuantity, Prediction, busiest, plays_now, predicted
from inferdoc.whatif.settings_asked import settings_asked

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.config import Config
    from inferdoc.source.identified import Identified

LARGE_ERROR = 0.15
"""Of the held half, that is said aloud."""
DEFAULT_TTFT, DEFAULT_TPOT = 2.5, 0.2
"""Seconds, where no objective is in force: those of alerts/slo.yaml."""


def whatif_as_asked(source: Identified, config: Config, catalogue: Catalogue, asked: Mapping[str, Any]) -> WhatIfAnswer:
    """The answer that the values of the command's options ask for. Raises InferdocError."""
    wanted = settings_asked(asked["settings"], "--set")
    if not wanted:
        raise InferdocError("--set: what is to change? for example --set replicas=4")
    given = settings_asked(asked["as_now"], "--now", of_now=True) | {"model": asked.get("model")}
    live = observed(source, config, catalogue, asked)
    pool = calibrated(live, catalogue, given, limits_as_asked(live, catalogue, asked))
    change = changed_pool(pool, wanted, catalogue)
    prediction = predicted(pool, change, plays_now(pool))
    given_as = dict(part.split("=", 1) for part in asked["settings"])
    rows = [_row(each, pool) for each in prediction.rows] + _paid(pool, change, config)
    return WhatIfAnswer(
        WHATIF_SCHEMA_ID,
        __version__,
        live.name,
        live.pool.model,
        live.pool.tier,
        live.pods,
        round(live.seconds / 60, 1),
        {key.strip(): value.strip() for key, value in given_as.items()},
        _summary(prediction, pool),
        rows,
        _held(pool),
        {name: float(value) for name, value in msgspec.to_builtins(pool.setting.parts).items()},
        list(prediction.guesses),
        [*pool.setting.assumed.values(), "a mean prompt meets a mean answer: lengths are drawn apart"],
        _notes(pool, config),
    )


def limits_as_asked(pool: ObservedPool, catalogue: Catalogue, asked: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds to the first token and per token that count as good: as given, else the objectives in force."""
    held = in_force(catalogue.slos, pool.pool)
    found = []
    for flag, family, default in (("ttft", FIRST_TOKEN, DEFAULT_TTFT), ("tpot", PER_TOKEN, DEFAULT_TPOT)):
        given = asked.get(flag)
        targets = [slo.target for name, slo in held.items() if name.startswith(f"{family}_p")]
        found.append(length_of(given, f"--{flag}") if given else min(targets, default=default))
        if not 0 < found[-1] <= 3600:
            raise InferdocError(f"--{flag} {given}: expected more than 0 and at most 1h")
    return found[0], found[1]


def _row(each: MovedQuantity, pool: CalibratedPool) -> WhatIfRow:
    quantity, setting = each.quantity, busiest(pool.setting)
    inputs = {
        "plays": f"{len(SEEDS)} of {how_many(len(setting.traffic.rates), 'minute')}",
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


def _paid(pool: CalibratedPool, change: ChangedPool, config: Config) -> list[WhatIfRow]:
    """GPUs, and money where both tiers have a price."""
    gpus = [float(setting.replicas * setting.gpus) for setting in (pool.setting, change.setting)]
    rows = [_exact("gpus", "GPUs", "GPUs", gpus, "replicas x GPUs of a pod", "settings")]
    prices = [per_gpu_hour(config.prices, setting.tier) for setting in (pool.setting, change.setting)]
    if None not in prices:
        money = [number * (price or 0.0) for number, price in zip(gpus, prices, strict=True)]
        unit = f"{config.prices.currency}/h"
        rows.append(_exact("money", "money", unit, money, "GPUs x price of a GPU-hour x overhead", "[prices]"))
    return rows


def _exact(name: str, title: str, unit: str, values: list[float], formula: str, source: str) -> WhatIfRow:
    now, then = values
    change = then / now - 1.0 if now else None
    return WhatIfRow(
        name, title, unit, Banded(now, now, now), Banded(then, then, then), change, "", formula, {}, source
    )


def _held(pool: CalibratedPool) -> list[HeldRow]:
    titles = {each.name: each.title for each in QUANTITIES}
    return [
        HeldRow(
            each.name,
            titles[each.name],
            each.unit,
            each.predicted,
            each.measured,
            math.expm1(each.off) if math.isfinite(each.off) else None,
        )
        for each in pool.held
    ]


def _summary(prediction: Prediction, pool: CalibratedPool) -> str:
    goodput, first = prediction.row("goodput"), prediction.row("ttft_p99")
    words = [
        f"{title} {each.move}: {' to '.join(figure(band.value, each.quantity.unit) for band in (each.now, each.then))}"
        for title, each in (("goodput", goodput), ("TTFT p99", first))
    ]
    return "; ".join(words) + ("" if not prediction.guesses else "; the bands are guesses")


def _notes(pool: CalibratedPool, config: Config) -> list[str]:
    notes = []
    for each in pool.held:
        if math.isfinite(each.off) and abs(math.expm1(each.off)) > LARGE_ERROR:
            title = next(known.title for known in QUANTITIES if known.name == each.name)
            notes.append(f"{title}: the first half of the history predicts the second {math.expm1(each.off):+.0%} off")
    played_minutes = len(busiest(pool.setting).traffic.rates) * STEP / 60
    if played_minutes < len(pool.setting.traffic.rates) * STEP / 60:
        notes.append(f"the busiest {played_minutes:.0f} minutes are played")
    if per_gpu_hour(config.prices, pool.setting.tier) is None:
        notes.append(f"no price: for money set {HOW.format(pool.setting.tier)}")
    return notes
