"""A folder with one report per incident, each replaced as it goes on."""

from __future__ import annotations

from pathlib import Path

import msgspec

from inferdoc.config_sections import OutputSection
from inferdoc.escaping import code, markdown
from inferdoc.escaping import link as linked
from inferdoc.judging.model import Diagnosis
from inferdoc.replacing import replace_file
from inferdoc.report import render
from inferdoc.serve.note import Note
from inferdoc.serve.outputs.sending import PostError

ENDINGS = {"markdown": "md", "json": "json", "html": "html"}


def write(note: Note, section: OutputSection, answer: Diagnosis | None, page: str | None) -> None:
    """Write the report. Raises PostError."""
    folder = Path(section.folder or ".")
    text = _words(note) if answer is None or section.format == "markdown" else ""
    if section.format == "json":
        text = msgspec.json.format(msgspec.json.encode({"incident": note, "diagnosis": answer}), indent=2).decode()
    elif section.format == "html" and answer is not None:
        text = page or render(answer, "html")
    elif answer is not None:
        text += "\n" + render(answer, "markdown")
    ending = ENDINGS[section.format if answer is not None or section.format == "json" else "markdown"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / f"{note.incident}.{ending}", (text.rstrip() + "\n").encode())
    except OSError as error:
        raise PostError(f"{folder}: the report cannot be written: {error.strerror or error}") from None


def _words(note: Note) -> str:
    lines = [f"# {markdown(note.title)}", ""]
    lines += [f"- {name}: {markdown(words)}" for name, words in note.facts]
    lines += [f"- {linked(words, url)}" for words, url in note.links]
    return "\n".join([*lines, f"- incident: {code(note.incident)}", ""])
