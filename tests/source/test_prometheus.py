"""The Prometheus source beyond single answers: splitting, falling back, finding the newest sample."""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.errors import SourceError
from inferdoc.source import prometheus, prometheus_http
from inferdoc.source.open import open_source
from inferdoc.source.reads import Grid, Read
from tests.source.fake_server import Answer, matrix, refusal, serving, vector

START_MS = 1_700_000_000_001
READ = Read("m", "rate", ("pod",))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(prometheus_http, "FIRST_PAUSE_SECONDS", 0.01)


def grid(count, step_ms=1000):
    return Grid(START_MS, step_ms, count, 1000, 10_000, 2500)


def steps(params):
    start, end, step = (round(float(params[name]) * 1000) for name in ("start", "end", "step"))
    return range(start, end + 1, step)


def ramp(asked):
    """Each step's value is its number on the grid; a second pod lives only in the second half."""
    points = [(ms / 1000, str((ms - START_MS) // 1000)) for ms in steps(asked.params)]
    late = [p for p in points if float(p[1]) >= 50]
    return matrix(({"pod": "a"}, points), *([({"pod": "b"}, late)] if late else []))


def check_ramp(result, count):
    assert result.keys == [("a",), ("b",)]
    np.testing.assert_array_equal(result.values[0], np.arange(count))
    np.testing.assert_array_equal(result.values[1, 50:], np.arange(50, count))
    assert np.isnan(result.values[1, :50]).all()


def test_a_long_range_is_split_below_the_servers_limit():
    with serving(ramp) as fake:
        result = open_source(prometheus=fake.url).evaluate([READ], grid(25_000))[READ]
        assert len(fake.asked) == 3
        assert max(len(steps(a.params)) for a in fake.asked) <= prometheus.MOST_POINTS
    check_ramp(result, 25_000)


@pytest.mark.parametrize(
    "answer",
    [
        refusal(400, "bad_data", "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing"),
        refusal(422, "execution", "query processing would load too many samples into memory in query execution"),
        refusal(422, "execution", "the query exceeded the maximum number of chunks (err-mimir-max-chunks-per-query)"),
        refusal(422, "422", "cannot select more than -search.maxSamplesPerQuery=1 samples"),
        refusal(503, "timeout", "query timed out in expression evaluation"),
        Answer(413, "<html>Request Entity Too Large</html>", {"Content-Type": "text/html"}),
    ],
)
def test_a_range_that_the_server_finds_too_large_is_halved(answer):
    with serving(lambda a: answer if len(steps(a.params)) > 30 else ramp(a)) as fake:
        source = open_source(prometheus=fake.url)
        check_ramp(source.evaluate([READ], grid(100))[READ], 100)
        assert len(fake.asked) == 1 + 2 + 4 and source.cost.split == 1 + 2


def test_the_slowest_query_is_told():
    slow = Read("slow", "last", ("pod",))

    def respond(asked):
        return Answer(200, ramp(asked), delay=0.2) if "slow" in asked.params["query"] else ramp(asked)

    with serving(respond) as fake:
        source = open_source(prometheus=fake.url)
        source.evaluate([READ, slow], grid(10))
    seconds, query = source.cost.slowest
    assert seconds >= 0.2 and "slow" in query and source.cost.split == 0


def test_what_is_too_large_at_any_length_ends_in_one_line():
    answer = refusal(422, "execution", "query processing would load too many samples into memory in query execution")
    with serving(lambda a: answer) as fake:
        with pytest.raises(SourceError, match=r"too many samples.*even [78] steps of a query are too much"):
            open_source(prometheus=fake.url).evaluate([READ], grid(1000))
        assert len(fake.asked) < 20


def test_results_come_in_the_order_of_the_reads_and_of_the_keys():
    reads = [Read(f"m{i}", "last", ("pod", "none")) for i in range(9)]
    with serving(lambda a: matrix(*(({"pod": p}, [(START_MS / 1000, "1")]) for p in "zam"))) as fake:
        results = open_source(prometheus=fake.url).evaluate([*reads, reads[0]], grid(2))
    assert list(results) == reads
    assert results[reads[0]].keys == [("a", ""), ("m", ""), ("z", "")]


def test_names_come_from_the_label_index():
    with serving(lambda a: {"status": "success", "data": ["up", "m"]}) as fake:
        assert open_source(prometheus=fake.url).names(1500, 2500) == {"up", "m"}
        asked = fake.asked[0]
        assert (asked.method, asked.path) == ("GET", "/api/v1/label/__name__/values")
        assert asked.params == {"start": "1.500", "end": "2.500"}


def test_names_are_counted_where_the_index_is_refused():
    def respond(asked):
        if asked.path.endswith("/values"):
            return Answer(403, "label names are not for you")
        return vector(({"__name__": "up"}, 1.0, "3"), ({"__name__": "m"}, 1.0, "1"))

    with serving(respond) as fake:
        assert open_source(prometheus=fake.url).names(1000, 2000) == {"up", "m"}
    with (
        serving(lambda a: Answer(404, "nothing here")) as fake,
        pytest.raises(SourceError, match="no Prometheus API"),
    ):
        open_source(prometheus=fake.url).names(1000, 2000)


def latest(answers):
    """The newest sample by a server that knows these queries only, and the queries asked."""

    def respond(asked):
        found = answers.get(asked.params["query"])
        return vector(*([({}, 1.0, found)] if found else []))

    with serving(respond) as fake:
        return open_source(prometheus=fake.url).latest_ms(), [a.params["query"] for a in fake.asked]


def test_newest_sample_of_a_live_server():
    assert latest({"max(timestamp(up))": "1700000000.123"}) == (1_700_000_000_123, ["max(timestamp(up))"])


def test_newest_sample_of_an_older_recording():
    found, asked = latest(
        {
            "max(max_over_time(timestamp(up)[1d:4m]))": "1700000000.5",
            "max(max_over_time(timestamp(up)[300s:15s]))": "1700000025.5",
            "max(max_over_time(timestamp(up)[15s:1s]))": "1700000030.5",
        }
    )
    assert found == 1_700_000_030_500
    assert "max(max_over_time(timestamp(up)[1h:4m]))" in asked


def test_newest_sample_where_there_is_no_up():
    assert latest({"max(timestamp(vllm:num_requests_running))": "1700000001"})[0] == 1_700_000_001_000
    assert latest({})[0] is None


def test_newest_sample_where_long_ranges_are_refused():
    def respond(asked):
        if "[30d:" in asked.params["query"]:
            return refusal(422, "execution", "query processing would load too many samples into memory")
        return vector()

    with serving(respond) as fake:
        source = open_source(prometheus=fake.url)
        assert source.latest_ms() is None
    assert any("not searched for over 30d" in line for line in source.warnings)


def raw(asked):
    """up of one target, scraped every 10 s, as raw samples or thinned."""
    at = float(asked.params.get("time", 0))
    query = asked.params["query"]
    if query == "count(up)":
        return vector(({}, at, "1"))
    if asked.path.endswith("query_range"):
        return matrix(({"pod": "a"}, [(ms / 1000, "1") for ms in steps(asked.params)]))
    length = query[query.index("[") + 1 : query.index("]")]
    seconds = float(length[:-2]) / 1000 if length.endswith("ms") else float(length[:-1])
    if seconds > 1900:
        return refusal(422, "execution", "too many samples")
    first = -(-(at - seconds) // 10) * 10
    return matrix(({"__name__": "up", "pod": "a"}, [(t, "1") for t in np.arange(first, at + 0.0001, 10).tolist()]))


def test_scrapes_are_read_in_pieces_that_fit():
    end = 1_700_000_000_000
    with serving(raw) as fake:
        (target,) = open_source(prometheus=fake.url).scrapes(end - 7_200_000, end)
    assert target.labels == {"pod": "a"}
    np.testing.assert_array_equal(target.times_ms, np.arange(end - 7_200_000, end + 1, 10_000))
    assert (target.up == 1).all()


def test_scrapes_of_a_long_stretch_are_thinned():
    end = 1_700_000_000_000
    with serving(raw) as fake:
        (target,) = open_source(prometheus=fake.url).scrapes(end - 7 * 86_400_000, end)
    spacing = np.diff(target.times_ms)
    assert len(target.times_ms) < 2500
    assert (spacing[-350:] == 10_000).all()
    assert set(spacing[:1900].tolist()) == {301_000}


def test_a_server_of_many_targets_is_asked_for_those_of_the_fleet():
    def respond(asked):
        query = asked.params["query"]
        if query == "count(up)":
            return vector(({}, 1.0, "2000"))
        if query.startswith("group by (job)"):
            return vector(({"job": "vllm.prod"}, 1.0, "1"), ({"job": "dcgm"}, 1.0, "1"))
        return matrix(({"job": "dcgm"}, [(1_700_000_000.0, "1")]))

    with serving(respond) as fake:
        assert open_source(prometheus=fake.url).scrapes(1_699_999_990_000, 1_700_000_000_000)
        assert fake.asked[-1].params["query"].startswith('up{job=~"dcgm|vllm\\\\.prod"}[')


def test_info_series_keep_their_labels():
    answer = matrix(
        ({"__name__": "i", "pod": "a", "x": "1"}, [(START_MS / 1000, "1")]),
        ({"__name__": "i", "pod": "a", "x": "2"}, [(START_MS / 1000 + 1, "1")]),
    )
    with serving(lambda a: answer) as fake:
        found = open_source(prometheus=fake.url).info("i", grid(2), (("pod", "=", "a"),))
        assert fake.asked[0].params["query"] == 'last_over_time(i{pod="a"}[2500ms])'
    assert [s.labels for s in found] == [{"pod": "a", "x": "1"}, {"pod": "a", "x": "2"}]
    np.testing.assert_array_equal([s.values for s in found], [[1, np.nan], [np.nan, 1]])


def test_no_reads_no_queries():
    source = open_source(prometheus="http://127.0.0.1:1")
    assert source.evaluate([], grid(2)) == {}
    assert source.cost.queries == 0
