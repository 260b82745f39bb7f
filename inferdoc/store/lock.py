"""One writer is one file, whatever name it is opened by.

Two locks, both let go by the kernel however the process ends. One is on a file beside the store; it holds the number
of the writing process, and it also covers a store that another file was moved over. The other is on the store itself,
by device and inode: it holds when the lock file was deleted. Symbolic links are followed first, so that all of them
lead to the same two.

SQLite keeps its write-ahead log beside the name a file was opened by. A file with two names (hard links, or a file
mounted on its own) has two logs, and what one of them holds is lost or overwrites the other: such a file is not
written, and is read only where nobody writes it under another name.

A process that closes any handle of a file loses all locks that SQLite has on that file through other handles
(https://www.sqlite.org/howtocorrupt.html, 2.2). So a handle stays open as long as this process has a connection to its
file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from inferdoc.replacing import PRIVATE, READABLE
from inferdoc.store.faults import StoreError, reason_of

_MOUNTS = Path("/proc/self/mountinfo")
_MOUNT_POINT = 4
"""Column of /proc/self/mountinfo, see proc(5)."""

Identity = tuple[int, int]
"""Device and inode."""

_guard = threading.Lock()
_connections: Counter[Identity] = Counter()
_waiting: dict[Identity, list[int]] = {}
"""Handles to close when this process has no connection to the file any more."""


@dataclass(frozen=True)
class StoreFile:
    """Where a store lies. given: as the user named it; file: without symbolic links."""

    given: Path
    file: Path

    @classmethod
    def of(cls, path: Path) -> StoreFile:
        """The place of a path. Raises StoreError for a folder, or where it cannot be seen."""
        try:
            file = path.resolve()
            if file.is_dir():
                raise StoreError(f"{path} is a folder, not a store; give the file")
            file.exists()
        except (OSError, ValueError, RuntimeError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            raise StoreError(f"cannot look for a store at {path}: {reason}; give another --store") from error
        return cls(path, file)

    @property
    def log(self) -> Path:
        """SQLite's write-ahead log."""
        return self.file.with_name(self.file.name + "-wal")

    @property
    def lock(self) -> Path:
        """The file beside it that its writer locks."""
        return self.file.with_name(self.file.name + ".lock")

    def identity(self) -> Identity | None:
        """Device and inode of the file that is there now; None without one."""
        try:
            status = self.file.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def other_name(self) -> str | None:
        """How the file has a second name, in words; None where it has but this one."""
        with contextlib.suppress(OSError):
            links = self.file.stat().st_nlink
            if links > 1:
                return f"it has {links} names (hard links)"
        with contextlib.suppress(OSError):
            for line in _MOUNTS.read_bytes().splitlines():
                if _unescaped(line.split()[_MOUNT_POINT]) == os.fsencode(self.file):
                    return "it is mounted as a single file"
        return None


class Connected:
    """Counts a connection of this process to a file, from before it is opened until after it is closed."""

    def __init__(self, identity: Identity) -> None:
        self._identity: Identity | None = identity
        with _guard:
            _connections[identity] += 1

    def end(self) -> None:
        """The connection is closed."""
        with _guard:
            if self._identity is None:
                return
            _connections[self._identity] -= 1
            if not _connections[self._identity]:
                del _connections[self._identity]
                for handle in _waiting.pop(self._identity, ()):
                    os.close(handle)
            self._identity = None


class WriterLock:
    """Owned by the one writer of a store; dies with its process, however that ends. identity: of the file locked."""

    def __init__(self, place: StoreFile) -> None:
        self._place = place
        self._has_log = False
        beside = _open(place, place.lock, os.O_RDWR | os.O_NOFOLLOW)
        self._handles = [beside]
        try:
            self._lock_beside(beside)
            other = place.other_name()
            if other:
                raise StoreError(
                    f"cannot write the store {place.given}: {other}, and SQLite would keep a log for each;"
                    " remove the other name, mount the folder, or copy the file"
                )
            store = _open(place, place.file, os.O_RDONLY)
            self._handles.append(store)
            self.identity = _identity(store)
            if not _lock(store, fcntl.LOCK_EX):
                raise StoreError(
                    f"the store {place.given} is being written by another process; stop it or give another --store"
                )
        except BaseException:
            self.release()
            raise

    def check(self) -> None:
        """Raises StoreError where the file that is locked is no longer the one at its place, or lost its log."""
        has_log = self._place.log.exists()
        if self._place.identity() != self.identity or (self._has_log and not has_log):
            raise StoreError(
                f"cannot write the store {self._place.given}: it was moved, deleted or replaced while it was being"
                " written; start again, and move a store only when nobody writes it"
            )
        self._has_log = has_log

    def release(self) -> None:
        """To be called when the connection is closed."""
        for handle in self._handles:
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)
            close(handle)
        self._handles = []

    def _lock_beside(self, handle: int) -> None:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise StoreError(
                f"cannot lock the store {self._place.given}: {self._place.lock} is a link or no file; remove it"
            )
        if not _lock(handle, fcntl.LOCK_EX):
            holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
            who = f"process {holder}" if holder else "another process"
            raise StoreError(
                f"the store {self._place.given} is being written by {who}; stop it or give another --store"
            )
        with contextlib.suppress(OSError):  # the pid is a courtesy: a full disk must not keep a pruning writer out
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)


class FileHold:
    """What this process holds of a file while it is open: the lock of its one writer, and the count of connections
    that keeps the locks of SQLite. lock: None where it is only read. Raises StoreError as `WriterLock` does."""

    def __init__(self, place: StoreFile, *, writing: bool) -> None:
        self.lock: WriterLock | None = WriterLock(place) if writing else None
        self._connected: Connected | None = Connected(place.identity() or (0, 0))

    def let_go(self) -> None:
        """To be called when the connection is closed, or where it could not be opened."""
        if self._connected is not None:
            self._connected.end()
            self._connected = None
        if self.lock is not None:
            self.lock.release()
            self.lock = None


def check_reading(place: StoreFile) -> str | None:
    """A warning where the file has another name; raises StoreError where it is being written by that name."""
    other = place.other_name()
    if other is None:
        return None
    if _is_locked(place.file) and not _is_locked(place.lock):
        raise StoreError(
            f"the store {place.given} is being written under another name ({other}); read it by that name, or copy it"
        )
    return f"{place.given}: {other}; what was written by another name and is still in its log is missing"


def _is_locked(file: Path) -> bool:
    """Whether somebody holds a lock on the file; False where there is none, or it may not be read."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _lock(handle, fcntl.LOCK_SH)
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
        close(handle)


def close(handle: int) -> None:
    """Close a handle, now or as soon as this process has no connection to its file."""
    with _guard:
        identity = _identity(handle)
        if _connections[identity] > 0:
            _waiting.setdefault(identity, []).append(handle)
        else:
            del _connections[identity]
            os.close(handle)


def _open(place: StoreFile, file: Path, flags: int) -> int:
    try:
        # SQLite gives its log the permissions of the store. Whoever may read the store looks at the lock.
        mode = PRIVATE if file == place.file else READABLE
        return os.open(file, flags | os.O_CREAT | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StoreError(f"cannot lock the store {place.given}: {file} is a link; remove it") from error
        message = f"cannot write the store {place.given}: {reason_of(error)}; give another --store"
        raise StoreError(message) from error


def _lock(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise StoreError(f"cannot lock the store: {reason_of(error)}; use a local disk") from error
    return True


def _identity(handle: int) -> Identity:
    status = os.fstat(handle)
    return status.st_dev, status.st_ino


def _unescaped(field: bytes) -> bytes:
    """A path of /proc/self/mountinfo: blanks and backslashes stand there as octal numbers."""
    return field.decode("unicode_escape").encode("latin-1") if b"\\" in field else field
