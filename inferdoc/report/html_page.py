"""The frame and the style sheet of HTML reports: one file, no network, no script."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from inferdoc.escaping import html as escape
from inferdoc.extras import needed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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


@contextmanager
def drawn_svg(key: str) -> Iterator[None]:
    """matplotlib, set to draw the same bytes each time. Raises InferdocError where it is not installed."""
    with needed("matplotlib", "a plot"):
        import matplotlib as mpl
    with mpl.rc_context({"svg.hashsalt": key, "svg.fonttype": "none"}):
        yield


def inline_svg(drawing: Figure, key: str, title: str, style: str = "") -> str:
    """A figure of matplotlib as inline SVG. key: unique in the page; title: for who cannot see it."""
    out = io.StringIO()
    drawing.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    named = f'<title id="{key}-t">{escape(title)}</title>'
    text = re.sub(r"<metadata>.*?</metadata>", named, text[text.index("<svg") :], count=1, flags=re.S)
    return text.replace("<svg ", f'<svg role="img" aria-labelledby="{key}-t" {style}', 1)


LIGHT = {
    "page": "#ffffff",
    "card": "#f6f8fa",
    "line": "#d0d7de",
    "text": "#1b1f24",
    "soft": "#57606a",
    "link": "#0550ae",
    "critical": "#a40e26",
    "warning": "#7d4e00",
    "info": "#0550ae",
    "healthy": "#116329",
    "unknown": "#6639ba",
    "cause": "#0550ae",
    "other": "#4b8fe0",
    "peer": "#848d97",
    "baseline": "#1a7f37",
    "limit": "#bc4c00",
    "onset": "#8250df",
}
DARK = {
    "page": "#0d1117",
    "card": "#161b22",
    "line": "#3d444d",
    "text": "#e6edf3",
    "soft": "#9ea7b3",
    "link": "#79c0ff",
    "critical": "#ff8f8a",
    "warning": "#e3b341",
    "info": "#79c0ff",
    "healthy": "#56d364",
    "unknown": "#d2a8ff",
    "cause": "#79c0ff",
    "other": "#2f81d6",
    "peer": "#768390",
    "baseline": "#3fb950",
    "limit": "#f0883e",
    "onset": "#bc8cff",
}

RULES = """
        *{box-sizing:border-box} html{color-scheme:light dark;-webkit-text-size-adjust:100%}
        body{margin:0;background:var(--page);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
        "Liberation Sans",sans-serif;overflow-wrap:anywhere} main{max-width:1160px;margin:0 auto;padding:24px 24px 48px}
        h1{font-size:1.45rem;line-height:1.3;margin:.5rem 0} h2{font-size:1.25rem;line-height:1.3;margin:2.2rem 0
        .5rem;padding-top:1rem;border-top:1px solid var(--line)} h3{font-size:1rem;margin:1.4rem 0 .5rem} p{margin:.4rem
        0} a{color:var(--link)} code,pre{font:.87em ui-monospace,SFMono-Regular,Menlo,Consolas,
        "Liberation Mono",monospace} pre{margin:.35rem 0;padding:.5rem .7rem;background:var(--card);border:1px solid
        var(--line);border-radius:6px; white-space:pre-wrap} .soft{color:var(--soft)}
        .badge{display:inline-block;padding:.1rem .55rem;border:1.5px solid currentColor;border-radius:1rem;
        font-size:.82rem;font-weight:600;white-space:nowrap}
        .verdict{font-size:1rem;text-transform:uppercase;letter-spacing:.04em}
        .critical{color:var(--critical)}.warning,.degraded{color:var(--warning)}.info{color:var(--info)}
        .healthy{color:var(--healthy)}.unknown{color:var(--unknown)}
        .plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:16px}
        figure{margin:0;padding:12px;border:1px solid var(--line);border-radius:8px;background:var(--card);min-width:0}
        figcaption strong{font-weight:600}
        .roles{font-size:.78rem;font-weight:600;text-transform:uppercase;letter-spacing:.04em;color:var(--soft)}
        .draw{overflow-x:auto;margin:.4rem 0 0} svg{display:block;width:100%;min-width:400px;height:auto} .draw.wide
        svg{min-width:760px} .draw.narrow{display:none} svg text{font:11.5px system-ui,-apple-system,
        "Segoe UI",Roboto,"Liberation Sans",sans-serif;fill:var(--soft)} .facts{font-size:.87rem;margin:.3rem 0 0}
        .key{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;margin:.4rem 0
        .8rem;padding:0;list-style:none;font-size:.87rem; color:var(--soft)} .key
        svg{display:inline-block;width:26px;min-width:26px;height:12px;margin-right:.4rem;vertical-align:-1px}
        .grid{stroke:var(--line);stroke-width:1} .lane{fill:var(--card);stroke:var(--line)}
        .cause{fill:none;stroke:var(--cause);stroke-width:2.2;stroke-linejoin:round;stroke-linecap:round}
        .other{fill:none;stroke:var(--other);stroke-width:1.2;stroke-linejoin:round;stroke-linecap:round}
        .peer{fill:none;stroke:var(--peer);stroke-width:1;stroke-linejoin:round;stroke-linecap:round}
        .crowd{fill:var(--peer);fill-opacity:.28} .baseline{stroke:var(--baseline);stroke-width:1.4;stroke-dasharray:2
        3} .band{fill:var(--baseline);fill-opacity:.16} .limit{stroke:var(--limit);stroke-width:1.5;stroke-dasharray:7
        4} .beyond{fill:var(--limit);fill-opacity:.08} .onset{stroke:var(--onset);stroke-width:1.6} svg
        text.at-onset{fill:var(--onset);font-weight:600} svg text.at-limit{fill:var(--limit)} svg
        text.at-baseline{fill:var(--baseline)} svg text.strong{fill:var(--text);font-weight:600}
        .mark-harm{fill:var(--critical)}.mark-change{fill:var(--limit)}.mark-stage{fill:var(--onset)}
        .bar{fill-opacity:.75}
        .bar.critical{fill:var(--critical)}.bar.warning{fill:var(--warning)}.bar.info{fill:var(--info)}
        .unsure{fill-opacity:.25}
        .unsure.critical{fill:var(--critical)}.unsure.warning{fill:var(--warning)}.unsure.info{fill:var(--info)}
        .part-useful{fill:var(--baseline)}.part-idle{fill:var(--peer)}.part-away{fill:var(--onset)}.part-floor{fill:var(--limit)}
        .part-lost{fill:var(--critical)}.part-recomputed{fill:var(--warning)}.part-missed{fill:var(--cause)}
        .part-rejected{fill:var(--other)}.part-late{fill:var(--unknown)} .gap{fill:var(--peer);fill-opacity:.6}
        .scroll{overflow-x:auto}
        table{border-collapse:collapse;width:100%;min-width:620px;font-size:.92rem;overflow-wrap:break-word}
        th,td{text-align:left;vertical-align:top;padding:.35rem .8rem .35rem 0;border-bottom:1px solid var(--line)}
        th{color:var(--soft);font-weight:600;white-space:nowrap}
        td.when,td.kind,td.num{white-space:nowrap;font-variant-numeric:tabular-nums} td.num,th.num{text-align:right}
        ol.steps{padding-left:1.4rem} ol.steps li{margin:.7rem 0}
        dl.pairs{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;margin:.3rem 0} dl.pairs
        dt{color:var(--soft)} dl.pairs dd{margin:0} summary{cursor:pointer;color:var(--soft);font-size:.87rem}
        footer{margin-top:2.5rem;padding-top:.8rem;border-top:1px solid var(--line);font-size:.87rem;color:var(--soft)}
        @media screen and (max-width:640px){ main{padding:16px 14px 40px} svg{min-width:0} .draw.wide{display:none}
        .draw.narrow{display:block} table.cards{min-width:0} table.cards thead{display:none} table.cards
        tr{display:block;padding:.35rem 0;border-bottom:1px solid var(--line)} table.cards
        td{display:block;padding:.05rem 0;border:0} table.cards td.when,table.cards
        td.kind{display:inline;padding-right:.6rem} } @media print{ body{font-size:10.5pt}
        main{max-width:none;padding:0} .plots{grid-template-columns:1fr 1fr} figure,tr,ol.steps
        li,dl.pairs{break-inside:avoid} h2,h3{break-after:avoid} svg,.draw.wide svg,table{min-width:0} svg
        text{font-size:13px} details{display:none} a[href]::after{content:" (" attr(href) ")";font-size:.85em}
        *{-webkit-print-color-adjust:exact;print-color-adjust:exact} }
"""


def style() -> str:
    """The whole style sheet; paper is always light."""
    dark = f"@media screen and (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}"
    return f":root{{{_variables(LIGHT)}}}{dark}{RULES.strip()}"


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())
