"""Standing states as data: what is wrong without having changed, and the absolute observations that show it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from inferdoc.catalogue.content import content_files
from inferdoc.catalogue.document import decode, locate
from inferdoc.catalogue.validate import Problem, check_known, check_pattern, exactly_one
from inferdoc.errors import CatalogueError
from inferdoc.times import length_of

FOLDER = "standing"
OBSERVATIONS = "observations.yaml"
SUBJECTS = ("signal", "quantity", "setting", "tier")
TIER_FIGURES = ("memory_gib", "memory_gbps", "bf16_tflops", "fp8_tflops", "link_gbps")
RULES = (
    "standing_share",
    "standing_parts",
    "standing_least_parts",
    "standing_requests",
    "standing_busy",
    "prefix_hit_rag",
)
"""Limits that the audit itself reads: what it takes to stand, to be busy, to say anything; what reuse can reach."""
QUANTILES = {"p01": 0.01, "p05": 0.05, "p95": 0.95, "p99": 0.99}

StateSeverity = Literal["info", "warning"]
StateScope = Literal["pod", "pool"]


class Absolute(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An observation in its absolute form: one subject against one named limit, over most of the window.

    signal: of the catalogue; quantity: worked out by a named function of `inferdoc.audit.quantities`; setting: a label
    of vllm:cache_config_info; tier: a figure of the hardware tier (absent counts as 0). above, below: a named limit of
    tiers.yaml; matches: a regular expression for the whole value of a setting. at: the quantile of the window that is
    compared, instead of part by part; share: the named limit for the share of the window in which it must hold
    (standing_share where left out); always: the whole window counts, not only its busy part.
    """

    because: str
    source: str
    signal: str | None = None
    quantity: str | None = None
    setting: str | None = None
    tier: str | None = None
    above: str | None = None
    below: str | None = None
    matches: str | None = None
    at: Literal["p01", "p05", "p95", "p99"] | None = None
    share: str | None = None
    always: bool = False

    @property
    def subject(self) -> str:
        """The name of what is compared."""
        return next(str(name) for kind in SUBJECTS if (name := getattr(self, kind)) is not None)

    @property
    def limit(self) -> str | None:
        """The name of the limit, or None where a setting is matched."""
        return self.above or self.below


class StateStep(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One thing to do about a state. {name}: a quantity worked out; `[with {name}|without]`: by whether it can be."""

    do: str
    why: str
    cost: str
    undo: str
    flags: tuple[str, ...] = ()


class State(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One standing state. needs: observations that must all hold; any_of: at least one besides; unless: none of these;
    covered_by: states that say the same and more; scope: judged pod by pod, or on the mean over the pods of a pool;
    roles: of the pools it concerns; horizon: the shortest window that shows it (a day has a night), sooner: it is
    reported earlier where these hold; waste: the named formula of `inferdoc.audit.waste` (None: no figure, `costs` says
    why it costs all the same); bound: "up to" where the figure is an upper bound; feature: what it needs is visible
    only where an optional feature is in use, so that without it there is nothing to report; affects_users: whether
    users notice it, so that a fleet in this state is not healthy; runbook: the page of the cause it leads to.
    """

    id: str
    title: str
    severity: StateSeverity
    scope: StateScope
    needs: tuple[str, ...]
    costs: str
    intended_when: str
    next_steps: tuple[StateStep, ...]
    sources: tuple[str, ...]
    any_of: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    covered_by: tuple[str, ...] = ()
    roles: tuple[Literal["prefill", "decode", "both"], ...] = ()
    horizon: str | None = None
    sooner: tuple[str, ...] = ()
    waste: str | None = None
    bound: Literal["up to", "at least"] | None = None
    certainty: Literal["likely", "possible"] = "likely"
    feature: bool = False
    affects_users: bool = False
    runbook: str | None = None

    @property
    def observations(self) -> tuple[str, ...]:
        """Every observation that it names."""
        return tuple(dict.fromkeys((*self.needs, *self.any_of, *self.unless, *self.sooner)))

    @property
    def horizon_seconds(self) -> float:
        """The shortest window that shows it, in seconds; 0 where any does."""
        return length_of(self.horizon, "horizon") if self.horizon else 0.0


class StandingObservationFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`observations.yaml`: each absolute observation once, by name."""

    observations: dict[str, Absolute]


class Standing(msgspec.Struct, frozen=True):
    """All states by id, and the observations that they name."""

    observations: dict[str, Absolute]
    states: dict[str, State]

    @property
    def limits(self) -> set[str]:
        """The named limits of `tiers.yaml` that the audit and its observations read."""
        named = (limit for one in self.observations.values() for limit in (one.above, one.below, one.share))
        return {*RULES, *(limit for limit in named if isinstance(limit, str))}

    @property
    def limits_of_units(self) -> set[str]:
        """Those of them that a pod is compared with, so that its tier may have its own."""
        return {str(one.limit) for one in self.observations.values() if one.limit is not None}

    def problems(
        self, signals: Collection[str], limits: Collection[str], recipes: Collection[str], flags: Collection[str]
    ) -> list[str]:
        """What is wrong with the whole, one line each."""
        found = [
            str(problem)
            for name, one in self.observations.items()
            for problem in _observation_problems(name, one, signals, limits)
        ]
        used = {name for state in self.states.values() for name in state.observations}
        found += [f"observations.{name}: no state names it" for name in sorted(self.observations.keys() - used)]
        for state in self.states.values():
            found += [f"{state.id}: {words}" for words in self._state_problems(state, recipes, flags)]
        return found

    def _state_problems(self, state: State, recipes: Collection[str], flags: Collection[str]) -> Iterator[str]:
        if not state.needs:
            yield "needs: at least one observation"
        for name in state.observations:
            yield from map(str, check_known(name, self.observations, (), "observation"))
        for name in state.covered_by:
            yield from map(str, check_known(name, self.states, ("covered_by",), "state"))
        if state.sooner and not state.horizon:
            yield "sooner: without a horizon there is nothing to shorten"
        if state.runbook is not None:
            yield from map(str, check_known(state.runbook, recipes, ("runbook",), "cause"))
        for flag in (flag for step in state.next_steps for flag in step.flags):
            if flag not in flags:
                yield f"next_steps: {flag} is not in vllm-flags.yaml"


def _observation_problems(
    name: str, one: Absolute, signals: Collection[str], limits: Collection[str]
) -> Iterator[Problem]:
    at = ("observations", name)
    for kinds in (SUBJECTS, ("above", "below", "matches")):
        given = [kind for kind in kinds if getattr(one, kind) is not None]
        if len(given) != 1:
            yield Problem(at, exactly_one(kinds, given))
    if one.signal is not None:
        yield from check_known(one.signal, signals, at, "signal")
    if one.tier is not None:
        yield from check_known(one.tier, TIER_FIGURES, at, "figure of a tier")
    if one.matches is not None and one.setting is None:
        yield Problem(at, "only a setting is matched")
    if one.matches is not None:
        yield from check_pattern(one.matches, at)
    for limit in (one.above, one.below, one.share):
        if limit is not None:
            yield from check_known(limit, limits, at, "limit")


def load_standing(overlays: tuple[Path, ...] = ()) -> Standing:
    """The states and their observations, with the user's overlays: a file with the same name replaces the shipped one.
    Raises CatalogueError."""
    files = content_files("diagnostics", f"{FOLDER}/*.yaml", overlays)
    path = files.pop(OBSERVATIONS, None)
    observations: Mapping[str, Absolute] = {} if path is None else decode(path, StandingObservationFile).observations
    states = {}
    for file in files.values():
        state = decode(file, State)
        if state.id != file.stem:
            where = locate(file, ("id",))
            raise CatalogueError(f'{where}: expected "{file.stem}" as the file is named, got "{state.id}"')
        for name in state.observations:
            for problem in check_known(name, observations, (), "observation"):
                raise CatalogueError(f"{file}: {problem}")
        states[state.id] = state
    return Standing(dict(observations), states)
