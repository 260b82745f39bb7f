"""The diagnosis on a terminal and in a ticket."""

from __future__ import annotations

import re
from itertools import pairwise

import click
import pytest

from inferdoc import diagnose, open_source
from inferdoc.judging.model import Rival
from inferdoc.report import render
from inferdoc.report.brief import members_line
from inferdoc.words import figure
from tests.contract.labels import LABELS

LEAK = re.compile(r"\b(None|nan|inf|Outcome|np\.float64)\b|\{\w+\}|\de\+\d")


@pytest.fixture(scope="module", params=LABELS, ids=[label.name for label in LABELS])
def answer(request, store_of):
    source = open_source(store=store_of(request.param.name))
    found = diagnose(source, since=request.param.since)
    source.close()
    return found


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (None, "s", "nothing"),
        (float("nan"), "s", "nothing"),
        (0.0237, "s", "23.7 ms"),
        (12.0, "s", "12 s"),
        (0.0000071, "s", "7.1 µs"),
        (0, "s", "0 ms"),
        (0.953, "ratio", "95.3 %"),
        (1, "ratio", "100 %"),
        (1.2e7, "bytes/s", "12 MB/s"),
        (3.4e12, "bytes", "3.4 TB"),
        (500, "bytes/s", "500 bytes/s"),
        (1, "bool", "yes"),
        (0, "bool", "no"),
        (2.5, "1/s", "2.5/s"),
        (0.0153, "s/token", "15.3 ms/token"),
        (12345.6, "tokens", "12,346 tokens"),
        (7, "", "7"),
    ],
)
def test_numbers_as_people_read_them(value, unit, words):
    assert figure(value, unit) == words


def test_lines_fit_a_terminal_and_end_where_they_end(answer):
    for detail in range(3):
        lines = render(answer, "text", detail=detail).splitlines()
        assert lines[0].startswith(answer.verdict.upper()) and (detail == 0 or answer.source.location in lines[0])
        for line in lines[1:]:
            assert line == line.rstrip() and "\t" not in line
            assert len(line) <= 122 or line.lstrip().startswith(("time per request", "$")), line


def test_nothing_reads_like_code(answer):
    for form in ("text", "markdown"):
        words = render(answer, form, detail=2)
        found = LEAK.search(words)
        assert found is None, (form, words[max(0, found.start() - 60) : found.end() + 20])


def test_text_prints_what_the_document_prints(answer):
    brief = " ".join(render(answer, "text", detail=1).split())
    for finding in answer.findings:
        assert finding.title in brief and finding.id in brief
        assert finding.severity in brief and finding.certainty in brief
        for pod in finding.scope.pods[:4]:
            assert pod in brief
    if answer.not_judged:
        assert f"not evaluated {len(answer.not_judged)} cause" in brief
    whole = " ".join(render(answer, "text", detail=2).split())
    assert all(item.id in whole for item in answer.not_judged)
    assert f"coverage: {answer.coverage.pods} pod" in brief


def test_the_first_screen_has_twelve_lines(answer, monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    lines = render(answer, "text").splitlines()
    assert len(lines) <= 12
    if answer.findings:
        first = answer.findings[0]
        assert lines[1] == first.title and any(first.runbook in line for line in lines if line.startswith("read on"))
        words = [line[:10].strip() for line in lines[2:]]
        assert {"cause", "where", "since", "impact", "read on"} <= set(words)
        assert any(item.statement[:60] in line for item in first.evidence if item.role == "harm" for line in lines)


@pytest.mark.parametrize("detail", [0, 1, 2])
@pytest.mark.parametrize("columns", [60, 80])
def test_lines_fit_the_terminal(answer, columns, detail, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    long = [line for line in render(answer, "text", detail=detail).splitlines() if len(line) > columns]
    folds = [line for line in long if " " in line.strip() and not line.lstrip().startswith("$ ")]
    assert not [line for line in folds if " " in line.strip()[columns // 2 :]], "but a word that cannot be broken"


def test_markdown_tables_are_whole(answer):
    lines = render(answer, "markdown").splitlines()
    for before, line in pairwise(lines):
        if line.startswith("| --- "):
            assert before.count("|") == line.count("|")
    for line in lines:
        if line.startswith("|"):
            assert line.endswith("|") and line.replace("\\|", "").count("|") in (4, 5)


def test_colour_marks_the_severity_and_can_be_taken_off(answer):
    coloured, plain = render(answer, "text", colour=True), render(answer, "text")
    assert "\x1b[" in coloured and "\x1b[" not in plain
    assert click.unstyle(coloured) == plain


def test_a_contradicted_cause_is_no_candidate_of_its_family():
    contradicted = Rival("no-ready-endpoints", 0.73, ["requests arrive"], ["Endpoints ready is 4"], [], None)
    possible = Rival("router-overloaded", 0.02, ["requests wait"], [], [], None)
    assert members_line([contradicted, possible]) == ("one of", "router-overloaded 2%")
    assert members_line([contradicted]) == ("closest", "no-ready-endpoints, but endpoints ready is 4")
