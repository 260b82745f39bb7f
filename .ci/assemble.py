#!/usr/bin/env python3
"""The container image as far as a machine without a builder can make it: the RUN of its install stage, run in a folder.

Builds the wheel of this checkout, runs what packaging/Containerfile runs in its stage `install` with that folder for
the root, and lets `inferdoc demo` run there as the image's user, who can write nowhere but where the image says.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONTAINERFILE = ROOT / "packaging" / "Containerfile"
USER = "65532"


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="image-") as name:
        root = Path(name)
        root.chmod(0o755)
        for folder in ("wheel", "opt", "home", "elsewhere"):
            (root / folder).mkdir()
        build(root / "wheel")
        stage = install_stage(CONTAINERFILE.read_text("utf-8"))
        subprocess.run(["sh", "-euc", at(stage, root)], env=plain(), check=True, stdout=subprocess.DEVNULL)
        megabytes = sum(p.lstat().st_size for p in (root / "opt").rglob("*") if not p.is_dir()) >> 20
        shutil.chown(root / "home", int(USER), int(USER))
        as_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if os.getuid() == 0 else []
        asked = [*as_user, str(root / "opt" / "inferdoc" / "bin" / "inferdoc"), "demo"]
        home = plain(HOME=str(root / "home"), PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run(
            asked, cwd=root / "elsewhere", env=home, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode != 0:
            print(f"inferdoc demo: exit {done.returncode}\n{done.stdout}{done.stderr}", file=sys.stderr)
            return 1
    print(f"packaging/Containerfile: /opt/inferdoc takes {megabytes} MB, and inferdoc demo runs there as {USER}")
    return 0


def build(folder: Path) -> None:
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(words, check=True)
    shutil.copy(CONTAINERFILE.with_name("requirements.txt"), folder)


def install_stage(text: str) -> str:
    """The shell text of the RUN of the stage `install`."""
    (stage,) = re.findall(r"^FROM \S+ AS install\n(.*?)^FROM ", text, re.MULTILINE | re.DOTALL)
    (run,) = re.findall(r"^RUN (.*?[^\\])\n", stage, re.MULTILINE | re.DOTALL)
    return run


def at(command: str, root: Path) -> str:
    """The same with the folders of the image below `root`, and the Python that runs this."""
    below = re.sub(r"(?<![\w.])/(opt|wheel)/", rf"{root}/\1/", command)
    return re.sub(r"(?<![\w/])python(?= -m)", sys.executable, below)


def plain(**more: str) -> dict[str, str]:
    """This environment (how packages are reached may stand in it) without what is set for inferdoc or Python."""
    ours = ("INFERDOC_", "PYTHON", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)} | more


if __name__ == "__main__":
    sys.exit(main())
