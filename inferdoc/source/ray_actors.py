"""Parts of a store, read by actors of a Ray cluster."""

from __future__ import annotations

import os
import pickle
import weakref
from collections import deque
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from inferdoc.errors import InferdocError, SourceError
from inferdoc.extras import needed
from inferdoc.source.executors import parts_of, usable_cores
from inferdoc.source.part import Part
from inferdoc.source.part_reader import PartAnswer, PartEndedError, PartOfStore, PartReader, PartWorker

START_SECONDS = 60.0
"""A cluster that has no room for an actor within this time is taken for full."""


class RayActors:
    """A Ray cluster: at an address, or begun here and ended with this process. workers: how many actors, by default one
    for each CPU."""

    name = "ray"

    def __init__(self, workers: int | None, address: str | None) -> None:
        """Raises InferdocError without ray, SourceError where the cluster cannot be reached or has another version."""
        with needed("ray", "--engine ray"):
            self._ray: Any = import_module("ray")
        began = not self._ray.is_initialized()
        if began:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anybody
            quiet = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
            own = {"num_cpus": workers or usable_cores(), "include_dashboard": False} if address is None else {}
            try:
                self._ray.init(address=address or "local", **quiet, **own)
            except Exception as error:  # whatever its transport does: ConnectionError, RuntimeError, ValueError
                raise SourceError(f"cannot use the Ray cluster {address or 'here'}: {_one_line(error)}") from error
        self._workers = workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._close = weakref.finalize(self, self._ray.shutdown) if began else None

    def shares(self) -> tuple[Part, Sequence[Part]]:
        """The actors read all."""
        return Part(0.0, 0.0), parts_of(0.0, self._workers)

    def begin(self, asked: PartOfStore) -> PartWorker:
        """An actor for one part."""
        return _RayActor(self._ray, asked)

    def close(self) -> None:
        """Leave the cluster, and end it where it was begun here."""
        if self._close is not None:
            self._close()


class _RayActor:
    def __init__(self, ray: Any, asked: PartOfStore) -> None:
        self._ray, self._timeout = ray, asked.timeout + START_SECONDS
        self._actor = ray.remote(PartReader).options(num_cpus=1, max_restarts=0).remote(asked)
        self._asked: deque[Any] = deque()
        self.close = weakref.finalize(self, _kill, ray, self._actor)
        self._got(self._actor.__ray_ready__.remote(), START_SECONDS)

    def ask(self, method: str, *args: Any) -> None:
        self._asked.append(self._actor.call_pickled.remote(method, args))

    def answer(self) -> PartAnswer:
        answer: PartAnswer = pickle.loads(self._got(self._asked.popleft(), self._timeout))
        return answer

    def _got(self, reference: Any, seconds: float) -> Any:
        try:
            return self._ray.get(reference, timeout=seconds)
        except self._ray.exceptions.GetTimeoutError as error:
            raise PartEndedError(f"a Ray actor did not answer within {seconds:g} s") from error
        except (self._ray.exceptions.RayError, InferdocError) as error:
            raise PartEndedError(f"a Ray actor ended ({_one_line(error)})") from error


def _kill(ray: Any, actor: Any) -> None:
    if ray.is_initialized():
        ray.kill(actor)


def _one_line(error: Exception) -> str:
    cause = getattr(error, "cause", None) or error.__cause__ or error
    return " ".join(str(cause).partition("Traceback")[0].split())[:200]
