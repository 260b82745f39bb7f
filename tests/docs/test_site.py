"""The documentation site as built: a page per cause at its stable address, no broken internal link, nothing loaded
from elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from inferdoc.catalogue.load import load_catalogue

ROOT = Path(__file__).resolve().parents[2]
CAUSES = sorted(load_catalogue().recipes)
MISSING = "the documentation generator is not installed: make docs, or pip install -e '.[docs]'"


class Links(HTMLParser):
    """What a page links to, what a browser loads for it, its ids and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(given["href"])
        if "src" in given:
            self.loads.append(given["src"])

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for module in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(module, reason=MISSING)
    output = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, str(ROOT / "docs" / "site" / "build.py"), str(output)]
    built = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert built.returncode == 0, built.stderr
    return output


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    return {path: Links(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}


def test_every_cause_has_its_page_at_its_stable_address(site: Path, pages: dict[Path, Links]) -> None:
    listed = pages[site / "runbooks" / "index.html"]
    assert len(CAUSES) >= 20
    for cause in CAUSES:
        page = pages[site / "runbooks" / cause / "index.html"]
        assert f"inferdoc runbook {cause}" in " ".join("".join(page.words).split())
        assert {"meaning", "mitigation", "first-five-minutes", "verify"} <= page.ids
        assert f"{cause}/" in listed.links


def test_no_internal_link_is_broken(site: Path, pages: dict[Path, Links]) -> None:
    assert list(broken(site, pages)) == []


def test_the_checker_sees_what_is_broken(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "index.html").write_text('<h1 id="here">x</h1>')
    home = tmp_path / "index.html"
    home.write_text(
        '<a href="a/#here">1</a><a href="a/#gone">2</a><a href="b/">3</a><a href="https://x.example/">4</a>'
    )
    pages = {path: Links(path.read_text()) for path in tmp_path.rglob("*.html")}
    assert list(broken(tmp_path, pages)) == ["index.html: a/#gone", "index.html: b/"]


def broken(site: Path, pages: dict[Path, Links]) -> Iterator[str]:
    """Links and loads inside the site that lead nowhere."""
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            inside = target.is_relative_to(site.resolve()) and target.is_file()
            known = pages.get(site / target.relative_to(site.resolve())) if inside else None
            if not inside or (parts.fragment and known is not None and parts.fragment not in known.ids):
                yield f"{path.relative_to(site)}: {link}"


def test_nothing_is_loaded_from_elsewhere(pages: dict[Path, Links]) -> None:
    outside = {load for page in pages.values() for load in page.loads if urlsplit(load).netloc}
    assert outside == set()


def test_the_schema_is_published(site: Path, pages: dict[Path, Links]) -> None:
    if not (ROOT / "docs" / "diagnosis.schema.json").is_file():
        pytest.skip("there is no docs/diagnosis.schema.json")
    schema = json.loads((site / "diagnosis.schema.json").read_text("utf-8"))
    page = pages[site / "docs" / "diagnosis-json" / "index.html"]
    assert {name.lower() for name in schema["$defs"]} <= page.ids
    assert "../../diagnosis.schema.json" in page.links
