"""The files under fixtures/golden: one per case, JSON in XZ, in the working tree or in a git revision."""

from __future__ import annotations

import io
import json
import lzma
import subprocess
import tarfile
from pathlib import Path

from tools.golden.cases import Document

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path("fixtures") / "golden"
SUFFIX = ".json.xz"


def pack(document: Document) -> bytes:
    """A document as the content of its file. `xzcat` prints it as indented JSON."""
    text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
    return lzma.compress(text.encode(), lzma.FORMAT_XZ, lzma.CHECK_CRC32, preset=9 | lzma.PRESET_EXTREME)


def unpack(content: bytes) -> Document:
    """The document of a file's content. Raises lzma.LZMAError or ValueError for a damaged file."""
    found: Document = json.loads(lzma.decompress(content, lzma.FORMAT_XZ))
    return found


class GoldenFolder:
    """The golden answers in a folder. path: by default fixtures/golden of this checkout."""

    def __init__(self, path: Path = ROOT / GOLDEN) -> None:
        self.path = path

    def names(self) -> list[str]:
        """The names of the stored cases, sorted."""
        files = self.path.rglob(f"*{SUFFIX}")
        return sorted(file.relative_to(self.path).as_posix().removesuffix(SUFFIX) for file in files)

    def read(self, name: str) -> Document | None:
        """The stored document of a case; None if there is none."""
        file = self._file(name)
        return unpack(file.read_bytes()) if file.is_file() else None

    def write(self, document: Document) -> bool:
        """Store a document, and return whether it differs from the stored one. An equal one leaves the file as it is:
        another release of liblzma may compress it to other bytes."""
        name = document["case"]
        if self.read(name) == document:
            return False
        file = self._file(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pack(document))
        return True

    def remove(self, name: str) -> None:
        """Delete the file of a case."""
        self._file(name).unlink()

    def _file(self, name: str) -> Path:
        return self.path / f"{name}{SUFFIX}"


def stored_now(folder: GoldenFolder) -> dict[str, Document]:
    """Every stored document of a folder, by name of the case."""
    found = ((name, folder.read(name)) for name in folder.names())
    return {name: document for name, document in found if document is not None}


def stored_at(revision: str, root: Path = ROOT) -> dict[str, Document]:
    """Every document that a git revision contains, by name of the case. root: of the checkout. Raises ValueError for an
    unknown revision, or one without golden answers."""
    command = ["git", "-C", str(root), "archive", "--format=tar", revision, GOLDEN.as_posix()]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise ValueError(f"{revision}: no golden answers: {done.stderr.decode(errors='replace').strip()}")
    found = {}
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.name.endswith(SUFFIX) else None
            if content is not None:
                name = Path(member.name).relative_to(GOLDEN).as_posix().removesuffix(SUFFIX)
                found[name] = unpack(content.read())
    return found
