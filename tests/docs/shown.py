"""The `inferdoc` commands that pages show: lines of fenced shell blocks, and spans within a sentence."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from inferdoc.cli.main import COMMANDS

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
SHELL = ("", "sh", "bash", "shell", "console")
COMMENT = re.compile(r"(^|\s)#.*$")
SEPARATORS = re.compile(r"^[;&|()]+$")


@dataclass(frozen=True)
class Shown:
    """One command. words: what stands after `inferdoc`; reads, writes: the files of `<` and `>`; sentence: whether it
    stands in a sentence, where it may be no more than a name."""

    page: str
    words: tuple[str, ...]
    reads: str | None = None
    writes: str | None = None
    sentence: bool = False

    @property
    def name(self) -> str:
        """The command, behind the options of `inferdoc` itself."""
        return next((word for word in self.words if word in COMMANDS), self.words[0])

    @property
    def text(self) -> str:
        return shlex.join(("inferdoc", *self.words))


def shown(page: Path) -> Iterator[Shown]:
    """The commands of a page in order: those of blocks first, then those of sentences. What a generator wrote into it
    counts as well."""
    text = page.read_text("utf-8")
    for fence in FENCE.finditer(text):
        if fence[2] in SHELL:
            for line in re.sub(r"\\\n\s*", " ", fence[3]).splitlines():
                yield from of_line(page.name, line)
    for span in re.findall(r"`([^`]+)`", FENCE.sub("", text)):
        for one in of_line(page.name, " ".join(span.split())):
            yield replace(one, sentence=True)


def of_line(page: str, line: str) -> Iterator[Shown]:
    """The commands of one line of a shell: what is joined by `&&`, `|` or `;` counts one by one."""
    if not re.search(r"\binferdoc ", line):
        return
    lexer = shlex.shlex(COMMENT.sub("", line), posix=True, punctuation_chars=True)
    lexer.commenters = ""
    lexer.whitespace_split = True
    part: list[str] = []
    for token in [*lexer, ";"]:
        if not SEPARATORS.match(token):
            part.append(token)
            continue
        if part[:1] == ["inferdoc"] and len(part) > 1:
            yield _redirected(page, part[1:])
        part = []


def _redirected(page: str, words: list[str]) -> Shown:
    files: dict[str, str | None] = {"<": None, ">": None}
    kept: list[str] = []
    while words:
        word = words.pop(0)
        if word in files and words:
            files[word] = words.pop(0)
        else:
            kept.append(word)
    return Shown(page, tuple(kept), files["<"], files[">"])
