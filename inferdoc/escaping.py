"""Words of others (labels, file names, addresses, answers of servers) on their way to a reader: one way per format.

A terminal obeys control characters, a Markdown viewer links and HTML, a browser markup; all of these can stand in a
metric label. Machine formats (JSON, OpenMetrics, CSV) stay exact: what is written there reads back as it was.

Sources: ECMA-48 (C0, C1, CSI, OSC), Unicode TR 36 (bidirectional and invisible characters), CommonMark 0.31 and GitHub
Flavored Markdown 0.29; Slack's mrkdwn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape
from unicodedata import combining, east_asian_width
from urllib.parse import quote

_BREAKS = str.maketrans(dict.fromkeys("\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029", " "))
"""White space that would end or move a line: one space, as where text is wrapped."""
_LINK = re.compile(r"@|://|www\.|#\d", re.IGNORECASE)
"""What GitHub and others make a link, a mention or a reference of, even when it is escaped."""
_FENCE = re.compile("`+")
_URL = ":/?#[]@!$&'()*+,;=%-._~"
"""Characters of an address that stay (RFC 3986)."""
_EMPHASIS = r"(?<![^\W_])_|_(?![^\W_])"
"""Underscores that make emphasis. One between letters makes none, so that names of signals stay legible."""
_MARKUP = re.compile(rf"[\\`*\[\]<>|~&$]|{_EMPHASIS}")
"""What is markup anywhere in a line."""
_MRKDWN = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""What Slack escapes: https://docs.slack.dev/messaging/formatting-message-text#escaping"""
_SYSTEMD = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t", "\r": r"\r"})
_LOOKALIKES = str.maketrans({"*": "∗", "~": "∼", "`": "ˋ"})
_LINE_START = re.compile(r"\A(?:[-+=#:]|\d+(?=[.)]))")
"""What makes a heading, a list or a rule at the start of a line."""


def one_line(text: str) -> str:
    """Text as it may stand within a line of a terminal: breaks are spaces, what cannot be printed (control,
    bidirectional, invisible and unassigned characters, lone surrogates) is written as \\u001b."""
    return lines(text.translate(_BREAKS))


def lines(text: str) -> str:
    """The same for whole lines: the line feeds stay. Within JSON the result still says the same."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _code_point(c) for c in text)


def page(parts: Iterable[str]) -> str:
    """Lines of a terminal, each of them one line whatever stands in it."""
    return "\n".join(map(one_line, parts))


def _code_point(character: str) -> str:
    """\\uXXXX as JSON writes it: two of them beyond the first 65,536 characters."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def markdown(text: str) -> str:
    """Words in Markdown, also in the cell of a table: no link, image, HTML, heading or emphasis comes of them.
    Addresses and mentions, which some viewers link however they are escaped, stand as code."""
    line = " ".join(map(_word, one_line(text).split(" "))).strip()
    return _LINE_START.sub(lambda start: start[0] + "\\" if start[0].isdigit() else "\\" + start[0], line)


def _word(word: str) -> str:
    if _LINK.search(word):
        return "\\|".join(map(code, word.split("|")))
    return _MARKUP.sub(lambda mark: "\\" + mark[0], word)


def code(text: str) -> str:
    """A code span of Markdown, also in the cell of a table. Empty text gives none."""
    words = one_line(text).strip()
    if not words:
        return ""
    fence = "`" * (max(map(len, _FENCE.findall(words)), default=0) + 1)
    room = " " if words.startswith("`") or words.endswith("`") else ""
    return f"{fence}{room}{words}{room}{fence}"


def cell_code(text: str) -> str:
    """A code span in the cell of a table, where a bar is escaped even in code."""
    return code(text).replace("|", "\\|")


def link(words: str, url: str | None) -> str:
    """A link of Markdown to a page of the web; without one, or with an address of another kind, the words as code."""
    if url is None or not is_web(url):
        return code(words)
    return f"[{markdown(words)}](<{quote(url, safe=_URL)}>)"


def is_web(url: str) -> bool:
    """Whether an address is one that a reader may follow: `javascript:` and the like are not."""
    return url.lower().startswith(("http://", "https://"))


def html(text: str) -> str:
    """Words in HTML and SVG, as text or as the value of an attribute."""
    return escape(one_line(text))


def slack(text: str) -> str:
    """Words in mrkdwn of Slack: no mention, link or emphasis comes of them. Slack has no escape for `*`, `_`, `~` and
    the backtick, so similar characters stand for them. Addresses become links unless the text object has
    `"verbatim": true` (https://docs.slack.dev/reference/block-kit/composition-objects/text-object)."""
    words = text.translate(_MRKDWN).translate(_LOOKALIKES)
    return re.sub(_EMPHASIS, "ˍ", words)


def slack_code(text: str) -> str:
    """A code block of Slack: no mention, link or end of the block comes of the text."""
    return f"```{text.translate(_MRKDWN).replace('```', 'ˋˋˋ')}```"


def slack_link(words: str, url: str) -> str:
    """A link of Slack."""
    return f"<{url.translate(_MRKDWN).replace('|', '%7C')}|{slack(words)}>"


def promql(text: str) -> str:
    """A string of PromQL with its quotes
    (https://prometheus.io/docs/prometheus/latest/querying/basics/#string-literals)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped if escaped.isprintable() else "".join(map(_promql, escaped))}"'


def _promql(character: str) -> str:
    if character.isprintable():
        return character
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"


def label_pairs(labels: Mapping[str, str]) -> str:
    """Labels as they are listed between braces: `a="b", c="d"`."""
    return ", ".join(f"{label}={promql(value)}" for label, value in labels.items())


def go_template(text: str) -> str:
    """Words in an annotation, where Prometheus and Alertmanager evaluate `{{`."""
    return text.replace("{{", '{{ "{{" }}')


def systemd(word: str) -> str:
    """A word of a command line in a unit: `%`, `$` and what ends a word or a line mean nothing
    (https://www.freedesktop.org/software/systemd/man/latest/systemd.service.html#Command%20lines)."""
    doubled = word.replace("%", "%%").replace("$", "$$")
    if doubled and not re.search(r"[^\w%$/:=.,+@-]", doubled):
        return doubled
    return f'"{doubled.translate(_SYSTEMD)}"'


def cut(line: str, columns: int) -> str:
    """A printable line, possibly with colours, cut to N columns of a terminal. Wide characters (East Asian Width W
    or F) take two, combining ones none."""
    kept, used = [], 0
    for colour, character in _CELLS.findall(line):
        used += 0 if colour or combining(character) else 2 if east_asian_width(character) in "WF" else 1
        if used <= columns or colour:
            kept.append(colour or character)
    return "".join(kept)


_CELLS = re.compile(r"(\x1b\[[0-9;]*m)|(.)", re.DOTALL)
