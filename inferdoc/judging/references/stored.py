"""Baselines on disk: what a fleet showed while it was well, to hold a window against that has no history.

A file is three parts: a line that names the format, one line of JSON (span, pools, release; a listing reads no more),
and the values, packed. It is written beside its place and moved there, so that no reader meets half a file.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from inferdoc.errors import NOT_JSON, InferdocError
from inferdoc.fleet.members import Member, Pool
from inferdoc.judging.clock import Clock
from inferdoc.replacing import PRIVATE, replaced
from inferdoc.source.frame import Earlier, Entity, SignalFrame, SignalMatrix
from inferdoc.source.reads import Grid

FORMAT = b"inferdoc.baseline/v1"
SUFFIX = ".baseline"
DEFAULT_NAME = "default"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
LONGEST_HEADER = 4 << 20
LARGEST = 256 << 20
"""Bytes of values that a file may unpack to: 512 pods take a quarter of it."""
FLOAT = np.dtype("<f8")


class StoredPool(msgspec.Struct, frozen=True):
    """A pool of the time range, and the names of its pods."""

    cluster: str
    namespace: str
    model: str
    role: str
    tier: str
    pods: tuple[str, ...]

    @property
    def pool(self) -> Pool:
        """As the fleet layer has it."""
        return Pool(self.cluster, self.namespace, self.model, self.role, self.tier)


class Header(msgspec.Struct, frozen=True):
    """What a listing shows. Times in milliseconds; step_ms: of the stored steps; interval_ms: between scrapes; rate_ms:
    the rate window; older_than: the vLLM release that the engines were older than, None where they were not; source:
    where it was read; crc: of the packed values."""

    inferdoc_version: str
    source: str
    start_ms: int
    step_ms: int
    count: int
    interval_ms: int
    rate_ms: int
    gauge_ms: int
    older_than: str | None
    pools: tuple[StoredPool, ...]
    crc: int = 0

    @property
    def grid(self) -> Grid:
        """The stored steps."""
        return Grid(self.start_ms, self.step_ms, self.count, self.interval_ms, self.rate_ms, self.gauge_ms)


class _Rows(msgspec.Struct, array_like=True):
    """A signal: labels of its entities, and float64[entities, steps] as bytes."""

    entities: list[tuple[tuple[str, str], ...]]
    values: bytes
    counts: bytes | None = None


@dataclass(frozen=True)
class StoredBaseline:
    """A baseline with its values. name: as it was requested; signals: float64[entities, header.count] each."""

    name: str
    header: Header
    signals: dict[str, SignalMatrix]


def place(folder: Path, name: str) -> Path:
    """The file of a baseline: by its name in the folder, or by its path (anything with a slash)."""
    if "/" in name or os.sep in name:
        return Path(name)
    if not NAME.fullmatch(name):
        raise InferdocError(f"{name!r} is no name of a baseline: letters, digits, '.', '_' and '-' (a path has a /)")
    return folder / f"{name}{SUFFIX}"


def stored_names(folder: Path) -> list[str]:
    """The baselines of a folder: the default one first, then by name."""
    try:
        names = [path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}") if path.is_file()]
    except OSError:
        return []
    return sorted(names, key=lambda name: (name != DEFAULT_NAME, name))


def write(path: Path, header: Header, signals: dict[str, SignalMatrix]) -> None:
    """Write a baseline in one move. Raises InferdocError where the place cannot be written."""
    packed = {name: _Rows([e.labels for e in m.entities], _bytes(m.values), _counts(m)) for name, m in signals.items()}
    body = zlib.compress(msgspec.msgpack.encode(packed))
    described = msgspec.json.encode(msgspec.structs.replace(header, crc=zlib.crc32(body)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(path, PRIVATE) as file:
            file.write(b"\n".join((FORMAT, described, body)))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InferdocError(f"{path}: the baseline cannot be written: {error.strerror}") from None


def read_header(path: Path) -> Header:
    """The description of a baseline alone. Raises InferdocError: one line."""
    return _parts(path, whole=False)[0]


def read(path: Path, name: str) -> StoredBaseline:
    """A baseline with its values. Raises InferdocError where the file is damaged: one line."""
    header, body = _parts(path, whole=True)
    if zlib.crc32(body) != header.crc:
        raise _damaged(path, "its values do not match their checksum")
    unpack = zlib.decompressobj()
    try:
        packed = msgspec.msgpack.decode(unpack.decompress(body, LARGEST), type=dict[str, _Rows])
        signals = {signal: _matrix(rows, header.count) for signal, rows in packed.items()}
    except (zlib.error, *NOT_JSON) as error:
        raise _damaged(path, str(error)) from None
    return StoredBaseline(name, header, signals)


def named(folder: Path, name: str) -> StoredBaseline:
    """A baseline of the folder by its name, or by its path. Raises InferdocError where there is none."""
    path = place(folder, name)
    if not path.is_file():
        raise InferdocError(f"{path}: no such baseline; {which_stored(folder)}")
    return read(path, name)


def mismatch(name: str, header: Header, pools: Iterable[Pool], older_than: str | None) -> str | None:
    """Why a baseline is not one for these pools of this release; None where it is."""
    for pool in sorted(pools, key=repr):
        similar = [stored.pool for stored in header.pools]
        for part in ("cluster", "namespace", "model", "role", "tier"):
            needed = getattr(pool, part)
            kept = [other for other in similar if getattr(other, part) == needed]
            if not kept:
                stored_values = ", ".join(sorted({getattr(other, part) or "-" for other in similar}))
                return f"stored baseline {name} is of {part} {stored_values}, not {needed or '-'}"
            similar = kept
    if older_than != header.older_than:
        return f"stored baseline {name} is of {_release(header.older_than)}, not {_release(older_than)}"
    return None


def _release(older_than: str | None) -> str:
    return "vLLM of a newer release" if older_than is None else f"vLLM before {older_than}"


def which_stored(folder: Path) -> str:
    """The names of the baselines of a folder, for the end of an error."""
    names = stored_names(folder)
    return f"there are {', '.join(names)}" if names else "none is stored (inferdoc baseline save)"


def _parts(path: Path, whole: bool) -> tuple[Header, bytes]:
    try:
        with path.open("rb") as file:
            first, line = file.readline(len(FORMAT) + 1), file.readline(LONGEST_HEADER)
            body = file.read() if whole else b""
    except OSError as error:
        raise InferdocError(f"{path}: the baseline cannot be read: {error.strerror}") from None
    if first.rstrip(b"\n") != FORMAT:
        raise _damaged(path, f"it does not begin with {FORMAT.decode()}")
    try:
        header = msgspec.json.decode(line, type=Header)
    except NOT_JSON as error:
        raise _damaged(path, str(error)) from None
    if header.count < 1 or header.step_ms < 1:
        raise _damaged(path, "it has no steps")
    return header, body


def _damaged(path: Path, why: str) -> InferdocError:
    return InferdocError(f"{path}: not a baseline that this version reads ({why}); save it again")


def _bytes(values: np.ndarray) -> bytes:
    return np.ascontiguousarray(values, FLOAT).tobytes()


def _counts(matrix: SignalMatrix) -> bytes | None:
    return None if matrix.counts is None else _bytes(matrix.counts)


def _matrix(rows: _Rows, count: int) -> SignalMatrix:
    shape = len(rows.entities), count
    parts: Iterator[np.ndarray | None] = (
        None if data is None else np.frombuffer(data, FLOAT).reshape(shape) for data in (rows.values, rows.counts)
    )
    values, counts = parts
    assert values is not None
    return SignalMatrix([Entity(tuple(labels)) for labels in rows.entities], values, counts)


def check(stored: StoredBaseline, members: Iterable[Member], older_than: str | None) -> None:
    """Raises InferdocError where a baseline that was requested by name is of other pools or another release."""
    refusal = mismatch(stored.name, stored.header, {m.pool for m in members}, older_than)
    if refusal is not None:
        raise InferdocError(f"{refusal}: save one of this fleet (inferdoc baseline save), or choose TIME..TIME")


def lead_of(stored: StoredBaseline, frame: SignalFrame, members: Iterable[Member]) -> SignalFrame:
    """The stored values for every row of a frame, ready for `prepend`: of the pod itself, else the median of the pods
    of its pool that are labelled similar. members: of the frame."""
    grid = _grid(stored.header.grid, frame.grid)
    taken = np.round(np.linspace(0, stored.header.count - 1, grid.count)).astype(int)
    then = {(p.cluster, p.namespace, pod): p.pool for p in stored.header.pools for pod in p.pods}
    now = {m.key: m.pool for m in members}
    lead = SignalFrame(grid)
    for name, matrix in frame.signals.items():
        before = stored.signals.get(name)
        if before is not None:
            required = [(entity, now.get(entity.member)) for entity in matrix.entities]
            pools = [then.get(entity.member) for entity in before.entities]
            values = _rows(required, before.entities, pools, before.values[:, taken])
            counted = before.counts is not None and matrix.counts is not None
            counts = _rows(required, before.entities, pools, before.counts[:, taken]) if counted else None  # type: ignore[index]
            lead.signals[name] = SignalMatrix(matrix.entities, values, counts)
    return lead


def _rows(
    required: list[tuple[Entity, Pool | None]], entities: list[Entity], pools: list[Pool | None], values: np.ndarray
) -> np.ndarray:
    """float64[required, steps]: pods are filled from their own pool, rows of no pod (routers, GPUs) from their like."""
    gap = np.full(values.shape[1], np.nan)
    groups = {}
    for pool in set(pools):
        at = [row for row, other in enumerate(pools) if other == pool]
        groups[pool] = Earlier([entities[row] for row in at], values[at])
    filled = [groups[pool].of(entity, gap) if pool in groups else gap for entity, pool in required]
    return np.vstack(filled) if filled else np.empty((0, len(gap)))


def _grid(stored: Grid, window: Grid) -> Grid:
    """Steps over the stored span: as far apart as the window's, but no closer than what was stored, unless these are
    fewer than a baseline must have. What a step holds is the nearest stored value: drawn lines would have no noise."""
    least = Clock(window.step_ms / 1000, window.interval_ms / 1000, 1).least_baseline
    span_ms = stored.end_ms - stored.start_ms
    count = max(least, min(span_ms // window.step_ms + 1, stored.count), 2)
    return replace(window, start_ms=stored.start_ms, step_ms=max(1, span_ms // (count - 1)), count=count)
