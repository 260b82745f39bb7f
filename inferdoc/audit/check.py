"""Whether what the states name exists in the engine: quantities, formulas of waste, and {numbers} in steps."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inferdoc.audit.registry import REGISTRY
from inferdoc.audit.waste import WASTES
from inferdoc.catalogue.document import nearest
from inferdoc.catalogue.load import Catalogue
from inferdoc.errors import CatalogueError

NUMBER = re.compile(r"\{(\w+)\}")


def problems(catalogue: Catalogue) -> Iterator[str]:
    """One line per thing that is wrong with the standing states of a catalogue."""
    standing = catalogue.standing
    limits = catalogue.tiers.thresholds
    causes = {*catalogue.recipes, *catalogue.disabled}  # a cause that is not looked for has its page all the same
    yield from standing.problems(catalogue.signals, limits, causes, catalogue.flags.flags)
    yield from unknown_names(catalogue)


def unknown_names(catalogue: Catalogue) -> Iterator[str]:
    """Signals, limits, quantities, formulas and numbers that do not exist: what would break an audit."""
    standing = catalogue.standing
    for name, one in standing.observations.items():
        if one.quantity is not None and one.quantity not in REGISTRY:
            yield f'observations.{name}: no such quantity "{one.quantity}"{nearest(one.quantity, REGISTRY)}'
    for state in standing.states.values():
        if state.waste is not None and state.waste not in WASTES:
            yield f'{state.id}: waste: no such formula "{state.waste}"{nearest(state.waste, WASTES)}'
        texts = " ".join(f"{step.do} {step.why} {step.cost} {step.undo}" for step in state.next_steps)
        for number in NUMBER.findall(texts):
            if number not in REGISTRY:
                yield f'{state.id}: next_steps: no such number "{number}"{nearest(number, REGISTRY)}'


def refuse_unknown(catalogue: Catalogue) -> None:
    """Raise CatalogueError for the first problem."""
    for problem in problems(catalogue):
        raise CatalogueError(f"diagnostics/standing: {problem}")
