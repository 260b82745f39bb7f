"""Checksums: whatever is read out of the file is what was written into it, or it is named as damaged.

Bodies written since format 3 begin with a kind and a CRC-32 over the body and over all that gives it its meaning: the
labels of its target, its time, its layout. So a flipped bit, a row at another's place and a page of another target all
show. Bodies of older formats begin as zlib streams do, and are read without a checksum.

A page also has a name. One that is kept as a difference names the page it differs from, so that it is decoded against
that page or not at all. The name is the checksum of the page as it was first written; a page that is later rewritten
complete keeps it.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from inferdoc.store.codec import DamagedError
from inferdoc.store.rows import fetch

_ZLIB = 0x78
"""First byte of every zlib stream with the usual window (RFC 1950): a body older than format 3."""
_PLAIN, _COMPLETE, _DIFFERENCE = 3, 4, 5
_HEAD = struct.Struct("<BI")
_PAGE_HEAD = struct.Struct("<BII")
"""Kind, checksum; of a page also its name (complete) or the name of the page it differs from."""
_PLACE = struct.Struct("<qqq")


class _LinkError(DamagedError):
    """A page that is whole differs from another one than the one before it."""


class Owner(NamedTuple):
    """A target as its rows know it. seal: checksum of its labels."""

    id: int
    seal: int


class PageRow(NamedTuple):
    """A page as it lies in the file."""

    ts_ms: int
    back_ms: int
    body: bytes


def owner_of(number: int, labels: str) -> Owner:
    """The owner with these labels, as they are stored."""
    return Owner(number, zlib.crc32(labels.encode("utf-8", "surrogatepass")))


def owners(connection: sqlite3.Connection) -> list[Owner]:
    """All targets, oldest first."""
    return [owner_of(*row) for row in fetch(connection, "SELECT id, labels FROM target ORDER BY id", (), int, str)]


def seal(context: bytes, data: bytes) -> bytes:
    """data with its checksum. context: what it belongs to; the same must be given to `unseal`."""
    return _HEAD.pack(_PLAIN, zlib.crc32(data, zlib.crc32(context))) + data


def unseal(context: bytes, body: bytes, what: str) -> bytes:
    """The data of a body. what: "a chunk", for the error. Raises DamagedError."""
    if not body or body[0] == _ZLIB:
        return body
    kind, check = _HEAD.unpack_from(body) if len(body) >= _HEAD.size else (0, 0)
    data = body[_HEAD.size :]
    if kind != _PLAIN or zlib.crc32(data, zlib.crc32(context)) != check:
        raise DamagedError(f"{what} is damaged: its checksum does not match")
    return data


def seal_page(
    owner: Owner, layout: int, ts_ms: int, back_ms: int, data: bytes, before: int | None
) -> tuple[bytes, int]:
    """The body of a new page, and its name. before: name of the page it differs from, None where it is complete."""
    if before is None:
        name = zlib.crc32(data, zlib.crc32(_PLACE.pack(ts_ms, layout, owner.seal)))
        return _page(owner, layout, ts_ms, back_ms, _COMPLETE, name, data), name
    body = _page(owner, layout, ts_ms, back_ms, _DIFFERENCE, before, data)
    return body, _PAGE_HEAD.unpack_from(body)[1]


def reseal_complete(owner: Owner, layout: int, ts_ms: int, before: bytes, data: bytes) -> bytes:
    """The body of a page that is rewritten complete. before: its body until now, whose name it keeps."""
    return _page(owner, layout, ts_ms, 0, _COMPLETE, _name(before), data)


def unseal_pages(
    owner: Owner, layout: int, rows: Sequence[PageRow | tuple[int, int, bytes]]
) -> tuple[list[bytes], bool]:
    """The data of consecutive pages of one target and layout, and whether each had a checksum. Raises DamagedError:
    names the page."""
    found = []
    checked = True
    prefix = _prefix(owner, layout)
    # Read for every page of every target: names are local, and the checksum of `_page` is written out.
    head, place, crc, size = _PAGE_HEAD.unpack_from, _PLACE.pack, zlib.crc32, _PAGE_HEAD.size
    before = None
    for ts_ms, back_ms, body in rows:
        if not body or body[0] == _ZLIB:
            found.append(body)
            before, checked = None, False
            continue
        if len(body) < size:
            raise DamagedError(f"the page of {ts_ms} ms is cut")
        kind, check, link = head(body)
        data = body[size:]
        if crc(data, crc(place(ts_ms, back_ms, kind << 32 | link), prefix)) != check:
            raise DamagedError(f"the page of {ts_ms} ms is damaged: its checksum does not match")
        if kind == _DIFFERENCE and link != before:
            raise _LinkError(f"the page that the one of {ts_ms} ms differs from is missing")
        before = link if kind == _COMPLETE else check
        found.append(data)
    return found, checked


def check_page(owner: Owner, layout: int, row: PageRow) -> None:
    """Raises DamagedError where the checksum of a page does not hold, whatever page it differs from. Pages of formats 1
    and 2 have none."""
    try:
        unseal_pages(owner, layout, [row])
    except _LinkError:
        return


def _page(owner: Owner, layout: int, ts_ms: int, back_ms: int, kind: int, link: int, data: bytes) -> bytes:
    place = _PLACE.pack(ts_ms, back_ms, kind << 32 | link)
    check = zlib.crc32(data, zlib.crc32(place, _prefix(owner, layout)))
    return _PAGE_HEAD.pack(kind, check, link) + data


def _prefix(owner: Owner, layout: int) -> int:
    """The checksum of what pages of one target and layout share."""
    return zlib.crc32(_PLACE.pack(layout, owner.seal, 0))


def _name(body: bytes) -> int:
    if not body or body[0] == _ZLIB:
        return zlib.crc32(body)
    kind, check, link = _PAGE_HEAD.unpack_from(body)
    return int(link if kind == _COMPLETE else check)
