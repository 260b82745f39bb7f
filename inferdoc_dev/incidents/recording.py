"""Write a scenario as a recording: metrics, surroundings and the truth about every pod."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec
import numpy as np

from inferdoc.simulate.autoscaler import sustainable
from inferdoc.simulate.exporter_pages import replica_set
from inferdoc.simulate.pod import Pod
from inferdoc.simulate.scenario import Expect, Exporters, FaultSpec, Length, PoolSpec, RouterSpec, Scenario, Stream
from inferdoc.simulate.scrape import FleetScraper, Scraped, scrape_all
from inferdoc.simulate.surroundings import Bystander, Surroundings
from inferdoc_dev.incidents.relabel import ENGINES, Relabelling

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of generated names (apimachinery, pkg/util/rand: no vowels, no similar characters)."""
HASH_LETTERS, POD_LETTERS = 10, 5


def letters(count: int, *seed: object) -> str:
    """A name of so many letters, the same for the same seed."""
    rng = np.random.default_rng([zlib.crc32(str(part).encode()) for part in seed])
    return "".join(ALPHABET[i] for i in rng.integers(len(ALPHABET), size=count))


class Names:
    """Exposed names for the names of the simulation: of pods, deployments and replica sets. base: in place of
    the first part of each pool's name."""

    def __init__(self, surroundings: Surroundings, pools: Iterable[str], base: str) -> None:
        self._seed = surroundings.seed
        self._deployed = surroundings.naming == "deployment"
        first, *rest = list(pools)
        common = first.split("-")[0]
        self._pools = {}
        for number, pool in enumerate((first, *rest)):
            ending = pool.removeprefix(common) if pool.startswith(common) else f"-{pool}"
            if not surroundings.roles_named and ending in ("-prefill", "-decode"):
                ending = f"-{'ab'[number % 2]}"
            self._pools[pool] = base + ending

    def pool(self, pool: str) -> str:
        """The deployment of a pool."""
        return self._pools[pool]

    def replica_set(self, pool: str, generation: int) -> str:
        """The replica set of one generation of a pool."""
        return f"{self._pools[pool]}-{letters(HASH_LETTERS, self._seed, pool, generation)}"

    def pod(self, pod: Pod) -> str:
        """The name of a pod."""
        pool = pod.spec.name
        if not self._deployed:
            return self._pools[pool] + pod.name.removeprefix(pool)
        return f"{self.replica_set(pool, pod.generation)}-{letters(POD_LETTERS, self._seed, pod.name)}"

    def values(self, pods: Iterable[Pod]) -> dict[str, str]:
        """Every name of the simulation, and its replacement."""
        listed = list(pods)
        shown = dict(self._pools)
        for pod in listed:
            shown[pod.name] = self.pod(pod)
            shown[replica_set(pod.spec.name, pod.generation)] = self.replica_set(pod.spec.name, pod.generation)
        return shown


PROMPTS, ANSWERS = Length(400, 0.5, max=4000), Length(120, 0.5, max=800)
MOST_RATE = 0.3
"""Requests/s of one bystander pod: it has to be there, not to be busy (the simulation grows with requests)."""


def bystander_scenario(bystander: Bystander, number: int, host: Scenario) -> Scenario:
    """The scenario of a bystander. number: which of the namespace, from 1; host: whose time, scrapes and surroundings
    it shares."""
    surroundings = host.surroundings
    assert surroundings is not None
    pool = PoolSpec(
        f"side{number}", bystander.pods, bystander.tier, bystander.model, bystander.gpus, version=host.pools[0].version
    )
    stream = Stream(PROMPTS, ANSWERS)
    rate = min(bystander.load * sustainable([pool], stream), MOST_RATE * bystander.pods)
    own = msgspec.structs.replace(
        surroundings, bystanders=(), withheld=(), seed=surroundings.seed + 101 * number, relabelled=None
    )
    return Scenario(
        f"{host.id}-side{number}",
        "a healthy model in the same namespace",
        Expect(None),
        (pool,),
        (msgspec.structs.replace(stream, rate=rate),),
        _innocent(bystander, pool),
        RouterSpec("least-loaded", version=host.router.version),
        Exporters(host.exporters.dcgm, host.exporters.dcgm_profiling, bystander.router, host.exporters.cadvisor),
        host.duration,
        host.warmup,
        host.scrape,
        host.seed + 1000 * number,
        host.start,
        host.namespace,
        own,
    )


def _innocent(bystander: Bystander, pool: PoolSpec) -> tuple[FaultSpec, ...]:
    """What happens to it, and has no impact."""
    if bystander.happens == "rollout":
        return (FaultSpec("rollout", bystander.at, after=60.0, seconds=120.0, surge=0.5),)
    if bystander.happens == "grow":
        return (FaultSpec("grow", bystander.at, pods=(f"{pool.name}-0",), after=60.0),)
    if bystander.happens == "burst":
        return (FaultSpec("traffic", bystander.at, until=bystander.at + 60.0, rate=1.6),)
    return ()


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
