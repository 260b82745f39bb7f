"""Faults of a Prometheus-compatible server: each is one clear line, or overcome."""

from __future__ import annotations

import json
import socket
import time
from contextlib import closing, suppress

import pytest

from inferdoc.errors import ConfigError, SourceError
from inferdoc.source import prometheus_http
from inferdoc.source.open import open_source
from inferdoc.source.prometheus_access import Access
from inferdoc.source.prometheus_errors import PrometheusError
from inferdoc.source.prometheus_http import Client, ReadDeadline
from inferdoc.source.reads import Read
from tests.source.fake_server import Answer, in_turn, matrix, refusal, serving, sleeper, vector
from tests.source.reading import GOOD, GRID, READ, failure, read


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(prometheus_http, "FIRST_PAUSE_SECONDS", 0.01)


def test_an_answer_becomes_rows():
    with serving(in_turn(GOOD)) as fake:
        result, source = read(fake.url)
    assert result.keys == [("p0",)]
    assert result.values[0, [0, 2]].tolist() == [1, 2.5]
    assert str(result.values[0, 1]) == "nan"
    sent = fake.asked[0].params
    assert (sent["start"], sent["end"], sent["step"]) == ("1700000000.001", "1700000004.001", "2.000")
    assert fake.asked[0].path == "/api/v1/query_range"
    assert source.cost.queries == 1
    assert source.cost.samples == 2


# ---- addresses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("http://h:9090/", "http://h:9090"),
        ("http://h:9090/graph?g0.expr=up", "http://h:9090"),
        ("https://h/prometheus/api/v1/", "https://h/prometheus"),
        ("http://[::1]:9090", "http://[::1]:9090"),
        (" http://h/select/0/prometheus ", "http://h/select/0/prometheus"),
    ],
)
def test_pasted_addresses(given, kept):
    assert Access(given).url == kept


@pytest.mark.parametrize(
    "given",
    ["localhost:9090", "ftp://h", "http://", "http://h:99999", "u:secret@h", "http://u:secret@:1", "http://[::1"],
)
def test_impossible_addresses(given):
    with pytest.raises(ConfigError) as caught:
        Access(given)
    assert "secret" not in str(caught.value)


def test_nobody_listens():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    assert "connection refused" in failure(url)


# ---- answers that are none --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        (Answer(404, "404 page not found"), ["404", "/prometheus", "/select/0/prometheus", "/api/v1"]),
        (Answer(404, "<html>nope</html>", {"Content-Type": "text/html"}), ["404"]),
        (
            refusal(422, "execution", "found duplicate series for the match group " + "x" * 900),
            ["422", "duplicate", "…"],
        ),
        (refusal(400, "bad_data", 'parse error:\n\tunexpected "<"'), ["400", 'parse error: unexpected "<"']),
        (Answer(200, "<!DOCTYPE html><html>Sign in</html>", {"Content-Type": "text/html"}), ["login page"]),
        (Answer(302, "", {"Location": "https://sso.example/login?state=secret"}), ["https://sso.example/login,"]),
        (Answer(200, '{"status":"success","data":'), ["ends in the middle"]),
        (
            Answer(200, '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{'),
            ["ends in the middle"],
        ),
        (Answer(200, "hello"), ["not a Prometheus answer"]),
        (Answer(200, ""), ["ends in the middle"]),
        (Answer(200, {"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}}), ["cannot be read"]),
        (Answer(200, {"status": "success", "data": {"odd": 1}}), ["cannot be read"]),
        (Answer(200, {"status": "error", "errorType": "x", "error": "broken inside"}), ["broken inside"]),
        (Answer(500, "panic"), ["500", "panic"]),
    ],
)
def test_bad_answers(answer, parts):
    with serving(in_turn(answer)) as fake:
        text = failure(fake.url)
    assert "secret" not in text
    for part in parts:
        assert part in text


def test_a_value_that_is_no_number():
    with serving(in_turn(matrix(({"pod": "p"}, [(1.0, "many")])))) as fake:
        assert "not a number" in failure(fake.url)


POINTS = {
    "huge": (1e300, "1"),
    "long": (99999999999999999999999, "1"),
    "far": (-1e13, "1"),
    "word": (1.0, "abc"),
    "nothing": (1.0, ""),
    "hexadecimal": (1.0, "0x10"),
    "blank": (1.0, " "),
    "other digits": (1.0, "١"),
    "grouped digits": (1.0, "1_0"),
}


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
@pytest.mark.parametrize("form", [matrix, vector])
def test_a_time_or_value_that_is_none(point, form):
    series = ({"pod": "p"}, [point]) if form is matrix else ({"pod": "p"}, *point)
    with serving(in_turn(form(series))) as fake:
        text = failure(fake.url)
    assert "that is not a number" in text or "a time that is none" in text


@pytest.mark.parametrize("value", ["NaN", "+Inf", "1e300", "abc", ""])
def test_a_newest_time_or_a_number_of_targets_that_is_none(value):
    with serving(in_turn(vector(({}, 1.0, value)))) as fake, closing(open_source(prometheus=fake.url)) as source:
        for ask in (source.latest_ms, source.target_count):
            with suppress(PrometheusError):
                assert ask() is None or value == "1e300"


@pytest.mark.parametrize("label", [b'"\xff"', b'"\\ud800"', b"7", b"null"])
def test_a_label_that_is_no_text(label):
    body = json.dumps(vector(({"pod": "LABEL"}, 1.0, "1"))).encode().replace(b'"LABEL"', label)
    with serving(in_turn(Answer(200, body, {"Content-Type": "application/json"}))) as fake:
        failure(fake.url)


def test_an_answer_broken_off_is_asked_for_again():
    with serving(in_turn(Answer(200, GOOD, cut=20), GOOD)) as fake:
        assert read(fake.url)[0].keys
    with serving(in_turn(Answer(200, GOOD, cut=20))) as fake:
        assert "broke the connection off" in failure(fake.url)
        assert len(fake.asked) == prometheus_http.ATTEMPTS


# ---- retries ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", ["²", "-1", "soon", "Wed, 21 Oct 2015 07:28:00 GMT", "0"])
def test_odd_requests_to_wait_are_not_waited_for(wait):
    with serving(in_turn(Answer(503, "", {"Retry-After": wait}), GOOD)) as fake:
        began = time.monotonic()
        assert read(fake.url)[0].keys
        assert time.monotonic() - began < 1


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_server_is_asked_again(status):
    with serving(in_turn(Answer(status, "busy"), Answer(status, "busy"), GOOD)) as fake:
        result, source = read(fake.url)
    assert result.keys
    assert source.cost.queries == 3


def test_a_server_that_stays_busy():
    with serving(in_turn(Answer(503, "Service Unavailable"))) as fake:
        assert "not available (503): Service Unavailable" in failure(fake.url)
        assert len(fake.asked) == prometheus_http.ATTEMPTS


def test_retry_after_is_kept():
    with serving(in_turn(Answer(503, "", {"Retry-After": "1"}), GOOD)) as fake:
        began = time.monotonic()
        read(fake.url)
        assert time.monotonic() - began >= 1.0
    with serving(in_turn(Answer(429, "slow down", {"Retry-After": "3600"}))) as fake:
        assert "429" in failure(fake.url, timeout=2)
        assert len(fake.asked) == 1


def test_post_falls_back_to_get():
    for status in (403, 405):
        with serving(lambda a, s=status: GOOD if a.method == "GET" else Answer(s, "GET only")) as fake:
            source = open_source(prometheus=fake.url)
            assert source.evaluate([READ], GRID)[READ].keys
            assert source.evaluate([READ], GRID)[READ].keys
            assert (fake.count("POST"), fake.count("GET")) == (1, 2)
            assert fake.asked[-1].params["query"] == "sum by (pod) (last_over_time(vllm:num_requests_running[5s]))"
    with serving(in_turn(Answer(403, "forbidden"))) as fake:
        assert "403" in failure(fake.url)


# ---- time and size ----------------------------------------------------------------------------------------------


def test_a_silent_server_does_not_hold_us_up():
    with serving(in_turn(Answer(200, GOOD, delay=20))) as fake:
        began = time.monotonic()
        assert "raise the timeout" in failure(fake.url, timeout=0.5)
        assert time.monotonic() - began < 3


def test_one_byte_at_a_time():
    with serving(in_turn(Answer(200, GOOD, drip=0.05))) as fake:
        began = time.monotonic()
        assert "raise the timeout" in failure(fake.url, timeout=0.6)
        assert time.monotonic() - began < 3


def test_one_deadline_for_all_queries():
    reads = [Read(f"m{i}", "last", ()) for i in range(60)]
    with serving(sleeper(0.15, GOOD)) as fake:
        source = open_source(prometheus=fake.url, timeout=0.6, parallel=2)
        began = time.monotonic()
        with pytest.raises(SourceError, match=r"not done within 0.6 s"):
            source.evaluate(reads, GRID)
        assert time.monotonic() - began < 3
        assert len(fake.asked) < 20


def test_queries_run_in_parallel_but_not_all_at_once():
    reads = [Read(f"m{i}", "last", ()) for i in range(24)]
    with serving(sleeper(0.03, GOOD)) as fake:
        results = open_source(prometheus=fake.url, parallel=4).evaluate(reads, GRID)
    assert list(results) == reads
    assert 2 <= fake.most_at_once <= 4


def test_the_first_refusal_calls_the_rest_off():
    reads = [Read(f"m{i}", "last", ()) for i in range(200)]

    def respond(asked):
        time.sleep(0.02)
        return refusal(401, "", "no")

    with serving(respond) as fake:
        with pytest.raises(SourceError, match="401"):
            open_source(prometheus=fake.url, parallel=2).evaluate(reads, GRID)
        assert len(fake.asked) < 20


def test_a_refusal_cuts_off_what_is_under_way():
    reads = [Read(f"m{i}", "last", ()) for i in range(6)]

    def respond(asked):
        return refusal(401, "", "no") if "m3" in asked.params["query"] else Answer(200, GOOD, delay=20)

    with serving(respond) as fake:
        began = time.monotonic()
        with pytest.raises(SourceError, match="401"):
            open_source(prometheus=fake.url).evaluate(reads, GRID)
        assert time.monotonic() - began < 3


def test_too_large_an_answer_is_not_kept():
    with serving(in_turn(Answer(200, b" " * 3_000_000))) as fake:
        client = Client(Access(fake.url), largest_answer=1 << 20)
        with pytest.raises(SourceError, match="more than 1 MiB"):
            client.ask("query", {"query": "up"}, ReadDeadline(5))


# ---- warnings ---------------------------------------------------------------------------------------------------


def test_warnings_of_the_server_are_kept_once():
    answer = {
        **GOOD,
        "warnings": ["No StoreAPIs matched for this query", "storage down"],
        "infos": ["PromQL info: metric might not be a counter"],
        "isPartial": True,
    }
    with serving(in_turn(answer)) as fake:
        source = open_source(prometheus=fake.url)
        source.evaluate([READ], GRID)
        source.evaluate([READ], GRID)
    assert len(source.warnings) == 4
    assert any("No StoreAPIs matched" in line for line in source.warnings)
    assert any("might not be a counter" in line for line in source.warnings)
    assert any("partial" in line for line in source.warnings)


def test_warnings_do_not_drown_the_report():
    with serving(in_turn({**GOOD, "infos": [f"info {i}" for i in range(300)]})) as fake:
        _, source = read(fake.url)
    assert len(source.warnings) == 21
    assert "left out" in source.warnings[-1]


def test_vectors_are_read_too():
    with serving(in_turn(vector(({}, 1.0, "1700000000.25")))) as fake:
        assert open_source(prometheus=fake.url).latest_ms() == 1_700_000_000_250
