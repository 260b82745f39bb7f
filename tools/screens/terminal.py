"""A picture of a terminal into docs/screens, from what tmux shows of it:

    tmux new-session -d -s watch -x 110 -y 34 'inferdoc diagnose --prometheus http://localhost:9090 --watch'
    tmux capture-pane -e -p -t watch | python tools/screens/terminal.py watch

Needs chromium. For development only. Look at what comes out before it is committed.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text
from take import OUT, take

COLUMN, ROW, EDGE = 9, 18, 16
"""Pixels."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the picture")
    given = parser.parse_args()
    lines = sys.stdin.read().rstrip("\n").split("\n")
    columns = max(len(Text.from_ansi(line)) for line in lines)
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True)
    look = f"margin:0;padding:{EDGE}px;background:#0c0c0c;color:#d9d9d9;font:{ROW - 4}px/{ROW}px monospace"
    body = console.export_html(
        theme=MONOKAI, inline_styles=True, code_format=f'<body style="{look}"><pre style="margin:0">{{code}}</pre>'
    )
    with tempfile.TemporaryDirectory(prefix="inferdoc-") as folder:
        page = Path(folder) / "terminal.html"
        page.write_text(body, "utf-8")
        take(page, OUT / f"{given.name}.png", columns * COLUMN + 2 * EDGE, len(lines) * ROW + 2 * EDGE, 0)


if __name__ == "__main__":
    main()
