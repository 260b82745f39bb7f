"""Of thousands of layouts only the series that are asked for are numbered, and the answers stay the same."""

from __future__ import annotations

import pytest

from inferdoc.store import Store, reader
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
