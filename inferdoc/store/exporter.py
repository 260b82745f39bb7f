"""A store as OpenMetrics text with timestamps, for `promtool tsdb create-blocks-from openmetrics` and for `import`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from inferdoc.store.block import Block, absent
from inferdoc.store.extent import TargetFilter
from inferdoc.store.faults import StoreError
from inferdoc.store.matrix import NameFilter
from inferdoc.store.reader import Reader

_BATCH_SAMPLES = 4_000_000
_COMPOUND = {
    "_bucket": ("histogram", "gaugehistogram"),
    "_count": ("histogram", "summary"),
    "_sum": ("histogram", "summary"),
    "_gcount": ("gaugehistogram",),
    "_gsum": ("gaugehistogram",),
    "_info": ("info",),
    "_created": ("histogram", "summary", "counter"),
}
_PLAIN = ("gauge", "stateset", "summary")
_BARE = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_PER_METRIC = ("le", "quantile")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_SPECIAL = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}


def export(
    store: Reader,
    start_ms: int,
    end_ms: int,
    out: BinaryIO,
    names: NameFilter = None,
    targets: TargetFilter = None,
    progress: Callable[[float], None] | None = None,
) -> int:
    """Write the samples in [start_ms, end_ms], milliseconds since 1970 UTC, to `out`. Returns how many.

    Families stand together, within them targets, series and times in order, and `# EOF` at the end. A family that
    OpenMetrics has no type for (a counter without `_total`) is written as `unknown`. names, targets: as in `blocks`.
    Raises StoreError, also where a metric has more label sets than fit: an export is whole or an error.
    """
    counts = store.sample_counts(start_ms, end_ms, targets)
    types = store.types()
    families: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for name in _matching(counts, names):
        families[family_of(name, types)].add(name)
    total = sum(counts[name] for members in families.values() for name in members)
    done = 0
    for batch in batches(sorted(families), families, counts):
        blocks = store.blocks(start_ms, end_ms, set().union(*(families[family] for family in batch)), targets)
        refuse_left_out(store)
        for family in batch:
            out.write(f"# TYPE {_name(family[0])} {family[1]}\n".encode())
            for block in blocks:
                done += _write_family(out, block, families[family])
            if progress:
                progress(done / total)
    out.write(b"# EOF\n")
    return done


def refuse_left_out(store: Reader) -> None:
    """Raises StoreError where a read left out a metric: an export is whole or an error."""
    for name, (why, _) in store.left_out.items():
        raise StoreError(f"cannot export {name}: {why}; export a shorter time range (--from and --until)")


def family_of(name: str, types: Mapping[str, str]) -> tuple[str, str]:
    """Name and OpenMetrics type of the family that a series belongs to.

    types: declared types; a counter may be declared with `_total` (Prometheus text) or without (OpenMetrics).
    """
    for suffix, kinds in _COMPOUND.items():
        base = name.removesuffix(suffix)
        if base != name:
            if types.get(base) in kinds:
                return base, types[base]
            if suffix == "_created" and _is_counter(base, types):
                return base, "counter"
    if name.endswith("_total") and _is_counter(name.removesuffix("_total"), types):
        return name.removesuffix("_total"), "counter"
    declared = types.get(name, "unknown")
    return name, declared if declared in _PLAIN else "unknown"


def _is_counter(base: str, types: Mapping[str, str]) -> bool:
    return types.get(base, types.get(f"{base}_total")) == "counter"


def _matching(counts: Iterable[str], names: NameFilter) -> list[str]:
    if names is None:
        return list(counts)
    return [name for name in counts if (names(name) if callable(names) else name in names)]


def batches(
    order: list[tuple[str, str]], families: Mapping[tuple[str, str], set[str]], counts: Mapping[str, int]
) -> Iterator[list[tuple[str, str]]]:
    """Families in order, as many at a time as fit in memory."""
    batch: list[tuple[str, str]] = []
    batched = 0
    for family in order:
        size = sum(counts[name] for name in families[family])
        if batch and batched + size > _BATCH_SAMPLES:
            yield batch
            batch, batched = [], 0
        batch.append(family)
        batched += size
    if batch:
        yield batch


def _write_family(out: BinaryIO, block: Block, members: set[str]) -> int:
    """One family of one target: each metric (labels but `le`, `quantile`) over time, its samples in page order."""
    metrics: defaultdict[tuple[tuple[str, str], ...], list[int]] = defaultdict(list)
    for column, (name, labels) in enumerate(zip(block.names, block.labels, strict=True)):
        if name in members:
            metrics[tuple(pair for pair in labels.items() if pair[0] not in _PER_METRIC)].append(column)
    if not metrics:
        return 0
    stamps = [f" {ms / 1000:.3f}\n" for ms in block.times_ms.tolist()]
    written = 0
    for columns in metrics.values():
        values = block.values[:, columns]
        lines = [_lines(_series(block, column), values[:, place], stamps) for place, column in enumerate(columns)]
        there = ~absent(values)
        in_order = list(chain.from_iterable(zip(*lines, strict=True)))
        if not there.all():
            in_order = [line for line, kept in zip(in_order, there.ravel().tolist(), strict=True) if kept]
        out.write("".join(in_order).encode("utf-8", "surrogateescape"))
        written += len(in_order)
    return written


def _lines(series: str, values: NDArray[np.float64], stamps: list[str]) -> list[str]:
    texts = map(repr, values.tolist())
    if not np.isfinite(values).all():
        texts = (_SPECIAL.get(text, text) for text in texts)  # type: ignore[assignment]
    return [f"{series} {text}{stamp}" for text, stamp in zip(texts, stamps, strict=True)]


def _series(block: Block, column: int) -> str:
    labels = {**block.target, **block.labels[column]}
    pairs = ",".join(f'{_name(name)}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    name = block.names[column]
    if not _BARE.fullmatch(name):
        return f"{{{_name(name)},{pairs}}}" if pairs else f"{{{_name(name)}}}"
    return f"{name}{{{pairs}}}" if pairs else name


def _name(name: str) -> str:
    """Quoted, as Prometheus 3 writes it, where it is more than letters, digits, `_` and `:`."""
    return name if _BARE.fullmatch(name) else f'"{name.translate(_ESCAPES)}"'
