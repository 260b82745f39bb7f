"""Where the parts of a store are read: processes here, or an engine that runs already, Ray or Dask.

inferdoc has no scheduler of its own. What is handed out is reading, by groups of targets: the store has to lie on each
machine under the same path.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from typing import Protocol
from urllib.parse import urlsplit

from inferdoc.errors import ConfigError, SourceError
from inferdoc.source.part import Part, parts_of, usable_cores
from inferdoc.source.part_process import PartProcess
from inferdoc.source.part_reader import HandedOver, PartOfStore, PartWorker

ENGINES = ("local", "ray", "dask")
HERE_READS = 1.22
"""What this process reads, as a multiple of what each other one does: they begin later, and hand their answers over."""

REACH_SECONDS = 10.0


class Executor(Protocol):
    """Begins workers. name: for messages; shares: the part that is read here, and those of the workers."""

    name: str

    def shares(self) -> tuple[Part, Sequence[Part]]:
        """The part that is read here, and those of the workers."""

    def begin(self, requested: PartOfStore) -> PartWorker:
        """A worker for one part. Raises PartEndedError."""

    def close(self) -> None:
        """Let go of the engine."""


class LocalProcesses:
    """Processes of this machine, of which this one is one. count: of all, at least 1."""

    name = "local"

    def __init__(self, count: int) -> None:
        self._count = count

    def shares(self) -> tuple[Part, Sequence[Part]]:
        """This process has the most."""
        first = HERE_READS / (HERE_READS + self._count - 1)
        return Part(0.0, first), parts_of(first, self._count - 1)

    def begin(self, requested: HandedOver) -> PartWorker:
        """A process for one part."""
        return PartProcess(requested)

    @property
    def others(self) -> int:
        """How many there are beside this one."""
        return self._count - 1

    def close(self) -> None:
        """Each process is ended by its worker."""


def executor_of(engine: str, workers: int | None, address: str | None) -> Executor:
    """What `--engine` names. workers: how many, by default what the machine or the cluster has; address: of a cluster
    that runs, else one is started here. Raises ConfigError, InferdocError where a package is missing."""
    if workers is not None and workers < 1:
        raise ConfigError(f"{workers} workers: at least 1 is needed")
    if engine == "local":
        if address is not None:
            raise ConfigError("an address belongs to the engines ray and dask; local processes have none")
        return LocalProcesses(usable_cores() if workers is None else workers)
    if address is not None and engine in ENGINES:
        reach(address)
    if engine == "ray":
        from inferdoc.source.cluster_actors import RayActors

        return RayActors(workers, address)
    if engine == "dask":
        from inferdoc.source.cluster_actors import DaskActors

        return DaskActors(workers, address)
    raise ConfigError(f"engine {engine}: one of {', '.join(ENGINES)} is expected")


def reach(address: str) -> None:
    """Raises SourceError where nobody answers at an address with a host and a port: engines try for minutes."""
    at = urlsplit(address if "://" in address else f"//{address}")
    with contextlib.suppress(ValueError):
        if at.hostname is None or at.port is None:
            return
        try:
            socket.create_connection((at.hostname, at.port), REACH_SECONDS).close()
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise SourceError(f"cannot reach {address}: {why}; check --address, and that the cluster runs") from error
