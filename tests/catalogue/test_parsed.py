"""Parsed YAML kept between processes: the same values, and nothing that could be wrong."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

import pytest

from inferdoc.catalogue.document import read_yaml
from inferdoc.catalogue.yaml_text import ParsedTexts, parsed_texts
from inferdoc.errors import CatalogueError

TEXT = b"a: [1, 1.0, true, null, two]"
DATA = {"a": [1, 1.0, True, None, "two"], "b": {"c": -0.5}}


def never() -> Any:
    raise AssertionError("parsed again")


def kept_in(path: Path, text: bytes, data: Any) -> ParsedTexts:
    """What the next process finds."""
    texts = ParsedTexts(path)
    assert texts.of(text, lambda: data) == data
    texts.save()
    return ParsedTexts(path)


def test_is_parsed_once(tmp_path: Path) -> None:
    found = kept_in(tmp_path / "new" / "parsed", TEXT, DATA).of(TEXT, never)
    assert found == DATA
    assert [type(value) for value in found["a"]] == [int, float, bool, type(None), str]


def test_an_edited_text_is_parsed(tmp_path: Path) -> None:
    assert kept_in(tmp_path / "parsed", TEXT, DATA).of(TEXT + b" ", lambda: {"new": 1}) == {"new": 1}


@pytest.mark.parametrize("value", [math.nan, datetime.date(2026, 1, 2), (1, 2), {1, 2}, "\ud800", 2**70])
def test_what_would_come_back_otherwise_is_not_kept(tmp_path: Path, value: object) -> None:
    texts = ParsedTexts(tmp_path / "parsed")
    texts.of(TEXT, lambda: {"a": value})
    texts.save()
    assert ParsedTexts(tmp_path / "parsed").of(TEXT, lambda: "parsed again") == "parsed again"


@pytest.mark.parametrize("damage", [lambda raw: raw[:-20], lambda raw: b"", lambda raw: b"\xc1" + raw])
def test_a_damaged_file_is_none(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "parsed"
    kept_in(path, TEXT, DATA)
    path.write_bytes(damage(path.read_bytes()))
    assert ParsedTexts(path).of(TEXT, lambda: "parsed again") == "parsed again"


def test_a_file_of_another_release_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "parsed"
    kept_in(path, TEXT, DATA)
    monkeypatch.setattr("inferdoc.catalogue.yaml_text.__version__", "another")
    assert ParsedTexts(path).of(TEXT, lambda: "parsed again") == "parsed again"


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    texts = ParsedTexts(tmp_path / "file" / "parsed")
    assert texts.of(TEXT, lambda: DATA) == DATA
    texts.save()
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_mistake_is_told_each_time(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("a: 1\na: 2\n")
    for _ in range(2):
        with pytest.raises(CatalogueError, match=r"x\.yaml:2: not valid YAML: 'a' is given twice"):
            read_yaml(file)


def test_the_file_of_the_tests_is_not_the_users() -> None:
    assert "inferdoc-cache-" in str(parsed_texts()._path)
