"""Which witnesses of a cause a recording does not have: allow-lists, absent exporters, older releases."""

from __future__ import annotations

from collections.abc import Iterable

from inferdoc.catalogue.aliases import Aliases
from inferdoc.catalogue.load import Catalogue
from inferdoc.catalogue.recipe import Recipe
from inferdoc.judging.quantities import HURT, place
from inferdoc.simulate.scrape import Scraped
from inferdoc.source.plan import series_names

UNEXPLAINED = "unexplained-anomaly"
GENERAL = {
    "gpu-clock-throttle": "slow-gpu",
    "interconnect-degraded": "slow-gpu",
    "gpu-lost": "engine-hung",
    "gpu-ecc-degradation": "engine-down",
    "engine-oom": "engine-down",
    "engine-crash-loop": "engine-down",
}
"""What a cause is to a reader whose recording lacks the witness that names it: a throttled GPU is a slow one, a lost
device a hung engine, a container that ended a pod that is down."""


def right_without(cause: str) -> tuple[str, ...]:
    """What is right besides, where witnesses of the cause are absent."""
    return (UNEXPLAINED, GENERAL[cause]) if cause in GENERAL else (UNEXPLAINED,)


def mechanism_signals(recipe: Recipe, support: bool = True) -> list[str]:
    """What the symptoms (and the support) of a recipe look at, consequences left out."""
    conditions = (*recipe.symptoms, *(recipe.support if support else ()), *recipe.proof)
    names = [name for c in conditions for name in c.signals]
    return [name for name in dict.fromkeys(names) if place(name) != HURT]


def absent_witnesses(cause: str, targets: Iterable[Scraped], catalogue: Catalogue, joined: bool = True) -> list[str]:
    """The mechanism signals among a cause's symptoms of which the recording holds no series. joined: its labels tell
    which GPU belongs to which engine."""
    recipe = catalogue.recipes.get(cause)
    if recipe is None:
        return []
    layouts = {page.layout.digest: page.layout for target in targets for _, page in target.pages}
    present = {series.name for layout in layouts.values() for series in layout.series}
    aliases = Aliases(catalogue.exporters.values())
    absent = []
    for name in mechanism_signals(recipe, support=False):
        if name in catalogue.signals:
            needed = series_names([name], catalogue.signals, aliases)
            apart = catalogue.signals[name].level == "gpu" and not joined
            if apart or (needed and not present & set(needed)):
                absent.append(name)
    return absent
