"""The frame of an HTML report: one file, no network, no script."""

from __future__ import annotations

from inferdoc.escaping import html as escape
from inferdoc.report.html_style import style

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What the page may load: nothing. It also stops any script that data might try to smuggle in."""


def document(title: str, body: str, version: str) -> str:
    """A whole document. title: words; body: HTML; version: of inferdoc."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="generator" content="inferdoc {escape(version)}">'
        f"<title>{escape(title)}</title><style>{style()}</style></head>\n"
        f"<body><main>{body}</main></body></html>"
    )
