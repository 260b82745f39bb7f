"""The `Fires when` part of the runbook pages, written between their markers from the cause's declaration."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from inferdoc.catalogue.conditions import Condition
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.catalogue.recipe import Recipe
from inferdoc.generate.cause_rules import AlertRule, in_words
from inferdoc.generate.document import FileChange, section_changes
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.pack import build_rules
from inferdoc.judging.conditions import explain

BEGIN = "<!-- fires-when: generated from diagnostics/{id}.yaml -->"
END = "<!-- /fires-when -->"
COLUMNS = 120


def runbook_changes(folder: Path, catalogue: Catalogue | None = None) -> list[FileChange]:
    """The pages of a folder of which the `Fires when` part differs. A cause without a page is left out.

    Raises InferdocError for a page without its markers, CatalogueError for a cause that cannot become a rule.
    """
    catalogue = load_catalogue() if catalogue is None else catalogue
    rules, none = build_rules(catalogue, GeneratedLinks())
    changes = []
    for recipe in catalogue.recipes.values():
        rule, none_because = rules.get(recipe.id), none.get(recipe.id, "")
        changes += section_changes(
            folder / f"{recipe.id}.md",
            BEGIN.format(id=recipe.id) + "\n",
            END,
            partial(_lines, recipe, catalogue, rule, none_because),
        )
    return changes


def _lines(recipe: Recipe, catalogue: Catalogue, rule: AlertRule | None, none_because: str) -> Iterator[str]:
    where = f"one {recipe.scope}" if recipe.pool_share is None else f"at least {100 * recipe.pool_share:g} % of a pool"
    yield from listed(f"All of these, on {where}:", recipe.symptoms, catalogue)
    yield ""
    if set(recipe.harm) & set(recipe.symptoms):
        yield "One of them is the impact itself."
    else:
        yield from listed("And at least one of these, the impact:", recipe.harm, catalogue)
    if recipe.unless:
        yield ""
        yield "Not if one of these is true, which means another cause:"
        yield ""
        for condition in recipe.unless:
            early = " (only if it was so before the cause started)" if condition.when == "before" else ""
            yield from wrapped(f"{_in_words(condition, catalogue)}: {condition.because}{early}", "- ")
    yield ""
    if rule is None:
        yield from wrapped(f"No alert rule: {none_because}. `inferdoc diagnose` reports it.")
        return
    keeps = f", keeps firing for {rule.keep_firing_for}" if rule.keep_firing_for else ""
    yield from wrapped(f"Alert `{rule.name}` ({rule.severity}): fires after {rule.for_}{keeps}.")


def listed(heading: str, conditions: Iterable[Condition], catalogue: Catalogue) -> Iterator[str]:
    """A heading and the conditions in words, one bullet each."""
    yield heading
    yield ""
    for condition in conditions:
        yield from wrapped(_in_words(condition, catalogue), "- ")


def _in_words(condition: Condition, catalogue: Catalogue) -> str:
    """In words, with the ids of the signals behind them where they are needed to look further."""
    ids = [part for part in explain(condition).split("`")[1::2] if part in catalogue.signals_of_rules]
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(ids))
    return f"{in_words(condition, catalogue)} ({names})"


def wrapped(text: str, bullet: str = "") -> list[str]:
    """Lines of the width of a page."""
    return textwrap.wrap(
        text, COLUMNS, initial_indent=bullet, subsequent_indent=" " * len(bullet), break_on_hyphens=False
    )
