"""Which witnesses of a cause a recording does not have: allow-lists, absent exporters, older releases."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from inferdoc.catalogue.aliases import Aliases
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.catalogue.recipe import Recipe
from inferdoc.catalogue.signal import Reading
from inferdoc.judging.distances import IMPACT, place
from inferdoc.simulate.scrape import Scraped

UNEXPLAINED = "unexplained-anomaly"
GENERAL = {
    "gpu-clock-throttle": "slow-gpu",
    "interconnect-degraded": "slow-gpu",
    "gpu-lost": "engine-hung",
    "gpu-ecc-degradation": "engine-down",
    "engine-oom": "engine-down",
    "engine-crash-loop": "engine-down",
    "ep-hot-expert": "slow-gpu",
    "cpu-starvation": "slow-gpu",
    "kv-preemption-thrash": "kv-capacity-bound",
    "kv-transfer-backlog": "kv-transport-degraded",
    "prefix-index-divergence": "prefix-unstable-prompt",
    "long-prefill-interference": "fcfs-head-of-line",
    "spec-overhead-at-saturation": "demand-beyond-capacity",
}
"""What a cause is to a reader whose recording lacks the witness that names it: a throttled GPU, the one with the hot
expert or one whose host is short of CPU is a slow one, a lost device a hung engine, a container that ended a pod that
is down, preemptions nobody counts are a full cache, reads of which nobody counts how many wait are slow ones, prompts
that engines render in another way than the router just share nothing at the engines, long prompts without the gaps
between tokens only hold up the queue, and drafts that no series shows leave a load beyond what is finished."""


ROLLED_OUT = "config-regression"
"""What is unexplained and began with a rollout is what the rollout changed: possible, and no metric says otherwise."""


def right_without(cause: str, *, rollout: bool = False) -> tuple[str, ...]:
    """What is right besides, where witnesses of the cause are absent. rollout: the fault began with one."""
    general = (GENERAL[cause],) if cause in GENERAL else ()
    recipe = load_catalogue().recipes.get(cause)
    family = (recipe.family,) if recipe is not None and recipe.family else ()
    return (UNEXPLAINED, *general, *family, *((ROLLED_OUT,) if rollout else ()))


def mechanism_signals(recipe: Recipe, support: bool = True) -> list[str]:
    """What the symptoms (and the support) of a recipe look at, consequences left out."""
    conditions = (*recipe.symptoms, *(recipe.support if support else ()), *recipe.proof)
    names = [name for c in conditions for name in c.signals]
    return [name for name in dict.fromkeys(names) if place(name) != IMPACT]


def supplied(name: str, catalogue: Catalogue, aliases: Aliases, present: Collection[str]) -> bool:
    """Whether the series of a recording can make a signal: some reading has all that it is made of."""
    return any(_readable(reading, catalogue, aliases, present) for reading in catalogue.signals[name].readings)


def _readable(reading: Reading, catalogue: Catalogue, aliases: Aliases, present: Collection[str]) -> bool:
    if reading.of is not None:
        return supplied(reading.of, catalogue, aliases, present)
    parts = [reading, *(term for term in reading.terms.values() if term.default is None)]
    series = [name for part in parts for name in (part.gauge, part.rate, part.increase, part.change) if name]
    series += [f"{reading.quantile}_bucket"] if reading.quantile else []
    series += [f"{reading.mean}_sum"] if reading.mean else []
    series += [reading.info] if reading.info else []
    if not all(any(alias in present for alias in aliases.of(one)) for one in series):
        return False
    signals = [term.signal for term in reading.terms.values() if term.signal and term.default is None]
    return all(supplied(name, catalogue, aliases, present) for name in signals)


def series_of(targets: Iterable[Scraped]) -> set[str]:
    """The names of all series of a recording."""
    layouts = {page.layout.digest: page.layout for target in targets for _, page in target.pages}
    return {series.name for layout in layouts.values() for series in layout.series}


def absent_witnesses(cause: str, present: Collection[str], catalogue: Catalogue, joined: bool = True) -> list[str]:
    """What a cause needs and a recording does not hold: the mechanism signals of its symptoms, and the signals of a
    symptom of which it has none at all. present: names of its series; joined: its labels tell which GPU belongs to
    which engine."""
    recipe = catalogue.recipes.get(cause)
    if recipe is None:
        return []
    aliases = catalogue.aliases

    def gone(name: str) -> bool:
        apart = catalogue.signals[name].level == "gpu" and not joined
        return apart or not supplied(name, catalogue, aliases, present)

    absent = [name for name in mechanism_signals(recipe, support=False) if gone(name)]
    for symptom in recipe.symptoms:
        names = list(symptom.signals)
        absent += names if all(map(gone, names)) else []
    return list(dict.fromkeys(absent))


def impact_shows(cause: str, present: Collection[str], catalogue: Catalogue) -> bool:
    """Whether a recording holds any signal in which a cause's impact shows. Where it holds none, work that is lost is
    no different from less traffic."""
    recipe = catalogue.recipes.get(cause)
    aliases = catalogue.aliases
    names = {name for condition in recipe.harm for name in condition.signals} if recipe else set()
    return any(supplied(name, catalogue, aliases, present) for name in names)
