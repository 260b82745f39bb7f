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
ENTRY = "fleet-overview"
SCREENS = {"desk": "1440", "phone": "390"}
"""px: screens on which the entry dashboard is drawn as it opens."""
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
        command = ["node", str(HERE / "preview.mjs"), "--prometheus", served.address, *when]
        subprocess.run([*command, *boards], check=True)
        for word, width in SCREENS.items() if not names or ENTRY in names else ():
            screen = ["--board", str(BOARDS / f"{ENTRY}.json"), "--folded", "--width", width, f"--suffix=-{word}"]
            subprocess.run([*command, *screen], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
