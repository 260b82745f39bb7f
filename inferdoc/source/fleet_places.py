"""Where the targets of a fleet belong, so that whole families of pods are read beside others, or after them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from inferdoc.source.identity import Key
from inferdoc.store.extent import StoredTarget


@dataclass(frozen=True)
class PartOfFleet:
    """Pods of whole families."""

    keys: frozenset[Key]


@dataclass
class FleetPlaces:
    """families: pods by cluster, namespace and model; hosts: by host, the pods that exporters there speak of; targets:
    each with the pod that it is and its host."""

    families: dict[tuple[str, str, str], set[Key]] = field(default_factory=dict)
    hosts: dict[str, set[Key]] = field(default_factory=dict)
    targets: Sequence[tuple[StoredTarget, Key, str]] = ()

    @classmethod
    def of(
        cls,
        families: dict[tuple[str, str, str], set[Key]],
        hosts: dict[str, set[Key]],
        targets: Sequence[Mapping[str, str]],
        key_of: Callable[[Mapping[str, str]], Key],
    ) -> FleetPlaces:
        """targets: their labels; key_of: the pod that a target is."""
        placed = [(StoredTarget(each), key_of(each), host_of(each.get("instance", ""))) for each in targets]
        return cls(families, hosts, placed)

    def parts(self, most: int) -> list[PartOfFleet]:
        """Whole families, so many together that they have about `most` targets."""
        everyone = self._everyone
        parts = list[set[Key]]()
        for family in sorted(self.families):
            keys = self.families[family]
            if not parts or (len(parts[-1]) + len(keys)) * (len(everyone) + len(self.hosts)) > most * len(everyone):
                parts.append(set())
            parts[-1] |= keys
        return [PartOfFleet(frozenset(own)) for own in parts]

    def divided(self, part: PartOfFleet) -> tuple[list[StoredTarget], list[StoredTarget]]:
        """The targets that are not of a part, and those that are. What is of no family, such as a router, is of each
        part with a family in its namespace, and of all parts where no family is in its namespace."""
        own, everyone = part.keys, self._everyone
        hosts = {host for host, keys in self.hosts.items() if not keys & own}
        elsewhere = {key[:2] for key in everyone} - {key[:2] for key in own}
        left, kept = list[StoredTarget](), list[StoredTarget]()
        for each, key, host in self.targets:
            is_left = key not in own if key in everyone else key[:2] in elsewhere
            (left if is_left or host in hosts else kept).append(each)
        return left, kept

    @property
    def _everyone(self) -> set[Key]:
        return set[Key]().union(*self.families.values())


def host_of(instance: str) -> str:
    """The host of an address."""
    return instance.rpartition(":")[0] or instance
