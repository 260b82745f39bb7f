"""Opens a source: the embedded store or a Prometheus-compatible server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from inferdoc.errors import ConfigError

if TYPE_CHECKING:
    from inferdoc.source.identified import Identified
    from inferdoc.source.parallel_store import ParallelStore
    from inferdoc.source.prometheus import PrometheusSource

DEFAULT_TIMEOUT_SECONDS = 60.0
STORE_TIMEOUT_SECONDS = 600.0
DEFAULT_PARALLEL = 6


def open_source(
    store: str | Path | None = None,
    prometheus: str | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    bearer_token_file: str | Path | None = None,
    username: str | None = None,
    password_file: str | Path | None = None,
    ca_file: str | Path | None = None,
    cert_file: str | Path | None = None,
    key_file: str | Path | None = None,
    insecure: bool = False,
    timeout: float | None = None,
    parallel: int = DEFAULT_PARALLEL,
    catalogue: Iterable[str | Path] = (),
    labels: Mapping[str, str] | None = None,
    engine: str | None = None,
    workers: int | None = None,
    address: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Identified:
    """Open what signals are read from.

    store: path of an embedded store, or prometheus: address of any server with the Prometheus HTTP API (a tenant or
    proxy path is part of it). headers: sent with every request (a tenant id such as X-Scope-OrgID); bearer_token_file,
    or username and password_file (else the environment's INFERDOC_PROMETHEUS_PASSWORD): credentials; ca_file: who may
    sign the server's certificate; cert_file, key_file: our own; insecure: do not check the server's certificate.
    timeout: seconds that one operation may take with all its queries and retries, by default 60 of a server and 600 of
    a store; parallel: queries under way at once; with 1 a large store is read by one process, else by two;
    catalogue: overlay folders for `read`; labels: your own label for `cluster`, `namespace`, `pod`, `node`, `instance`
    or `replica`, tried before those that are declared. engine: "local", "ray" or "dask": a store is read by so many
    workers of it, by default all it has, at the address of a running cluster, else started here; progress: called with
    how many of them have answered, and of how many.

    Returns a `Source` with `read(signals, start, end, step)`. A store is opened at once; a server is first queried when
    something is read. Raises ConfigError for impossible settings, SourceError where the store cannot be opened.
    """
    if (store is None) == (prometheus is None):
        raise ConfigError("open_source needs one of store=PATH and prometheus=URL")
    overlays = tuple(str(folder) for folder in catalogue)
    seconds = (STORE_TIMEOUT_SECONDS if prometheus is None else DEFAULT_TIMEOUT_SECONDS) if timeout is None else timeout
    if engine is not None and prometheus is not None:
        raise ConfigError(f"--engine {engine} reads an embedded store; a server gets several queries at once")
    if engine is None and (workers is not None or address is not None):
        raise ConfigError("--workers and --address say where --engine local, ray or dask reads: give it too")
    if seconds <= 0 or parallel < 1:
        raise ConfigError(f"timeout {seconds:g} s and {parallel} parallel queries: both must be above 0")
    from inferdoc.catalogue.names import load_identity, load_name_forms

    identity, forms = load_identity(overlays), load_name_forms(overlays)
    source: ParallelStore | PrometheusSource
    if store is not None:
        from inferdoc.source.executors import executor_of
        from inferdoc.source.parallel_store import ParallelStore

        executor = None if engine is None else executor_of(engine, workers, address)
        source = ParallelStore(store, timeout=seconds, executor=executor, alone=parallel == 1, progress=progress)
    else:
        from inferdoc.source.prometheus import PrometheusSource
        from inferdoc.source.prometheus_access import Access

        access = Access(
            prometheus or "",
            headers=headers or {},
            bearer_token_file=_path(bearer_token_file),
            username=username,
            password_file=_path(password_file),
            ca_file=_path(ca_file),
            cert_file=_path(cert_file),
            key_file=_path(key_file),
            insecure=insecure,
        )
        markers = [form for name in identity.markers for form in forms.spelled(name)]
        source = PrometheusSource(
            access, timeout=seconds, parallel=parallel, request_timeout=min(30.0, seconds), markers=markers
        )
    from inferdoc.source.identified import Identified

    identified = Identified(source, identity, labels)
    identified.catalogue = overlays
    return identified


def _path(value: str | Path | None) -> Path | None:
    return None if value is None else Path(value)
