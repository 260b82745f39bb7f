"""`audit()`: from a source and a window to the standing states of a fleet."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from inferdoc import __version__
from inferdoc.audit.check import NUMBER, refuse_unknown
from inferdoc.audit.cost import total_gpus, wasted
from inferdoc.audit.judge import Doubt, Standstill, Verdicts, judge
from inferdoc.audit.model import (
    SCHEMA_ID,
    Advice,
    Audit,
    AuditTiming,
    AuditVerdict,
    AuditWindow,
    CannotTell,
    Observed,
    Place,
    PoolLooked,
    Reason,
    StandingState,
)
from inferdoc.audit.quantities import QUANTITIES, peak_use
from inferdoc.audit.watched import ENDS, GPU_SIGNAL, SETTINGS, WORK, Watched, settings_of
from inferdoc.catalogue.aliases import Aliases
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.catalogue.standing import Standing, State
from inferdoc.config import AcceptedSection, Config
from inferdoc.diagnose.api import read_window
from inferdoc.diagnose.cohort_signals import add_cohorts
from inferdoc.diagnose.model import SourceInfo, stamp
from inferdoc.diagnose.view import make_view
from inferdoc.diagnose.words import figure
from inferdoc.fleet.members import ENGINE_SIGNS, Assignment, Pool, Wanted, resolve
from inferdoc.source.base import InfoSeries, Source
from inferdoc.source.reads import Matcher
from inferdoc.times import Moment

ALWAYS_READ = (
    *WORK,
    *ENDS,
    *ENGINE_SIGNS,
    GPU_SIGNAL,
    "sm_clock",
    "output_len_mean",
    "target_up",
    "prompt_tokens_rate",
    "prefill_seconds_per_token",
    "preemption_rate",
    "kv_capacity_tokens",
    "spec_draft_length",
    "router_prefix_hit_ratio",
)
"""Traffic, roles and tiers, and the inputs of the formulas of waste."""
SEVERITIES = ("info", "warning")
MOST_NAMED = 3


@dataclass
class AuditOptions:
    """What the user chose. match: label matchers for every selector; wanted: the part of the fleet."""

    match: tuple[Matcher, ...] = ()
    wanted: Wanted = field(default_factory=Wanted)
    config: Config = field(default_factory=Config)
    catalogue: Catalogue | None = None


def audit(
    source: Source,
    since: Moment | None = None,
    until: Moment = "latest",
    from_: Moment | None = None,
    options: AuditOptions | None = None,
) -> Audit:
    """The standing states of a fleet in a window of a source.

    since: how long before `until` (a duration such as "24h"), from_: or when; until: a time, "now" or "latest". Raises
    SourceError where the source cannot be read, CatalogueError where a state names what does not exist.
    """
    options = options or AuditOptions()
    catalogue = options.catalogue or load_catalogue()
    refuse_unknown(catalogue)
    began = time.perf_counter()
    plateaus = [(p.pod, p.tokens_per_second) for p in options.config.pods if p.tokens_per_second]
    wanted = needed_signals(catalogue)
    frame, _ = read_window(source, wanted, catalogue, since, from_, until, options.match, plateaus)
    infos = _settings(source, catalogue, frame.grid, options.match) if frame.signals else []
    read_done = time.perf_counter()
    assignments = [Assignment(p.pod, p.role, p.tier) for p in options.config.pods]
    fleet = resolve(frame, catalogue.tiers, assignments, options.wanted)
    add_cohorts(frame, catalogue.signals, fleet)
    view = make_view(frame, fleet, None, catalogue.signals)
    watched = Watched(view, catalogue.signals, catalogue.tiers, settings_of(view, infos), options.config.pods)
    verdicts = judge(watched, catalogue.standing)
    states = [_state(watched, options.config, catalogue.standing, entry) for entry in verdicts.standing]
    states.sort(key=_rank)
    open_states = [state for state in states if state.accepted is None]
    doubts = cannot_tell(watched, verdicts.doubts)
    verdict: AuditVerdict = "standing" if open_states else "nothing" if verdicts.judged else "unknown"
    return Audit(
        schema_=SCHEMA_ID,
        inferdoc_version=__version__,
        window=AuditWindow(
            stamp(frame.grid.start_ms / 1000), stamp(frame.grid.end_ms / 1000), view.step_seconds, len(watched.parts())
        ),
        source=SourceInfo(source.kind, source.location, list(source.warnings)),
        verdict=verdict,
        summary=summarise(verdict, open_states, len(fleet.members)),
        states=open_states,
        accepted=[state for state in states if state.accepted is not None],
        cannot_tell=doubts,
        not_applicable=_nowhere(watched, verdicts),
        pools=[_pool(watched, pool) for pool in watched.pools],
        timing=AuditTiming(
            round(read_done - began, 4),
            round(time.perf_counter() - read_done, 4),
            source.cost.queries,
            source.cost.samples,
        ),
    )


def needed_signals(catalogue: Catalogue) -> list[str]:
    """Every signal that a state, a quantity or a formula reads."""
    names: dict[str, None] = dict.fromkeys(ALWAYS_READ)
    for one in catalogue.standing.observations.values():
        if one.signal is not None:
            names[one.signal] = None
        if one.quantity is not None:
            quantity = QUANTITIES[one.quantity]
            names |= dict.fromkeys((*quantity.inputs, *quantity.optional))
    return [name for name in names if name in catalogue.signals]


def _settings(source: Source, catalogue: Catalogue, grid: object, match: tuple[Matcher, ...]) -> list[InfoSeries]:
    from inferdoc.source.reads import Grid

    assert isinstance(grid, Grid)
    present = source.names(grid.start_ms, grid.end_ms)
    aliases = Aliases(catalogue.exporters.values())
    return [one for name in aliases.of(SETTINGS) if name in present for one in source.info(name, grid, match)]


def _state(watched: Watched, config: Config, standing: Standing, entry: Standstill) -> StandingState:
    state, pool = entry.state, entry.pool
    pods = list(dict.fromkeys(unit.member.pod for unit in entry.units))
    everyone = {unit.member.pod for unit in watched.units(pool)}
    observed = []
    for reading in entry.readings:
        one = standing.observations[reading.name]
        entity = pool_name(pool) if state.scope == "pool" else entry.units[0].name
        held = None if reading.held is None else round(reading.held, 3)
        observed.append(
            Observed(
                reading.name,
                reading.text,
                one.because,
                entity,
                reading.value,
                reading.limit,
                reading.unit,
                held,
                one.limit,
                one.source,
            )
        )
    base = config.links.runbook_base
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
        [
            Advice(*(_filled(text, watched, entry) for text in (step.do, step.why, step.cost, step.undo)))
            for step in state.next_steps
        ],
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


def _filled(text: str, watched: Watched, entry: Standstill) -> str:
    """The text with every {quantity} worked out on the first pod that shows the state, or its name in words."""

    def worked_out(match: re.Match[str]) -> str:
        quantity = QUANTITIES[match.group(1)]
        of_unit, of_pool = quantity.of_unit, quantity.of_pool
        amount = of_pool(watched, entry.pool) if of_pool else of_unit(watched, entry.units[0]) if of_unit else None
        if amount is None:
            return quantity.title.lower()
        row = np.asarray(amount, dtype=np.float64)
        seen = row[np.isfinite(row)]
        if not seen.size:
            return quantity.title.lower()
        measure = "" if quantity.unit in ("tokens", "requests", "replicas") else quantity.unit
        return figure(float(np.median(seen)), measure)

    return NUMBER.sub(worked_out, text)


def _rank(state: StandingState) -> tuple[bool, float, float, int, str]:
    """Dearest first: money where there is a price, else GPUs; without a figure by severity."""
    cost = state.wasted
    if cost is None:
        return True, 0.0, 0.0, -SEVERITIES.index(state.severity), state.id
    return False, -(cost.money or 0.0), -cost.gpus, -SEVERITIES.index(state.severity), state.id


def pool_name(pool: Pool) -> str:
    """A pool in words: namespace/model, role and tier where they say something."""
    words = ["/".join(part for part in (pool.namespace, pool.model) if part) or "pool"]
    words += [pool.role] if pool.role != "both" else []
    words += [pool.tier] if pool.tier != "unknown" else []
    return ", ".join(words)


def _pool(watched: Watched, pool: Pool) -> PoolLooked:
    units = watched.units(pool)
    counts = [count for unit in units if (count := watched.requests(unit)) is not None]
    use = peak_use(watched, pool)
    known = all(watched.gpus(unit) is not None for unit in units)
    return PoolLooked(
        pool_name(pool),
        len({unit.member.key for unit in units}),
        sum(1 for unit in units if watched.quiet(unit)),
        int(total_gpus(watched, units)) if known else None,
        round(sum(counts), 1) if counts else None,
        round(float(np.mean([watched.busy(unit).mean() for unit in units])), 3),
        None if use is None else round(use, 3),
    )


def cannot_tell(watched: Watched, doubts: Iterable[Doubt]) -> list[CannotTell]:
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
            CannotTell(
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
        return f"it looks so in this window, which shows {duration(watched.seconds)} of the {state.horizon} needed: {shown}"
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


def duration(seconds: float) -> str:
    """3600 as 1 h, 5400 as 90 min."""
    if seconds >= 2 * 3600 or seconds % 3600 == 0:
        return f"{seconds / 3600:.3g} h"
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def _nowhere(watched: Watched, verdicts: Verdicts) -> list[str]:
    """States whose feature no pool uses."""
    pools = set(watched.pools)
    return sorted(name for name, where in verdicts.inapplicable.items() if where == pools)


def summarise(verdict: AuditVerdict, states: Sequence[StandingState], pods: int) -> str:
    """One sentence for a ticket."""
    if verdict == "unknown":
        return "Not enough data: no pool shows traffic over most of the window."
    many = f"{pods} pod{'s' if pods != 1 else ''}"
    if not states:
        return f"No standing state on {many}."
    priced = [state.wasted for state in states if state.wasted is not None]
    first = states[0]
    named = ", ".join(first.place.pods[:MOST_NAMED])
    more = f" and {len(first.place.pods) - MOST_NAMED} more" if len(first.place.pods) > MOST_NAMED else ""
    head = f"{len(states)} standing state{'s' if len(states) != 1 else ''} on {many}"
    top = f"{first.title} ({named}{more}"
    cost = f", {cost_words(first)})" if priced and first.wasted is not None else ")"
    return f"{head}; first: {top}{cost}."


def cost_words(state: StandingState) -> str:
    """What a state costs, short: "up to 2.4 GPUs, 20 % of those looked at, 7.20 USD an hour"."""
    cost = state.wasted
    if cost is None:
        return "no figure"
    word = "replicas" if cost.assumed else "GPUs"
    parts = [f"{cost.bound or 'about'} {cost.gpus:.2g} {word}", f"{cost.share:.0%} of the capacity looked at"]
    if cost.money is not None:
        parts.append(f"{cost.money:,.2f} {cost.currency} an hour")
    return ", ".join(parts)
