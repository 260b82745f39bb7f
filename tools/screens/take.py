"""Pictures of the HTML report on a phone and on a desk, light and dark, into docs/screens: python tools/screens/take.py

With the address of a running `inferdoc serve`: of its fleet page and its newest incident instead. Needs chromium.
For development only. Look at what comes out before it is committed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import requests

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "docs" / "screens"
FAULT = "kv-transfer-backlog"
SIZES = {"phone": (390, 1500), "desk": (1280, 1330)}
"""Width and height in pixels."""
NARROWEST = 500
"""A window of chromium is no narrower: the page lies in a frame of its own width."""
SCHEMES = {"light": 1, "dark": 0}
"""Chromium's number for what the reader prefers."""


def main() -> None:
    OUT.mkdir(exist_ok=True)
    for name, page in (served(sys.argv[1]) if len(sys.argv) > 1 else {"report": report()}).items():
        take_all(name, page)


def report() -> bytes:
    demo = [Path(sys.executable).with_name("inferdoc"), "demo", "--fault", FAULT, "-o", "html"]
    return subprocess.run(demo, cwd=ROOT, capture_output=True, check=True).stdout


def served(address: str) -> dict[str, bytes]:
    newest = requests.get(f"{address}/api/v1/incidents", timeout=10).json()["incidents"][0]["id"]
    paths = {"serve-fleet": "/", "serve-incident": f"/incidents/{newest}"}
    return {name: requests.get(address + path, timeout=10).content for name, path in paths.items()}


def take_all(name: str, page: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="inferdoc-") as folder:
        frame = Path(folder) / "frame.html"
        (Path(folder) / "page.html").write_bytes(page)
        for size, (width, height) in SIZES.items():
            style = f"border:0;width:{width}px;height:{height}px"
            framed = f'<iframe src="page.html" style="{style}"></iframe>'
            frame.write_text(f'<body style="margin:0;background:gray">{framed}</body>', "utf-8")
            for scheme, number in SCHEMES.items():
                take(frame, OUT / f"{name}-{size}-{scheme}.png", max(width, NARROWEST), height, number)


def take(page: Path, picture: Path, width: int, height: int, scheme: int) -> None:
    options = ["--headless=new", "--no-sandbox", "--hide-scrollbars", "--disable-gpu", "--allow-file-access-from-files"]
    shot = [f"--window-size={width},{height}", f"--blink-settings=preferredColorScheme={scheme}"]
    command = ["chromium", *options, *shot, f"--screenshot={picture}", page.as_uri()]
    subprocess.run(command, capture_output=True, check=True, timeout=120)


if __name__ == "__main__":
    main()
