"""The embedded store: one file, one writer, many readers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal

from inferdoc.store.faults import StoreError, reason_of
from inferdoc.store.indexes import Hidden
from inferdoc.store.layouts import LayoutTable
from inferdoc.store.lock import FileHold, StoreFile
from inferdoc.store.reader import Reader
from inferdoc.store.schema import open_for_reading, open_for_writing
from inferdoc.store.writer import Writer


class Store(Reader):
    """An open store. Read it through the methods of `Reader`, write through `writer`.

    path: the file; warnings: one line each about what could not be read.
    """

    def __init__(self, path: Path, mode: Literal["r", "w"], hidden: Sequence[Hidden] | None = None) -> None:
        self.path = path
        self.warnings: list[str] = []
        self._writer: Writer | None = None
        if mode == "w":
            _make_folder(path)
        place = StoreFile.of(path)
        self._hold = FileHold(place, writing=mode == "w")
        try:
            if mode == "w":
                connection, hidden = open_for_writing(place), ()
            else:
                connection, self.warnings, hidden = open_for_reading(place, hidden)
        except BaseException:
            self._hold.let_go()
            raise
        super().__init__(connection, path, LayoutTable(connection), hidden or ())
        if self._hold.lock is not None:
            self._writer = Writer(connection, path, self.layouts.forget, self._hold.lock.check)

    @classmethod
    def open(cls, path: str | Path, mode: Literal["r", "w"] = "r", hidden: Sequence[Hidden] | None = None) -> Store:
        """Open a store: "r" to read (any number of processes, also while one writes), "w" to read and write.

        "w" creates the file and its folder where missing, and is refused while another process (or another `Store` of
        this one) writes. hidden: scrapes that no index leads to, from another reader. Raises StoreError: no such
        store, another format, damaged, in use, not writable.
        """
        return cls(Path(path), mode, hidden)

    @classmethod
    def open_existing(cls, path: str | Path) -> Store:
        """As `open` to write, but a store that is not there is an error."""
        if not StoreFile.of(Path(path)).file.exists():
            raise StoreError(f"there is no store at {path}; give another --store")
        return cls(Path(path), "w")

    @property
    def writer(self) -> Writer:
        if self._writer is None:
            raise StoreError(f"the store {self.path} was opened for reading only")
        return self._writer

    def close(self) -> None:
        self.connection.close()
        self._hold.let_go()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot create the folder {path.parent}: {reason_of(error)}; give another --store") from error
