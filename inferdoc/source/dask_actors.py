"""Parts of a store, read by actors of a Dask cluster."""

from __future__ import annotations

import pickle
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from inferdoc.errors import SourceError
from inferdoc.extras import needed
from inferdoc.source.executors import parts_of, usable_cores
from inferdoc.source.part import Part
from inferdoc.source.part_reader import PartAnswer, PartEndedError, PartOfStore, PartReader, PartWorker

START_SECONDS = 60.0
"""A cluster whose workers take no actor within this time is taken for lost."""
GRACE_SECONDS = 1.0
"""So much longer is waited for what Dask says itself when that time is up."""
SILENT = 50
"""A level of `logging` above all: what a cluster has to say about a lost worker is said by us, in one line."""


class DaskActors:
    """A Dask cluster: at the address of its scheduler, or begun here and ended with this process. workers: how many
    actors, by default one for each worker of the cluster."""

    name = "dask"

    def __init__(self, workers: int | None, address: str | None) -> None:
        """Raises InferdocError without distributed, SourceError where the cluster cannot be reached."""
        with needed("distributed", "--engine dask"):
            distributed: Any = import_module("distributed")
        cluster = None
        try:
            if address is None:
                cluster = distributed.LocalCluster(
                    n_workers=workers or usable_cores(),
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=None,
                    silence_logs=SILENT,
                )
            client = _client_of(distributed, cluster or address)
        except (OSError, ValueError, RuntimeError, TimeoutError) as error:
            raise SourceError(f"cannot use the Dask cluster {address or 'here'}: {_one_line(error)}") from error
        self._client = client
        self._workers = workers or max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
        self._close = weakref.finalize(self, _leave, client, cluster)

    def shares(self) -> tuple[Part, Sequence[Part]]:
        """The actors read all."""
        return Part(0.0, 0.0), parts_of(0.0, self._workers)

    def begin(self, asked: PartOfStore) -> PartWorker:
        """An actor for one part."""
        return _DaskActor(self._client, asked)

    def close(self) -> None:
        """Leave the cluster, and end it where it was begun here."""
        self._close()


class _DaskActor:
    def __init__(self, client: Any, asked: PartOfStore) -> None:
        self._client, self._timeout = client, asked.timeout + START_SECONDS
        self._asked: deque[Any] = deque()
        self._future = client.submit(PartReader, asked, actor=True, pure=False)
        self.close = weakref.finalize(self, self._future.release)
        self._actor = self._got(self._future, START_SECONDS)

    def ask(self, method: str, *args: Any) -> None:
        try:
            with self._client.as_current():  # an actor looks for its client there
                self._asked.append(self._actor.call_pickled(method, args))
        except (OSError, ValueError, RuntimeError) as error:
            raise PartEndedError(f"a Dask actor ended ({_one_line(error)})") from error

    def answer(self) -> PartAnswer:
        answer: PartAnswer = pickle.loads(self._got(self._asked.popleft(), self._timeout))
        return answer

    def _got(self, future: Any, seconds: float) -> Any:
        try:
            return future.result(timeout=seconds)
        except TimeoutError as error:
            raise PartEndedError(f"a Dask actor did not answer within {seconds:g} s") from error
        except Exception as error:  # what the actor raised, or whatever the transport does
            raise PartEndedError(f"a Dask actor ended ({_one_line(error)})") from error


def _client_of(distributed: Any, cluster: Any) -> Any:
    """A client of a cluster or of an address. Dask's own time limit ends with the connection: who takes it and says
    nothing is waited for without an end, so another thread waits. Raises TimeoutError, and what Dask raises."""
    done: deque[Any] = deque()

    def connect() -> None:
        try:
            done.append((distributed.Client(cluster, timeout=START_SECONDS, set_as_default=False), None))
        except Exception as error:  # raised again by the thread that waits
            done.append((None, error))

    thread = threading.Thread(target=connect, name="dask-client", daemon=True)
    thread.start()
    thread.join(START_SECONDS + GRACE_SECONDS)
    if not done:
        raise TimeoutError(
            f"somebody listens there and did not answer as a Dask scheduler within {START_SECONDS:g} s; check --address"
        )
    client, error = done.pop()
    if error is not None:
        raise error
    return client


def _leave(client: Any, cluster: Any) -> None:
    client.close()
    if cluster is not None:
        cluster.close()


def _one_line(error: Exception) -> str:
    return " ".join(str(error or type(error).__name__).split())[:200]
