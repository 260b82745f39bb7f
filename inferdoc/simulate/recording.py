"""A scenario as its recording: the pages under their surroundings, and the truth about every pod."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from inferdoc.simulate.bystanders import bystander_scenario
from inferdoc.simulate.pod_names import Names
from inferdoc.simulate.relabel import ENGINES, Relabelling
from inferdoc.simulate.scenario import Scenario
from inferdoc.simulate.scrape import FleetScraper, Scraped, scrape_all
from inferdoc.simulate.surroundings import Surroundings

HEALTHY_NAMES = ("embedder", "reranker", "guard", "summarizer")
"""What bystanders are called."""


@dataclass(frozen=True)
class RecordedPod:
    """One pod from its first page to its last. bare: its name in the simulation; slot: that of the pod which it, or
    those before it, replaced; shown: the names under which a reader may find it, the pod's before the address; born,
    ended: Unix seconds; bystander: it belongs to another model of the namespace."""

    bare: str
    slot: str
    pool: str
    shown: tuple[str, ...]
    born: float
    ended: float
    bystander: bool = False


@dataclass(frozen=True)
class Recording:
    """targets: what a store would hold; bare: the pages of the fleet itself before lost names and families, for
    measuring what was true; lives: every engine pod."""

    targets: list[Scraped]
    bare: list[Scraped]
    lives: list[RecordedPod]

    def slots(self, pods: tuple[str, ...], onset: float) -> list[RecordedPod]:
        """The lives after the onset (Unix seconds) of the pods that a scenario names."""
        return [life for life in self.lives if life.slot in pods and not life.bystander and life.ended >= onset]


def record(scenario: Scenario, progress: Callable[[float], None] | None = None) -> Recording:
    """Run a scenario with everything that surrounds it. The same scenario gives the same recording."""
    scraper = scrape_all(scenario, progress)
    bare = scraper.targets
    surroundings = scenario.surroundings
    if surroundings is None:
        return Recording(bare, bare, _lives(scraper, None))
    own = _relabelling(scraper, surroundings, 0, surroundings.base)
    targets = [part for target in bare for part in own.target(target)]
    lives = _lives(scraper, own)
    for number, bystander in enumerate(surroundings.bystanders, start=1):
        side = bystander_scenario(bystander, number, scenario)
        other = scrape_all(side)
        assert side.surroundings is not None
        relabelling = _relabelling(other, side.surroundings, number, HEALTHY_NAMES[(number - 1) % len(HEALTHY_NAMES)])
        targets += [part for target in other.targets for part in relabelling.target(target)]
        lives += _lives(other, relabelling, bystander=True)
    return Recording(targets, bare, lives)


def _relabelling(scraper: FleetScraper, surroundings: Surroundings, network: int, base: str) -> Relabelling:
    scenario = scraper.fleet.scenario
    names = Names(surroundings, [pool.name for pool in scenario.pools], base)
    values = names.values(scraper.fleet.pods)
    turn = surroundings.relabelled
    return Relabelling(
        surroundings, values, network, scenario.namespace, base, None if turn is None else scenario.start + turn
    )


def _lives(scraper: FleetScraper, relabelling: Relabelling | None, bystander: bool = False) -> list[RecordedPod]:
    fleet = scraper.fleet
    slots = {new: old for old, new in fleet.successors.items()}

    def slot(name: str) -> str:
        while name in slots:
            name = slots[name]
        return name

    pools = {pod.name: pod.spec.name for pod in fleet.pods}
    lives = []
    for target in scraper.targets:
        if target.labels["job"] == ENGINES:
            bare = target.labels["pod"]
            shown = (bare, target.labels["instance"]) if relabelling is None else relabelling.shown(target)
            born, ended = target.pages[0][0] / 1000, target.pages[-1][0] / 1000
            lives.append(RecordedPod(bare, slot(bare), pools[bare], shown, born, ended, bystander))
    return lives
