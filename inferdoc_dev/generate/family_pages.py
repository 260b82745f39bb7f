"""The runbook page of each family that can be a finding, from `diagnostics/families.yaml` and its causes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from inferdoc.catalogue.conditions import AnyOf
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recipe_file import Family
from inferdoc.generate.document import FileChange, file_changes
from inferdoc.generate.runbook_sections import listed, wrapped

NOTICE = "<!-- generated from diagnostics/families.yaml -->"


def family_page_changes(folder: Path, catalogue: Catalogue) -> list[FileChange]:
    """The pages that differ."""
    shown = [family for family in catalogue.families.values() if family.shown is not None]
    return file_changes({folder / f"{family.id}.md": "\n".join(_lines(family, catalogue)) + "\n" for family in shown})


def _lines(family: Family, catalogue: Catalogue) -> Iterator[str]:
    assert isinstance(family.shown, AnyOf)
    yield from (f"# {family.title}", "", NOTICE, "", "## Meaning", "")
    yield from wrapped(
        f"{family.says} Users are affected, and the metrics do not show which of the causes below it is: the "
        "report gives each a probability, and names the observation that would decide."
    )
    yield from ("", "## Shown by", "")
    yield from listed("If users are affected and no cause is complete, any of these:", family.shown.parts, catalogue)
    yield from ("", "## Candidates", "", "| Cause | What it is |", "| --- | --- |")
    for recipe in catalogue.recipes.values():
        if recipe.family == family.id:
            yield f"| [{recipe.id}]({recipe.id}.md) | {recipe.title} |"
    yield from ("", "## First five minutes", "")
    first = (
        "`inferdoc diagnose --since 1h -vv`: for each candidate what supports and what contradicts it, and what would "
        "decide. Open the runbook of the most probable one; its *Diagnosis* distinguishes it from its look-alikes."
    )
    yield from wrapped(first, "1. ")
    for number, step in enumerate(family.next_steps, start=2):
        yield from wrapped(f"{step.do}. *Why:* {step.why}. *Cost:* {step.cost}.", f"{number}. ")
