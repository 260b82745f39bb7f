"""What an incident may do to a fleet, by name: coroutines of the stage and of the deed with its values."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.real_vllm.fleet.members import Members
from benchmarks.real_vllm.fleet.traffic import Router


@dataclass(frozen=True)
class Deed:
    """at: second of the recording; do: a name of DEEDS; pods: positions among the living, all where empty."""

    at: float
    do: str
    pods: tuple[int, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Stage:
    """What deeds act on. flags: those that the fleet began with."""

    members: Members
    router: Router
    flags: Sequence[str]


async def turn(stage: Stage, deed: Deed) -> None:
    """Set knobs of accelerators."""
    for pod in _chosen(stage, deed):
        pod.turn(**deed.values)


async def kill(stage: Stage, deed: Deed) -> None:
    """End the processes at once; the pod stays a target, and nobody starts it again."""
    for pod in _chosen(stage, deed):
        pod.send(signal.SIGKILL)


async def freeze(stage: Stage, deed: Deed) -> None:
    """The engine core stands still; the API server lives on."""
    for pod in _chosen(stage, deed):
        pod.send(signal.SIGSTOP, "engine")


async def crash_loop(stage: Stage, deed: Deed) -> None:
    """The pod ends, is started again under the same name, serves for a while, and ends again."""
    (pod,) = _chosen(stage, deed)
    for _ in range(deed.values["times"]):
        await asyncio.to_thread(pod.kill)
        await asyncio.sleep(deed.values["back_off"])
        await pod.serve()
        await asyncio.sleep(deed.values["serves"])


async def throttle(stage: Stage, deed: Deed) -> None:
    """As under a CPU quota: in every period, a part of the pod (all, front) runs only for its share. The
    accelerator does not share the quota: a step under way goes on."""
    chosen = _chosen(stage, deed)
    period, share, part = deed.values["period"], deed.values["share"], deed.values["part"]
    try:
        while True:
            await asyncio.sleep(period * share)
            for pod in chosen:
                pod.send(signal.SIGSTOP, part)
            await asyncio.sleep(period * (1 - share))
            for pod in chosen:
                pod.send(signal.SIGCONT, part)
    finally:
        for pod in chosen:
            pod.send(signal.SIGCONT, part)


async def rollout(stage: Stage, deed: Deed) -> None:
    """Pods of a new release, with other flags and knobs where given, replace the old ones one by one."""
    flags = deed.values.get("flags", stage.flags)
    stage.members.new_release()
    for old in list(stage.members.pods):
        await stage.members.add(flags, deed.values.get("knobs"))
        await stage.members.remove(old)


async def scale_out(stage: Stage, deed: Deed) -> None:
    """More pods of the same release, at once."""
    await asyncio.gather(*(stage.members.add(stage.flags) for _ in range(deed.values["pods"])))


async def scale_in(stage: Stage, deed: Deed) -> None:
    """The youngest pods go."""
    for pod in stage.members.pods[-deed.values["pods"] :]:
        await stage.members.remove(pod, drain=deed.values["drain"])


async def route(stage: Stage, deed: Deed) -> None:
    """Another policy of the router."""
    stage.router.policy = deed.values["policy"]


def _chosen(stage: Stage, deed: Deed) -> list[Any]:
    pods = stage.members.pods
    return [pods[number] for number in deed.pods] if deed.pods else list(pods)


DEEDS: dict[str, Callable[[Stage, Deed], Awaitable[None]]] = {
    "turn": turn,
    "kill": kill,
    "freeze": freeze,
    "crash-loop": crash_loop,
    "throttle": throttle,
    "rollout": rollout,
    "scale-out": scale_out,
    "scale-in": scale_in,
    "route": route,
}
