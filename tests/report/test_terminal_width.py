"""The text of every command that looks at a fleet fits the terminal, and folding loses nothing."""

from __future__ import annotations

import pytest

from inferdoc.report.wrapping import TABLES, Columns, fitted, marked
from tests.cli.command import alone, call

__all__ = ["alone"]

COMMANDS = (
    ("diagnose", "--until", "latest"),
    ("diagnose", "--until", "latest", "-v"),
    ("doctor",),
    ("doctor", "-v"),
    ("audit", "--until", "latest"),
    ("audit", "--until", "latest", "-v"),
    ("slo", "show", "--until", "latest"),
    ("slo", "suggest"),
    ("signals",),
    ("signals", "--health"),
    ("headroom", "--until", "latest", "--since", "20m", "--tz", "UTC"),
    ("headroom", "--until", "latest", "--since", "20m", "--tz", "UTC", "-v"),
    ("cost", "--until", "latest", "--since", "20m"),
    ("cost", "--until", "latest", "--since", "20m", "-v"),
)
STORES = ("demo-two-tiers", "kv-transfer-backlog", "kv-preemption-thrash")
"""Two tiers with roles and a router, one tier with roles and links, one pod."""


@pytest.fixture(scope="module", params=STORES)
def store(request, simulated, tmp_path_factory):
    """A store with a short path, as people have them: a path is one word, and words are not broken."""
    place = tmp_path_factory.mktemp("s") / "fleet.db"
    place.symlink_to(simulated.of(request.param).store)
    return place


@pytest.mark.parametrize("line", COMMANDS, ids=" ".join)
def test_text_fits_the_terminal_and_prints_the_same(store, monkeypatch, line):
    monkeypatch.chdir(store.parent)
    words = {}
    for columns in (80, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        done = call(*line, "--store", "fleet.db")
        assert done.out, done.err
        long = [each for each in done.out.splitlines() if len(each) > columns]
        assert not [each for each in long if not each.lstrip().startswith("$ ")], line
        words[columns] = sorted(done.out.split())
    if line[0] in ("doctor", "signals", "cost"):
        assert words[80] == words[200]


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_the_list_of_signals_fits(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = call("signals", "--list").out.splitlines()
    assert max(map(len, lines)) <= columns and len(lines) > 100


ROWS = [
    (marked(" ", "signal"), "pod", "value", "band"),
    (marked("!", "waiting"), "vllm-decode-0", "1,000 requests", "at most 5 requests"),
    (marked(" ", "kv_usage"), "not visible: scrape the page of the engine, with the label of the pod"),
]


@pytest.mark.parametrize("columns", [None, 60, 200])
def test_the_widest_column_folds_first_and_no_word_is_lost(monkeypatch, columns):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", str(columns))
    table = Columns(ROWS, 200, right=(2,))
    assert table.page == (columns or TABLES)
    lines = [line for row in ROWS for line in table.lines(row)]
    assert max(map(len, lines)) <= table.page
    shown = " ".join(lines).split()
    assert sorted(shown) == sorted(word for row in ROWS for cell in row for word in cell.split())
    begin = table.begin(1)
    assert [line[begin - 1 : begin + 3] for line in lines[:2]] == [" pod", " vll"]


def test_words_that_do_not_fit_side_by_side_are_broken_and_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    row = ("a" * 50, "b" * 40)
    lines = list(Columns([row], 60).lines(row))
    assert max(map(len, lines)) <= 60
    assert "".join(lines).count("a") == 50 and "".join(lines).count("b") == 40


def test_a_long_line_hangs_below_its_lead_and_commands_stay_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    words = "one two three four five six seven eight nine ten eleven twelve"
    first, second = fitted([f"newest      {words}"])
    assert first.startswith("newest      one") and second.startswith(" " * 12) and second[12] != " "
    assert f"{first} {second}".split() == ["newest", *words.split()]
    command = f"   $ inferdoc diagnose {words} --store a-store.db"
    assert list(fitted([command, "short"])) == [command, "short"]
