"""Words of others in each format: printable, inactive, and still legible."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import inferdoc
from inferdoc import escaping

HOSTILE = (
    "\x1b]0;owned\x07",
    "\x1b[2J\x1b[31mHEALTHY\x1b[0m",
    "\x9b31m",
    "a\nHEALTHY\r\n\tb",
    "‮evil⁦",
    "\x00\x7f\xad​﻿",
    "\udcff\ud800",
    "[click](https://evil.example)",
    "![x](http://evil.example/a.png)",
    "<img src=x onerror=alert(1)>",
    "<https://evil.example>",
    "https://evil.example www.evil.example a@evil.example @admin #12",
    "# Healthy",
    "- item\n1. one\n> quote\n---\n===",
    "`code` ``two`` \\`three|four` $x$ ~~gone~~ **bold** _it_ &amp; &#60;b&#62;",
    "x|https://evil.example|y\\",
    "[^1]: note",
    "[a]: http://evil.example",
    '"><script>alert(1)</script>',
    "' onmouseover='x",
    "😀 naïve 漢字",
)
MARKS = [*"[]()<>`*_~|\\#&!$@:/.-+=\n \"'\x1b\u202e", "www.", "http://", "a", "1"]
words = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=[]), max_size=30),
    st.lists(st.sampled_from(MARKS), max_size=25).map("".join),
)


def inert(text: str) -> bool:
    """Whether a terminal obeys nothing in a text of several lines."""
    return all(character == "\n" or character.isprintable() for character in text)


def markdown_tokens(text: str) -> list:
    """The tokens of a page in GitHub's dialect, those inside of lines too."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return [inner for token in parser.parse(text) for inner in (token, *(token.children or ()))]


ACTIVE = {"link_open", "image", "html_inline", "html_block", "em_open", "strong_open", "s_open"}


def assert_inactive(tokens: list, allowed: frozenset[str] = frozenset()) -> None:
    """No link, picture, HTML or emphasis, and nothing in plain words that GitHub would make one of."""
    assert not {t.type for t in tokens} & (ACTIVE - allowed), [t for t in tokens if t.type in ACTIVE - allowed]
    for token in tokens:
        if token.type == "text":
            assert not any(sign in token.content.lower() for sign in ("://", "www.", "@")), token.content


@given(words)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_line_of_a_terminal_stays_one_line_and_prints(text: str) -> None:
    line = escaping.one_line(text)
    assert line.isprintable()
    if text.isprintable():
        assert line == text
    assert escaping.page([text, text]).count("\n") == 1


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_json_says_the_same_after_it_was_made_printable(text: str) -> None:
    document = json.dumps({"label": text}, ensure_ascii=False, indent=1)
    safe = escaping.lines(document)
    assert inert(safe) and json.loads(safe) == {"label": text}


@given(words)
@example("x://")
@settings(max_examples=600, deadline=None, derandomize=True)
def test_words_in_markdown_are_words_wherever_they_stand(text: str) -> None:
    assume(text.strip())
    form = "# {0}\n\n- {0} and {1}\n\n{0}\n\n| a | b |\n| - | - |\n| {0} | {2} |\n"
    plain = [t.type for t in markdown_tokens(form.format("word", "`word`", "`word`"))]
    shown, span = escaping.markdown(text), escaping.code(text)
    cell = escaping.cell_code(text)
    page = form.format(shown, span, cell)
    tokens = markdown_tokens(page)
    assert_inactive(tokens)
    inside = {"text", "code_inline", "text_special"}
    blocks = [kind for kind in (t.type for t in tokens) if kind not in inside]
    assert blocks == [kind for kind in plain if kind not in inside], page
    seen = "".join(t.content for t in tokens if t.type in inside)
    assert inert(seen)
    shown_once = "".join(escaping.one_line(text).split())
    assert "".join(seen.split()).count(shown_once) >= 3 or not shown_once, (text, page)


def test_markdown_stays_legible() -> None:
    assert escaping.markdown("vllm:kv_cache_usage_perc is 98.5 % (limit 90 %), +3 since 10:00") == (
        "vllm:kv_cache_usage_perc is 98.5 % (limit 90 %), +3 since 10:00"
    )


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (None, "`a-cause`"),
        ("javascript:alert(1)", "`a-cause`"),
        ("https://run.books/a cause)>", "[a-cause](<https://run.books/a%20cause)%3E>)"),
    ],
)
def test_links_go_to_pages_of_the_web_only(url: str | None, shown: str) -> None:
    assert escaping.link("a-cause", url) == shown


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, list]] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.words += data


@given(words)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_words_in_html_are_words_in_text_and_in_attributes(text: str) -> None:
    parser = _Tags()
    parser.feed(f'<p title="{escaping.html(text)}">{escaping.html(text)}</p>')
    parser.close()
    assert parser.tags == [("p", [("title", escaping.one_line(text))])]
    assert parser.words == escaping.one_line(text)


def test_reports_escape_in_one_way_and_commands_write_to_the_guarded_streams() -> None:
    package = Path(inferdoc.__file__).parent
    for path in (package / "report").glob("*.py"):
        assert "from html import" not in path.read_text("utf-8"), path
    for path in package.rglob("*.py"):
        allowed = path.name == "streams.py"
        assert allowed or not re.search(r"sys\.__std|os\.write\((1|2),|Console\(stderr", path.read_text("utf-8")), path


@given(words)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_slack_sees_no_markup(text: str) -> None:
    """What is left of its markup: escaped entities, and underscores between letters or digits."""
    shown = escaping.slack(text)
    assert not set("<>*~`") & set(shown)
    assert re.sub("&(amp|lt|gt);", "", shown).count("&") == 0
    assert all(shown[m.start() - 1].isalnum() and shown[m.end()].isalnum() for m in re.finditer("_", shown))
    assert escaping.slack_code(text).count("```") == 2
