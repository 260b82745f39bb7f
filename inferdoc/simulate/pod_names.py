"""Names as Kubernetes gives them: a Deployment renames every pod with every rollout."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np

from inferdoc.simulate.kube_page import replica_set
from inferdoc.simulate.pod import Pod
from inferdoc.simulate.surroundings import Surroundings

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of generated names (apimachinery, pkg/util/rand: no vowels, nothing that looks like another)."""
HASH_LETTERS, POD_LETTERS = 10, 5


def letters(count: int, *seed: object) -> str:
    """A name of so many letters, the same for the same seed."""
    rng = np.random.default_rng([zlib.crc32(str(part).encode()) for part in seed])
    return "".join(ALPHABET[i] for i in rng.integers(len(ALPHABET), size=count))


class Names:
    """What stands on pages for the names of the simulation: of pods, deployments and replica sets. base: in place of
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
        """Every name of the simulation, and what stands for it."""
        listed = list(pods)
        known = dict(self._pools)
        for pod in listed:
            known[pod.name] = self.pod(pod)
            known[replica_set(pod.spec.name, pod.generation)] = self.replica_set(pod.spec.name, pod.generation)
        return known
