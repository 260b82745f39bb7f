"""Builds the documentation site: `python docs/site/build.py OUTPUT`, or `make docs`.

Lays the Markdown of the repository out in a folder of its own, in the same places, so that links between the files
hold; adds the pages that are made from the catalogue and from the JSON Schema; then runs Sphinx, without the network.
Every cause has its page at /runbooks/<id>/, for the `runbook_base` of the configuration.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inferdoc.catalogue.load import Catalogue, load_catalogue

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ROOT_PAGES = ("README", "CONTRIBUTING", "ARCHITECTURE", "CHANGELOG")
FOR_WHOM = (
    "on-call",
    "one-box",
    "install",
    "gitops",
    "alerts",
    "boards",
    "slo",
    "recipes",
    "troubleshooting",
    "versions",
    "coverage",
    "labels",
)
SCHEMA = ROOT / "docs" / "diagnosis.schema.json"
PLAIN_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
LARGEST_ATTACHMENT = 1 << 20
SCHEMA_LINK = "<a href='../../diagnosis.schema.json'>diagnosis.schema.json</a>"


def main(output: Path) -> int:
    """Build the site; answers the exit code of Sphinx."""
    with tempfile.TemporaryDirectory(prefix="inferdoc-docs-") as folder:
        stage = Path(folder) / "pages"
        lay_out(stage)
        command = [sys.executable, "-m", "sphinx", "-b", "dirhtml", "-q", "-j", "auto", "-c", str(stage)]
        ended = subprocess.run([*command, "-d", f"{folder}/trees", str(stage), str(output)], check=False)
    if ended.returncode == 0:
        print(f"documentation: {output / 'index.html'}")
    return ended.returncode


def lay_out(stage: Path) -> None:
    """Put all pages of the site into a folder, ready for Sphinx."""
    catalogue = load_catalogue()
    (stage / "_extra").mkdir(parents=True)
    (stage / "_static").mkdir()
    shutil.copy(HERE / "conf.py", stage)
    shutil.copy(HERE / "site.css", stage / "_static")
    for path in sources():
        copy_page(path, stage, catalogue)
    (stage / "runbooks" / "index.md").write_text(causes_page(catalogue), "utf-8")
    if SCHEMA.is_file():
        shutil.copy(SCHEMA, stage / "_extra")
        (stage / "docs").mkdir(exist_ok=True)
        (stage / "docs" / "diagnosis-json.md").write_text(schema_page(json.loads(SCHEMA.read_text("utf-8"))), "utf-8")
    with (stage / "index.md").open("a", encoding="utf-8") as home:
        home.write(contents(stage))


def sources() -> Iterator[Path]:
    """The Markdown files of the repository that are pages of the site."""
    yield from (path for name in ROOT_PAGES if (path := ROOT / f"{name}.md").is_file())
    for folder in ("docs", "runbooks"):
        yield from sorted((ROOT / folder).rglob("*.md"))


def copy_page(path: Path, stage: Path, catalogue: Catalogue) -> None:
    """Copy a page to its place, and the files it links to. The README is the home page."""
    place = path.relative_to(ROOT)
    text = path.read_text("utf-8")
    for match in PLAIN_LINK.finditer(text):
        target = (path.parent / match[1]).resolve()
        attached = target.is_file() and target.suffix != ".md" and target.is_relative_to(ROOT)
        if attached and target.stat().st_size <= LARGEST_ATTACHMENT:
            copy = stage / target.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(target, copy)
    if place.parent.name == "runbooks":
        text = with_facts(text, place.stem, catalogue)
    text = re.sub(r"\]\(((?:\.\./)?)README\.md", r"](\1index.md", text)
    copy = stage / ("index.md" if place.name == "README.md" else place)
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(text, "utf-8")


def with_facts(text: str, cause: str, catalogue: Catalogue) -> str:
    """A runbook page with one line under its title: the id and what the cause's declaration says of it."""
    recipe = catalogue.recipes.get(cause)
    if recipe is None:
        return text
    line = (
        f"Cause `{cause}`, phase {recipe.phase}, seen per {recipe.scope}, {recipe.severity}. "
        f"In a terminal: `inferdoc runbook {cause}`."
    )
    title, _, rest = text.partition("\n")
    return f"{title}\n\n{line}\n{rest}"


def causes_page(catalogue: Catalogue) -> str:
    """The list of causes, each with its page."""
    lines = ["# Causes", "", "Everything inferdoc can name, with its runbook page.", ""]
    lines += ["| cause | what it is | phase | per | severity |", "| --- | --- | --- | --- | --- |"]
    pages = sorted(path.stem for path in (ROOT / "runbooks").glob("*.md"))
    for name in pages:
        recipe = catalogue.recipes.get(name)
        cells = "| | | " if recipe is None else f"| {recipe.phase} | {recipe.scope} | {recipe.severity} "
        title = name if recipe is None else recipe.title.replace("|", "\\|")
        lines.append(f"| [`{name}`]({name}.md) | {title} {cells}|")
    listed = "\n".join(pages)
    return "\n".join(lines) + f"\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"


def schema_page(schema: dict[str, Any]) -> str:
    """The JSON of a diagnosis: one table per object, in the order of the document."""
    intro = "What `inferdoc diagnose -o json` writes. Fields may be added, not changed. The schema for programs: "
    lines = [f"# {schema.get('title', 'Diagnosis')}: the JSON", "", f"{intro}{SCHEMA_LINK}.", ""]
    for name, shape in schema.get("$defs", {}).items():
        text = str(shape.get("description", "")).replace("\n", " ")
        lines += [f"## {name}", "", *([text, ""] if text else []), "| field | type |", "| --- | --- |"]
        lines += [f"| `{field}` | {type_words(kind)} |" for field, kind in shape.get("properties", {}).items()]
        lines.append("")
    return "\n".join(lines)


def type_words(kind: dict[str, Any]) -> str:
    """A JSON Schema type for a person."""
    if "$ref" in kind:
        name = str(kind["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in kind:
        return " or ".join(type_words(one) for one in kind["anyOf"])
    if "enum" in kind:
        return ", ".join(f"`{value}`" for value in kind["enum"])
    if kind.get("type") == "array":
        return f"list of {type_words(kind.get('items', {}))}"
    return str(kind.get("type", "anything"))


def contents(stage: Path) -> str:
    """The navigation, for the end of the home page."""
    docs = sorted(str(path.relative_to(stage).with_suffix("")) for path in (stage / "docs").rglob("*.md"))
    measured = [name for name in docs if name.startswith("docs/measurements/")]
    guides = [name for page in FOR_WHOM if (name := f"docs/{page}") in docs]
    groups = {
        "Use it": guides,
        "Causes": ["runbooks/index"],
        "How it works": [name for name in ROOT_PAGES[1:] if (stage / f"{name}.md").is_file()],
        "Reference": [name for name in docs if name not in guides and name not in measured],
        "Measurements": measured,
    }
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"
        for caption, pages in groups.items()
        if pages
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: build.py OUTPUT")
    sys.exit(main(Path(sys.argv[1]).resolve()))
