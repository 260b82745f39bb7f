"""Draws every generated board over simulated fleets into docs/boards: python tools/board-preview/draw.py [BOARD ...]

Needs `npm install --legacy-peer-deps` here once, chromium, prometheus and promtool. For development only.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

SETTLED = 120
"""s at the beginning in which rates and rules have no past yet."""
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

from tests.board_fleets.server import BOARDS, fleets  # noqa: E402


def main(names: list[str]) -> None:
    """Draw the boards of these names, or all."""
    out = ROOT / "docs" / "boards"
    out.mkdir(exist_ok=True)
    paths = [path for path in sorted(BOARDS.glob("*.json")) if not names or path.stem in names]
    boards = [word for path in paths for word in ("--board", str(path))]
    with tempfile.TemporaryDirectory(prefix="inferdoc-") as folder, fleets(Path(folder)) as served:
        when = ["--to", f"{served.end:.0f}", "--range", f"{served.end - served.start - SETTLED:.0f}", "--out", str(out)]
        command = ["node", str(HERE / "preview.mjs"), *boards, "--prometheus", served.address, *when]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
