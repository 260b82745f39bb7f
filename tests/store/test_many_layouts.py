"""Of thousands of layouts only the series that are asked for are numbered, and the answers stay the same."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.store import Store, layouts, reader
from inferdoc.store.matrix import ColumnLookup
from tests.store.pages import layout_of, page_of, samples_of

NAMES = ("load", "queue", "heat", "power")


@pytest.fixture
def store(tmp_path):
    """Five targets whose series are labelled otherwise each, on some of two layouts."""
    path = tmp_path / "many.db"
    with Store.open(path, "w") as own:
        for pod in range(5):
            series = [(name, {"gpu": f"{pod}-{gpu}"}) for name in NAMES for gpu in range(3)]
            for turn in range(6):
                layout = layout_of(*(series if turn < 4 else series[:-2]))
                values = [pod + turn + place for place in range(len(layout.series))]
                own.writer.append({"pod": f"p{pod}"}, 1_000_000 + 15_000 * turn, page_of(layout, values))
    return path


@pytest.mark.parametrize("names", [{"load"}, {"queue", "power"}, set(NAMES)])
def test_the_same_samples_are_read(store, names, monkeypatch):
    with Store.open(store) as plain:
        expected = samples_of(plain.blocks(0, 2_000_000, frozenset(names)))
        counts = plain.sample_counts(0, 2_000_000)
    monkeypatch.setattr(reader, "_MANY_LAYOUTS", 1)
    with Store.open(store) as narrow:
        narrow.is_narrow = True
        assert samples_of(narrow.blocks(0, 2_000_000, frozenset(names))) == expected
        assert {key[0] for key in narrow.layouts.keys} == names
        told = narrow.sample_counts(0, 2_000_000, None, names)
        assert {name: told[name] for name in names} == {name: counts[name] for name in names}


def test_what_is_asked_for_later_is_read_as_well(store, monkeypatch):
    monkeypatch.setattr(reader, "_MANY_LAYOUTS", 1)
    with Store.open(store) as plain, Store.open(store) as narrow:
        narrow.is_narrow = True
        for names in ({"load"}, {"power"}, None, {"heat"}):
            wanted = None if names is None else frozenset(names)
            expected = samples_of(plain.blocks(0, 2_000_000, wanted))
            assert expected and samples_of(narrow.blocks(0, 2_000_000, wanted)) == expected
        assert narrow.name_spans(0, 2_000_000) == plain.name_spans(0, 2_000_000)
        assert narrow.sample_counts(0, 2_000_000) == plain.sample_counts(0, 2_000_000)


@pytest.mark.parametrize("most", [2, 1 << 14])
def test_names_are_told_by_what_is_read_for_the_next_question(store, most, monkeypatch):
    monkeypatch.setattr(reader, "_MANY_LAYOUTS", 1)
    monkeypatch.setattr(layouts, "_MOST_NAMES", most)
    with Store.open(store) as plain, Store.open(store) as narrow:
        narrow.is_narrow = True
        assert narrow.name_spans(0, 2_000_000, {"load"}) == plain.name_spans(0, 2_000_000)
        read = []
        monkeypatch.setattr(narrow.layouts, "_read", read.append)
        wanted = frozenset({"load"})
        assert samples_of(narrow.blocks(0, 2_000_000, wanted)) == samples_of(plain.blocks(0, 2_000_000, wanted))
        assert not read


@pytest.mark.parametrize("columns", [[3, 7, 9_000_000], [9_000_000, 3, 7]])
def test_columns_are_found_however_many_series_there_are(columns):
    lookup = ColumnLookup.of(np.array(columns, np.int64))
    asked = np.array([7, 3, 5, 9_000_001, -4, 9_000_000], np.int64)
    expected = [columns.index(each) if each in columns else -1 for each in asked.tolist()]
    assert lookup.columns(asked).tolist() == expected
