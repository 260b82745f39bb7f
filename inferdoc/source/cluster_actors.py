"""Parts of a store, read by actors of a Dask or Ray cluster."""

from __future__ import annotations

import os
import pickle
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from inferdoc.errors import InferdocError, SourceError
from inferdoc.extras import needed
from inferdoc.source.part import Part, parts_of, usable_cores
from inferdoc.source.part_reader import PartAnswer, PartEndedError, PartOfStore, PartReader, PartWorker

START_SECONDS = 60.0
"""A cluster that begins no actor within this time is taken for lost, or for full."""
GRACE_SECONDS = 1.0
"""So much longer is waited for what Dask says itself when that time is up."""
SILENT = 50
"""A level of `logging` above all: what a cluster has to say about a lost worker is reported by us, in one line."""


class _Actors:
    """A cluster. _workers: how many actors read the store."""

    _workers: int

    def shares(self) -> tuple[Part, Sequence[Part]]:
        """The actors read all."""
        return Part(0.0, 0.0), parts_of(0.0, self._workers)


class _Actor:
    """Answers calls in order. _requested: the calls that are not answered yet; _timeout: seconds to wait for one."""

    _requested: deque[Any]
    _timeout: float

    def answer(self) -> PartAnswer:
        answer: PartAnswer = pickle.loads(self._got(self._requested.popleft(), self._timeout))
        return answer

    def _got(self, requested: Any, seconds: float) -> Any:
        """The result of a call. Raises PartEndedError."""
        raise NotImplementedError


class DaskActors(_Actors):
    """A Dask cluster: at the address of its scheduler, or started here and ended with this process. workers: how many
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

    def begin(self, requested: PartOfStore) -> PartWorker:
        """An actor for one part."""
        return _DaskActor(self._client, requested)

    def close(self) -> None:
        """Leave the cluster, and end it where it was started here."""
        self._close()


class _DaskActor(_Actor):
    def __init__(self, client: Any, requested: PartOfStore) -> None:
        self._client, self._timeout = client, requested.timeout + START_SECONDS
        self._requested: deque[Any] = deque()
        self._future = client.submit(PartReader, requested, actor=True, pure=False)
        self.close = weakref.finalize(self, self._future.release)
        self._actor = self._got(self._future, START_SECONDS)

    def ask(self, method: str, *args: Any) -> None:
        try:
            with self._client.as_current():  # an actor looks for its client there
                self._requested.append(self._actor.call_pickled(method, args))
        except (OSError, ValueError, RuntimeError) as error:
            raise PartEndedError(f"a Dask actor ended ({_one_line(error)})") from error

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


class RayActors(_Actors):
    """A Ray cluster: at an address, or started here and ended by this process. workers: actors, by default one
    for each CPU."""

    name = "ray"

    def __init__(self, workers: int | None, address: str | None) -> None:
        """Raises InferdocError without ray, SourceError where the cluster cannot be reached or has another version."""
        with needed("ray", "--engine ray"):
            self._ray: Any = import_module("ray")
        started = not self._ray.is_initialized()
        if started:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anybody
            quiet = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
            own = {"num_cpus": workers or usable_cores(), "include_dashboard": False} if address is None else {}
            try:
                self._ray.init(address=address or "local", **quiet, **own)
            except Exception as error:  # whatever its transport does: ConnectionError, RuntimeError, ValueError
                raise SourceError(
                    f"cannot use the Ray cluster {address or 'here'}: {_one_line(_cause(error))}"
                ) from error
        self._workers = workers or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._close = weakref.finalize(self, self._ray.shutdown) if started else None

    def begin(self, requested: PartOfStore) -> PartWorker:
        """An actor for one part."""
        return _RayActor(self._ray, requested)

    def close(self) -> None:
        """Leave the cluster, and end it where it was started here."""
        if self._close is not None:
            self._close()


class _RayActor(_Actor):
    def __init__(self, ray: Any, requested: PartOfStore) -> None:
        self._ray, self._timeout = ray, requested.timeout + START_SECONDS
        self._actor = ray.remote(PartReader).options(num_cpus=1, max_restarts=0).remote(requested)
        self._requested: deque[Any] = deque()
        self.close = weakref.finalize(self, _kill, ray, self._actor)
        self._got(self._actor.__ray_ready__.remote(), START_SECONDS)

    def ask(self, method: str, *args: Any) -> None:
        self._requested.append(self._actor.call_pickled.remote(method, args))

    def _got(self, reference: Any, seconds: float) -> Any:
        try:
            return self._ray.get(reference, timeout=seconds)
        except self._ray.exceptions.GetTimeoutError as error:
            raise PartEndedError(f"a Ray actor did not answer within {seconds:g} s") from error
        except (self._ray.exceptions.RayError, InferdocError) as error:
            raise PartEndedError(f"a Ray actor ended ({_one_line(_cause(error))})") from error


def _kill(ray: Any, actor: Any) -> None:
    if ray.is_initialized():
        ray.kill(actor)


def _cause(error: Exception) -> Exception:
    """What Ray wraps in an error of its own."""
    return getattr(error, "cause", None) or error.__cause__ or error  # type: ignore[return-value]


def _one_line(error: Exception) -> str:
    text = str(error).partition("Traceback")[0]
    return " ".join((text or type(error).__name__).split())[:200]
