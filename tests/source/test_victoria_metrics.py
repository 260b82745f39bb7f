"""A server that says it is VictoriaMetrics is asked for samples; one that does not hand them out is asked as before."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from inferdoc.errors import SourceError
from inferdoc.source import prometheus_http, raw_reads, victoria_metrics
from inferdoc.source.evaluate import evaluate_tables
from inferdoc.source.export_lines import RawSeries, SampleBudget, read_lines
from inferdoc.source.open import open_source
from inferdoc.source.prometheus_answers import AnswerError
from inferdoc.source.raw_reads import tables_of
from inferdoc.source.reads import Grid, Read
from inferdoc.store.block import absent
from tests.source.fake_server import Answer, matrix, refusal, serving

SIGN = {"X-Server-Hostname": "vm-0"}
BEGIN_MS = 1_700_000_000_000
EVERY_MS = 10_000
RATE = Read("m_total", "rate", ("pod",))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(prometheus_http, "FIRST_PAUSE_SECONDS", 0.01)


def grid(count=6):
    return Grid(BEGIN_MS + 60_001, EVERY_MS, count, EVERY_MS, 50_000, 25_000)


def line(labels, values, times):
    return json.dumps({"metric": labels, "values": values, "timestamps": times}, separators=(",", ":"))


def server(begin_ms=BEGIN_MS, scrapes=20, export=None, most=None):
    """Two pods whose counters rise by 3 and by 5 a scrape. export: what is answered to an export in place of samples;
    most: samples in one answer."""

    def respond(asked):
        if asked.path.endswith("__name__/values"):
            return Answer(200, {"status": "success", "data": ["m_total"]}, dict(SIGN))
        if asked.path.endswith("query_range"):
            answer = matrix(({"pod": "promql"}, [(float(asked.params["start"]), "1")]))
            return Answer(200, answer, dict(SIGN))
        assert asked.path == "/api/v1/export"
        if export is not None:
            return export
        start, end = (float(asked.params[name]) * 1000 for name in ("start", "end"))
        told = [n for n in range(scrapes) if start <= begin_ms + EVERY_MS * n <= end]
        if most is not None and len(told) > most:
            return Answer(400, f"error: 2 series of {'x' * 300}: increase -search.maxSamplesPerQuery", dict(SIGN))
        times = [begin_ms + EVERY_MS * n for n in told]
        lines = [
            line({"__name__": "m_total", "job": "j", "instance": pod, "pod": pod}, [step * n for n in told], times)
            for pod, step in (("a", 3), ("b", 5))
        ]
        return Answer(200, "\n".join(lines) + "\n", dict(SIGN))

    return respond


def rates(url, count=6, **options):
    source = open_source(prometheus=url, **options)
    try:
        source.names(BEGIN_MS, BEGIN_MS + 60_000)
        return source.evaluate([RATE], grid(count), (("job", "=", "j"),))[RATE], source
    finally:
        source.close()


def test_rates_are_evaluated_here_from_what_is_exported():
    with serving(server()) as fake:
        found, source = rates(fake.url, headers={"X-Scope-OrgID": "team-a"})
        (asked,) = [each for each in fake.asked if each.path == "/api/v1/export"]
    assert found.keys == [("a",), ("b",)]
    np.testing.assert_allclose(found.values, [[0.3] * 6, [0.5] * 6])
    assert asked.params["match[]"] == '{__name__="m_total",job="j"}'
    assert asked.headers["X-Scope-OrgID"] == "team-a" and source.warnings == []


def test_samples_serve_the_next_reads_of_the_stretch():
    with serving(server()) as fake:
        source = open_source(prometheus=fake.url)
        source.names(BEGIN_MS, BEGIN_MS)
        source.evaluate([RATE], grid())
        source.evaluate([Read("m_total", "last", ("pod",)), Read("m_total", "increase", ("pod",), width=4)], grid())
        assert sum(each.path == "/api/v1/export" for each in fake.asked) == 1
        source.evaluate([RATE], grid(), (("pod", "=", "a"),))
        assert sum(each.path == "/api/v1/export" for each in fake.asked) == 2
        source.close()


@pytest.mark.parametrize("status", [400, 403, 404, 405])
def test_where_no_samples_are_handed_out_the_servers_rate_is_used_and_that_is_said(status):
    with serving(server(export=Answer(status, "missing route for /api/v1/export", dict(SIGN)))) as fake:
        found, source = rates(fake.url)
        source.evaluate([RATE], grid())
        refused = [each for each in fake.asked if each.path == "/api/v1/export"]
    assert found.keys == [("promql",)]
    assert len(refused) <= 2, "asked by POST and by GET at most, and once"
    (warning,) = source.warnings
    assert f"/api/v1/export: {status}" in warning and "allow that path" in warning


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(401, "who are you", dict(SIGN)), "401 Unauthorized"),
        (Answer(200, "<html>sign in", {"Content-Type": "text/html", **SIGN}), "login page"),
        (Answer(200, '{"metric":{"__name__":"m"},"values":[1,2],"timesta', dict(SIGN)), "cannot be read"),
        (Answer(200, "cannot export: shard 3 is gone", dict(SIGN)), "shard 3 is gone"),
        (refusal(500, "internal", "disk", X_Server_Hostname="vm"), "500"),
    ],
)
def test_a_fault_is_one_line(answer, says):
    with serving(server(export=answer)) as fake, pytest.raises(SourceError, match=re.escape(says)) as caught:
        rates(fake.url)
    assert "\n" not in str(caught.value)


def test_what_is_too_much_for_the_server_is_asked_for_in_halves():
    with serving(server(scrapes=200, most=60)) as fake:
        found, source = rates(fake.url, count=120)
    np.testing.assert_allclose(found.values, np.repeat([[0.3], [0.5]], 120, axis=1))
    assert source.cost.split >= 1


def test_what_is_too_much_to_hold_is_asked_for_in_halves(monkeypatch):
    monkeypatch.setattr(victoria_metrics, "MOST_SAMPLES", 150)
    with serving(server(scrapes=200)) as fake:
        found, source = rates(fake.url, count=120)
    np.testing.assert_allclose(found.values, np.repeat([[0.3], [0.5]], 120, axis=1))
    assert source.cost.split >= 1


def test_what_does_not_fit_however_short_is_told(monkeypatch):
    monkeypatch.setattr(victoria_metrics, "MOST_SAMPLES", 5)
    with serving(server(scrapes=200)) as fake, pytest.raises(SourceError, match="more than 5 samples"):
        rates(fake.url, count=120)


def test_a_limit_is_told_even_where_it_stands_at_the_end_of_a_long_error():
    with serving(server(most=0)) as fake, pytest.raises(SourceError, match=r"increase -search\.maxSamplesPerQuery"):
        rates(fake.url)


def test_long_stretches_are_read_by_the_server_and_that_is_said(monkeypatch):
    monkeypatch.setattr(victoria_metrics, "LONGEST_MS", 3_600_000)
    with serving(server()) as fake:
        found, source = rates(fake.url, count=400)
    assert found.keys == [("promql",)] and "more than 1 hours" in source.warnings[0]


def test_labels_that_the_server_may_have_dropped_are_named():
    wide = {f"l{n}": "x" for n in range(29)}
    export = Answer(200, line({"__name__": "m_total", **wide}, [1], [BEGIN_MS]), dict(SIGN))
    with serving(server(export=export)) as fake:
        _, source = rates(fake.url)
    assert "m_total has 30 labels" in source.warnings[0] and "-maxLabelsPerTimeseries" in source.warnings[0]


# ---- lines ---------------------------------------------------------------------------------------------------------


def test_lines_cut_anywhere_give_the_same_series():
    text = (
        b'{"metric":{"__name__":"m","a":"},\\"values\\":["},"values":[1,+Inf,null],"timestamps":[1,2,3]}\n\n'
        b'{"metric":{"__name__":"n"},"values":["-Infinity",2.5,1e3],"timestamps":[1,2,3]}'
    )
    for size in (1, 7, 50, 500):
        chunks = (text[at : at + size] for at in range(0, len(text), size))
        one, other = read_lines(chunks, SampleBudget(100), {})
        assert (one.name, one.labels) == ("m", {"a": '},"values":['})
        assert one.values[:2].tolist() == [1.0, np.inf] and absent(one.values).tolist() == [False, False, True]
        assert other.values.tolist() == [-np.inf, 2.5, 1000.0]
        assert one.times_ms is other.times_ms


def test_a_failed_answer_gives_back_what_it_took():
    budget = SampleBudget(100)
    with pytest.raises(AnswerError):
        read_lines([b'{"metric":{},"values":[1,2],"timestamps":[1,2]}\noops'], budget, {})
    assert budget.taken == 0


# ---- tables --------------------------------------------------------------------------------------------------------


def raw(name, times, labels, first=0.0):
    times = np.array(times, np.int64)
    return RawSeries(name, labels, times, first + np.arange(len(times), dtype=float))


def gaps(tables):
    return sum(int(table.samples.gaps.sum()) for table in tables)


def test_series_of_one_scrape_share_a_table():
    scrapes = list(range(0, 100_000, 1000))
    target = {"job": "j", "instance": "i", "pod": "p"}
    found = tables_of(
        [
            raw("m", scrapes, {**target, "le": "1"}),
            raw("m", scrapes, {**target, "le": "2"}),
            raw("late", scrapes[70:], {**target, "reason": "stop"}),
            raw("up", scrapes, dict(target)),
        ]
    )
    assert len(found) == 1 and found[0].target == target
    assert found[0].layout.names == ["late", "m", "m", "up"]


def test_two_servers_that_scrape_one_target_do_not_make_each_other_gaps():
    target = {"job": "j", "instance": "i"}
    series = [
        raw("m", range(shift, 100_000, 1000), {**target, "replica": str(shift), "le": le})
        for shift in (0, 333)
        for le in "12"
    ]
    found = tables_of(series)
    assert len(found) == 2 and gaps(found) == 0 and series == []


def test_pods_that_push_to_one_address_do_not_make_each_other_gaps():
    found = tables_of([raw("m", range(n * 7, 100_000, 1000), {"job": "otlp", "pod": str(n)}) for n in range(50)])
    assert len(found) == 50 and gaps(found) == 0


def test_more_lines_of_one_series_are_one_series():
    labels = {"job": "j", "instance": "i"}
    parts = [
        raw("up", range(0, 60_000, 1000), labels),
        raw("m", range(0, 30_000, 1000), labels),
        raw("m", range(30_000, 60_000, 1000), labels, first=30.0),
    ]
    (table,) = tables_of(parts)
    read = Read("m", "last", ("instance",))
    found = evaluate_tables([table], [read], Grid(0, 1000, 60, 1000, 5000, 500))[read]
    assert found.values.tolist() == [list(map(float, range(60)))]


def test_targets_alike_share_a_layout():
    series = [
        raw(name, range(n, 60_000, 1000), {"job": "j", "instance": str(n), "engine": "0"})
        for n in range(5)
        for name in ("a", "b")
    ]
    tables = tables_of(series)
    assert len(tables) == 5 and len({id(table.layout) for table in tables}) == 1


def test_what_is_held_is_bounded(monkeypatch):
    monkeypatch.setattr(raw_reads, "MOST_SAMPLES", 50)
    asked = []

    def export(names, start_ms, end_ms, match):
        asked.append(list(names))
        return [raw(name, range(start_ms, end_ms, 20_000), {"job": "j", "instance": "i"}) for name in names]

    reads = raw_reads.RawReads(lambda: None)
    for name in ("a", "b", "a", "a"):
        reads.evaluate([Read(name, "last", ("job",))], Grid(0, 1000, 5, 1000, 5000, 2500), (), export)
    assert asked == [["a"], ["b"], ["a"]]
