"""Convert audit verdicts to the document: issues, costs, pools and undetermined states."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from inferdoc.audit.evaluate import Doubt, Standstill, Verdicts
from inferdoc.audit.model import (
    Advice,
    AuditedPool,
    AuditVerdict,
    Observed,
    Place,
    Reason,
    StandingState,
    UndeterminedState,
    Wasted,
)
from inferdoc.audit.observe import REGISTRY
from inferdoc.audit.quantities import peak_use
from inferdoc.audit.waste import WASTES, weight
from inferdoc.audit.window_data import Watched
from inferdoc.catalogue.standing import Standing, State, StateStep
from inferdoc.config import Config
from inferdoc.config_sections import AcceptedSection, PricesSection
from inferdoc.fleet.members import Pool
from inferdoc.judging.advice import filled_in
from inferdoc.judging.model import stamp
from inferdoc.judging.view import Unit
from inferdoc.words import figure, how_many, lasting, percent, some

LEAST_GPUS = 0.005
"""Less is no figure: half a GPU in a hundred."""


def wasted(watched: Watched, prices: PricesSection, entry: Standstill) -> Wasted | None:
    """The cost of a state on a pool, or None where nothing gives a figure."""
    if entry.state.waste is None:
        return None
    formula = WASTES[entry.state.waste]
    gpus = formula.measure(watched, entry.units)
    if gpus is None or gpus < LEAST_GPUS:
        return None
    price = prices.tiers.get(entry.pool.tier)
    return Wasted(
        gpus=round(gpus, 3),
        share=round(gpus / total_gpus(watched, watched.view.units), 4),
        money=None if price is None else round(gpus * price.on_demand * prices.overhead, 2),
        currency=None if price is None else prices.currency,
        formula=formula.formula,
        bound=entry.state.bound,
        assumed=any(watched.gpus(unit) is None for unit in entry.units),
    )


def total_gpus(watched: Watched, units: Sequence[Unit]) -> float:
    """GPUs of some units; a pod whose number is not known counts as one."""
    return max(1.0, sum(weight(watched, unit) for unit in units))


MOST_NAMED = 3
COUNTED = ("tokens", "requests", "replicas")
"""Units that the sentence around a number names itself."""


def state_of(watched: Watched, config: Config, standing: Standing, entry: Standstill) -> StandingState:
    state, pool = entry.state, entry.pool
    pods = list(dict.fromkeys(unit.member.pod for unit in entry.units))
    everyone = {unit.member.pod for unit in watched.units(pool)}
    observed = []
    for reading in entry.readings:
        one = standing.observations[reading.name]
        entity = pool_name(pool) if state.scope == "pool" else entry.units[0].name
        share = None if reading.held is None else round(reading.held, 3)
        observed.append(
            Observed(
                reading.name,
                reading.text,
                one.because,
                entity,
                reading.value,
                reading.limit,
                reading.unit,
                share,
                one.limit,
                one.source,
            )
        )
    base = config.runbook_base
    url = f"{base.rstrip('/')}/{state.runbook}" if base and state.runbook else None
    return StandingState(
        state.id,
        state.title,
        state.severity,
        state.certainty,
        Place(pool.cluster, pool.namespace, pool.model, pool.role, pool.tier, pods, len(everyone)),
        observed,
        state.costs,
        wasted(watched, config.prices, entry),
        [advice for step in state.next_steps if (advice := _advised(step, watched, entry)) is not None],
        state.intended_when,
        state.runbook,
        url,
        list(state.sources),
        _accepted(config.audit.accepted, state, pods, watched),
    )


def _accepted(sections: Iterable[AcceptedSection], state: State, pods: Sequence[str], watched: Watched) -> str | None:
    """Why the configuration calls it meant, where it does for all of the pods and its day has not passed."""
    day = stamp(watched.view.frame.grid.end_ms / 1000)[:10]
    for section in sections:
        if section.state != state.id or (section.until is not None and section.until < day):
            continue
        if all(re.fullmatch(section.pod, pod) for pod in pods):
            return section.reason + (f" (until {section.until})" if section.until else "")
    return None


def _advised(step: StateStep, watched: Watched, entry: Standstill) -> Advice | None:
    """A step with its numbers, None where one that it rests on cannot be worked out."""
    every = (step.do, step.why, step.cost, step.undo)
    texts = [filled_in(text, lambda name: _amount(name, watched, entry)) for text in every]
    known = [text for text in texts if text is not None]
    return Advice(*known) if len(known) == len(texts) else None


def _amount(name: str, watched: Watched, entry: Standstill) -> str | None:
    """A quantity on the first pod that shows the state; None where nothing shows it."""
    quantity = REGISTRY[name]
    of_unit, of_pool = quantity.of_unit, quantity.of_pool
    amount = of_pool(watched, entry.pool) if of_pool else of_unit(watched, entry.units[0]) if of_unit else None
    row = np.asarray(np.nan if amount is None else amount, dtype=np.float64)
    seen = row[np.isfinite(row)]
    return figure(float(np.median(seen)), "" if quantity.unit in COUNTED else quantity.unit) if seen.size else None


def pool_name(pool: Pool) -> str:
    """A pool in words: cluster/namespace/model, role and tier where they say something."""
    words = ["/".join(part for part in (pool.cluster, pool.namespace, pool.model) if part) or "pool"]
    words += [pool.role] if pool.role != "both" else []
    words += [pool.tier] if pool.tier != "unknown" else []
    return ", ".join(words)


def pool_of(watched: Watched, pool: Pool) -> AuditedPool:
    units = watched.units(pool)
    counts = [count for unit in units if (count := watched.requests(unit)) is not None]
    use = peak_use(watched, pool)
    known = all(watched.gpus(unit) is not None for unit in units)
    return AuditedPool(
        pool_name(pool),
        len({unit.member.key for unit in units}),
        sum(1 for unit in units if watched.quiet(unit)),
        int(total_gpus(watched, units)) if known else None,
        round(sum(counts), 1) if counts else None,
        round(float(np.mean([watched.busy(unit).mean() for unit in units])), 3),
        None if use is None else round(use, 3),
    )


def cannot_tell(watched: Watched, doubts: Iterable[Doubt]) -> list[UndeterminedState]:
    """The doubts, one entry per state and reason. Where any pool lacks signals it says which, and what to switch on."""
    groups: dict[tuple[State, Reason, str], list[Doubt]] = {}
    for doubt in doubts:
        missing = sorted({name for reading in doubt.readings for name in reading.missing})
        reason: Reason = "window" if doubt.short else "missing" if missing else "traffic"
        groups.setdefault((doubt.state, reason, ", ".join(missing)), []).append(doubt)
    found = []
    for (state, reason, _), members in groups.items():
        missing = sorted({name for doubt in members for reading in doubt.readings for name in reading.missing})
        found.append(
            UndeterminedState(
                state.id,
                state.title,
                reason,
                sorted({pool_name(doubt.pool) for doubt in members}),
                _doubt_words(watched, state, reason, members[0], missing),
                missing if reason == "missing" else [],
                _enable(watched, state, reason, missing),
            )
        )
    return found


def _doubt_words(watched: Watched, state: State, reason: Reason, doubt: Doubt, missing: Sequence[str]) -> str:
    if reason == "window":
        shown = "; ".join(reading.text for reading in doubt.readings[:2])
        seen = f"which shows {lasting(watched.seconds)} of the {state.horizon} needed"
        return f"seen in this window, {seen}: {shown}"
    if reason == "missing":
        return f"not visible: {', '.join(missing)}"
    return "too little traffic, or too short a window, to say how it works"


def _enable(watched: Watched, state: State, reason: Reason, missing: Sequence[str]) -> str:
    if reason == "window":
        return f"inferdoc audit --since {state.horizon}"
    if reason == "traffic":
        return "a longer --since, or one that holds the busy hours"
    ways = dict.fromkeys(_way(watched, name) for name in missing)
    return "; ".join(ways)


def _way(watched: Watched, name: str) -> str:
    if name == "tier":
        return "say the hardware: scrape dcgm-exporter, label the targets with tier, or name it under [[pods]]"
    signal = watched.signals.get(name)
    if signal is None:
        return f"keep {name} in the scrape"
    return signal.enable or f"nothing in the source supplies {name}"


def nowhere(watched: Watched, verdicts: Verdicts) -> list[str]:
    """States whose feature no pool uses."""
    pools = set(watched.pools)
    return sorted(name for name, where in verdicts.inapplicable.items() if where == pools)


def summarise(
    verdict: AuditVerdict, states: Sequence[StandingState], pods: int, watched: Watched, gaps: Sequence[str] = ()
) -> str:
    """One sentence for a ticket. gaps: what was not read."""
    if gaps and not states:
        return f"No persistent issue in the data that was read, but it is incomplete: {gaps[0]}."
    if verdict == "unknown" and watched.seconds < watched.least_seconds:
        least = lasting(watched.least_seconds)
        return f"Not enough data: at this scrape interval a window of {least} shows what persists."
    if verdict == "unknown":
        return "Not enough data: no pool shows traffic over most of the window."
    many = how_many(pods, "pod")
    if not states:
        return f"No persistent issue on {many}."
    priced = [state.wasted for state in states if state.wasted is not None]
    first = states[0]
    head = f"{how_many(len(states), 'persistent issue')} on {many}"
    top = f"{first.title} ({some(first.place.pods, MOST_NAMED)}"
    cost = f", {cost_words(first)})" if priced and first.wasted is not None else ")"
    return f"{head}; first: {top}{cost}."


def cost_words(state: StandingState) -> str:
    """What a state costs, short: "up to 2.4 GPUs, 20 % of the audited capacity, 7.20 USD an hour"."""
    cost = state.wasted
    if cost is None:
        return "no figure"
    number = f"{cost.gpus:.2g}"
    word = ("replica" if cost.assumed else "GPU") + ("" if number == "1" else "s")
    parts = [f"{cost.bound or 'about'} {number} {word}", f"{percent(cost.share)} of the audited capacity"]
    if cost.money is not None:
        parts.append(f"{cost.money:,.2f} {cost.currency} an hour")
    return ", ".join(parts)
