"""What faults, containers and autoscalers may do to a fleet: its handle, so that the fleet can own them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from inferdoc.simulate.gateway import Gateway
from inferdoc.simulate.pod import Pod
from inferdoc.simulate.request import EngineRequest
from inferdoc.simulate.router import Router
from inferdoc.simulate.scenario import FaultSpec, Scenario
from inferdoc.simulate.workload import Traffic


class Scaler(Protocol):
    """An autoscaler whose settings a fault may change."""

    def change(self, fault: FaultSpec | None) -> None:
        """Other settings from now on; None: the initial ones."""


class FleetHandle(Protocol):
    """now: s of the simulation; hot_pods: those whose clocks follow from heat; late_share, late_by: share of the
    handovers that come so many seconds late."""

    scenario: Scenario
    now: float
    pods: list[Pod]
    router: Router
    gateway: Gateway
    traffic: list[Traffic]
    hot_pods: list[Pod]
    late_share: float
    late_by: float

    @property
    def scalers(self) -> Sequence[Scaler]:
        """The autoscalers of its pools."""

    def pod(self, name: str) -> Pod:
        """The pod of this name."""

    def add_pod(self, pool: str, ready: bool = True) -> Pod:
        """One more pod of a pool."""

    def renew(self, pool: str, generation: int, flags: dict[str, Any], version: str | None) -> None:
        """Pods of a pool that are added from now on belong to another generation, with these settings changed."""

    def replace(self, old: Pod, new: Pod) -> None:
        """The name of the old pod means the new one from now on."""

    def lose(self, requests: list[EngineRequest], now: float) -> None:
        """Requests that went down with their process."""

    def take_out(self, pod: Pod, when: float) -> None:
        """The router notices at `when` that the pod is dead."""

    def stop(self, pod: Pod, now: float, shutdown: float) -> None:
        """A planned end."""

    def stop_when_idle(self, pod: Pod, for_good: bool) -> None:
        """A drained pod stops once it has nothing left to do."""
