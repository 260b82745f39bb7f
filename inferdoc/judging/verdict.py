"""What judging a recipe on a unit comes to: a match with its evidence, or what speaks against it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from inferdoc.catalogue.recipe import Certainty, Recipe
from inferdoc.judging.context import Outcome
from inferdoc.judging.view import Unit

EvidenceRole = Literal["symptom", "harm", "support"]


@dataclass(frozen=True)
class Evidence:
    """An outcome, and what it counts as."""

    role: EvidenceRole
    outcome: Outcome


@dataclass(frozen=True)
class Reached:
    """A stage of a cause: its number from 1, its name, and the step it started at (None: not known)."""

    number: int
    name: str
    first: int | None


@dataclass
class Match:
    """A recipe that holds on a unit. onset, last: grid steps; stands: the step from which on all of its symptoms hold;
    from_start: true from the first step of the window; above: all of its harm shows above the pods, at their
    router."""

    recipe: Recipe
    unit: Unit
    onset: int
    last: int
    from_start: bool
    evidence: list[Evidence]
    certainty: Certainty
    doubts: list[str] = field(default_factory=list)
    stages: list[Reached] = field(default_factory=list)
    critical: bool = False
    above: bool = False
    stands: int = 0

    @property
    def imminent(self) -> bool:
        """No harm is there yet: all of it is extrapolated."""
        return all(e.outcome.ahead for e in self.evidence if e.role == "harm")


@dataclass
class Verdict:
    """match, or the observation that speaks against the recipe; missing: signals without which it cannot be judged;
    excluded: all of it shows, and what speaks against it does too."""

    recipe: Recipe
    unit: Unit
    match: Match | None = None
    against: str = ""
    missing: tuple[str, ...] = ()
    applies: bool = True
    excluded: bool = False
