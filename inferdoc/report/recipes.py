"""The catalogue of causes for people."""

from __future__ import annotations

from inferdoc.catalogue.conditions import Condition
from inferdoc.catalogue.document import nearest
from inferdoc.catalogue.load import Catalogue
from inferdoc.errors import InferdocError
from inferdoc.escaping import page
from inferdoc.judging.conditions import explain
from inferdoc.judging.places import in_general


def listing(catalogue: Catalogue) -> str:
    """One line a cause."""
    rows = sorted(catalogue.recipes.values(), key=lambda r: (r.phase, r.id))
    return page(f"{r.id:<26} {r.severity:<9} {r.phase:<10} {r.title}" for r in rows)


def details(catalogue: Catalogue, cause: str) -> str:
    """A cause in words. Raises InferdocError for an unknown id."""
    recipe = catalogue.recipes.get(cause)
    if recipe is None:
        raise InferdocError(
            f'no cause is called "{cause}"{nearest(cause, catalogue.recipes)}; inferdoc recipes list names them'
        )
    lines = [
        recipe.title,
        f"{recipe.id}  {recipe.severity}, at most {recipe.most_certain}, phase {recipe.phase}, scope {recipe.scope}",
    ]
    sections: tuple[tuple[str, tuple[Condition, ...]], ...] = (
        ("symptoms (all)", recipe.symptoms),
        ("impact (one)", recipe.harm),
        ("support", recipe.support),
        ("proof", recipe.proof),
    )
    for title, conditions in sections:
        if conditions:
            lines += ["", title, *(f"  {explain(c)}" for c in conditions)]
    if recipe.unless:
        lines += ["", "ruled out when", *(f"  {explain(c)}: {c.because}{_early(c)}" for c in recipe.unless)]
    if recipe.effects:
        lines += ["", f"effects      {', '.join(recipe.effects)}"]
    if recipe.look_alikes:
        lines += [f"look-alikes  {', '.join(recipe.look_alikes)}"]
    lines += ["", "next steps"]
    lines += [
        in_general(f"  {i}) {step.do} (cost: {step.cost}; undo: {step.undo})")
        for i, step in enumerate(recipe.next_steps, start=1)
    ]
    lines += ["", "sources", *(f"  {source}" for source in recipe.sources)]
    lines += ["", f"declared in {catalogue.origin[('recipe', cause)]}"]
    return page(lines)


def _early(condition: Condition) -> str:
    """Said of what rules out only where it began before the cause."""
    return " (only where it was so before)" if condition.when == "before" else ""
