"""Samples as rows of a Parquet file: the columns, and what stands beside them in the file's metadata.

A row group holds the samples of one family in one hour (UTC); rows stand by target, series and time. Strings are
dictionary-encoded; values are not, since a dictionary of numbers takes all NaN for one. docs/export.md describes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from inferdoc.extras import needed
from inferdoc.store.faults import StoreError

VERSION = "1"
"""Of the columns and the metadata; a file of another one is refused."""
VERSION_KEY, TYPES_KEY, TARGETS_KEY = b"inferdoc.samples", b"inferdoc.types", b"inferdoc.targets"
"""Metadata: the version; the declared types as JSON; the labels of the targets as a JSON list, oldest first."""
STRINGS = ("family", "type", "name", "target", "labels")
COLUMNS = ("time", *STRINGS, "value")


def arrow(module: str = "pyarrow") -> Any:
    """pyarrow, or its module `pyarrow.parquet`. Raises InferdocError where it is not installed."""
    from importlib import import_module

    with needed("pyarrow", "Parquet"):
        return import_module(module)


def is_path(url: str) -> bool:
    """Whether it names a file of this machine, and is no URL."""
    return "://" not in url


def filesystem(url: str) -> tuple[Any, str]:
    """The fsspec filesystem of a URL, and the path on it. Raises InferdocError where fsspec is missing, StoreError
    where the package of the URL's kind is, or no such kind is known."""
    with needed("fsspec", "a URL"):
        from fsspec.core import url_to_fs
    try:
        found: tuple[Any, str] = url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise StoreError(f"cannot use {url}: {' '.join(str(error).split())[:200]}") from error
    return found


def schema() -> Any:
    """The columns as an Arrow schema."""
    pa = arrow()
    text = pa.dictionary(pa.int32(), pa.string())
    time = pa.field("time", pa.timestamp("ms", tz="UTC"), nullable=False)
    strings = [pa.field(name, text, nullable=False) for name in STRINGS]
    value = pa.field("value", pa.float64(), nullable=False)
    return pa.schema([time, *strings, value], metadata={VERSION_KEY: VERSION})


def labels_text(labels: Mapping[str, str]) -> str:
    """Labels as a JSON object in order of name."""
    return json.dumps(dict(sorted(labels.items())), ensure_ascii=False, separators=(",", ":"))


def labels_of(text: str) -> dict[str, str]:
    """The labels that `labels_text` wrote. Raises ValueError."""
    labels = json.loads(text)
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise ValueError("labels are not a JSON object of texts")
    return labels
