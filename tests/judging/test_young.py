"""A source that began after the trouble did: what its first counters tell of the time before."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import perturb
from inferdoc import diagnose, open_source
from inferdoc.collect.openmetrics_file import read_openmetrics
from inferdoc.judging.references.providers import since_source_start
from inferdoc.source.base import Scrapes
from inferdoc.store.importer import import_columns
from inferdoc.store.store import Store
from tests.conftest import recording_path
from tests.contract.labels import LABELS

NAMED = ("prefix-unstable-prompt", "spec-acceptance-decay", "demand-beyond-capacity", "kv-transfer-backlog")
BY_NAME = {label.name: label for label in LABELS}
MINUTE_MS = 60_000


def samples_of(name: str):
    with recording_path(name).open("rb") as stream:
        return read_openmetrics(stream)


def answer_of(samples, path):
    with Store.open(path, "w") as store:
        import_columns(store, samples, "young")
    source = open_source(store=path)
    answer = diagnose(source, since="10m")
    source.close()
    return answer


@pytest.mark.parametrize("name", NAMED)
def test_the_counters_of_the_first_scrape_tell_what_was_usual(name, tmp_path):
    label = BY_NAME[name]
    answer = answer_of(perturb.begun(samples_of(name), 1000 * (label.onset + 30)), tmp_path / "young.db")
    assert answer.findings[0].id in label.expected
    assert answer.window.baseline.kind in ("lifetime", "absolute")
    assert all(finding.certainty != "proven" for finding in answer.findings)


@pytest.mark.parametrize("name", [label.name for label in LABELS if label.control])
def test_a_start_that_was_shorter_than_what_was_watched_is_no_past(name, tmp_path):
    assert not answer_of(samples_of(name), tmp_path / "young.db").findings


def session(minutes: float, before: bool):
    """A source whose scrapes begin so many minutes before the end of the window; before: it has others further back."""
    end_ms = 100 * MINUTE_MS
    times = np.arange(end_ms - round(minutes * MINUTE_MS), end_ms + 1, 15_000)
    source = SimpleNamespace(names=lambda start_ms, end_ms: {"up"} if before else set())
    grid = SimpleNamespace(end_ms=end_ms, interval_ms=15_000)
    scrapes = [Scrapes({}, times, np.ones(len(times))), Scrapes({}, times[:0], np.ones(0))]
    return SimpleNamespace(source=source, frame=SimpleNamespace(grid=grid), scrapes=scrapes)


def test_a_young_source_begins_with_its_first_scrape():
    life = since_source_start(session(10, before=False))
    assert (life.begin_ms, life.within_ms, life.least_seconds) == (90 * MINUTE_MS, 30_000, 600.0)


@pytest.mark.parametrize(("minutes", "before"), [(31, False), (10, True)], ids=["old enough", "away for a while"])
def test_a_source_with_a_past_is_not_young(minutes, before):
    assert since_source_start(session(minutes, before)) is None


def test_without_a_scrape_there_is_no_beginning():
    empty = session(10, before=False)
    empty.scrapes = empty.scrapes[1:]
    assert since_source_start(empty) is None
