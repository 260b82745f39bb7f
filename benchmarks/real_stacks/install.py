"""Virtual environments with the stacks of `make real-stacks`, from PyPI. Some 1.5 GB; nothing else needs them.

    python install.py FOLDER

One environment for each file of requirements/, because the packages pin different versions of the same libraries.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements")
DYNAMO = ("ai-dynamo==1.6.1", "ai-dynamo-runtime==1.6.1")


def install(folder: Path) -> None:
    """Create or complete the environments. Raises CalledProcessError if pip fails; pip has printed why."""
    for requirements in sorted(REQUIREMENTS.glob("*.txt")):
        python = folder / requirements.stem / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder / requirements.stem)], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        if requirements.stem == "dynamo":
            subprocess.run([*pip, "--no-deps", *DYNAMO], check=True)
        subprocess.run([*pip, "-r", str(requirements)], check=True)


if __name__ == "__main__":
    print("installing Dynamo and the routers (some 1.5 GB, minutes on first use)", file=sys.stderr)
    install(Path(sys.argv[1]))
