"""Limits, tenants and partial answers of Thanos, Mimir, Cortex and VictoriaMetrics, in their own words.

The texts are those of the sources: Mimir pkg/util/limiter/errors.go, pkg/querier/errors.go and pkg/storegateway;
Cortex pkg/util/limiter; Thanos pkg/store/bucket.go and proxy.go; VictoriaMetrics lib/storage and app/vmselect.
"""

from __future__ import annotations

import numpy as np
import pytest

from inferdoc.errors import SourceError
from inferdoc.source import prometheus_http
from inferdoc.source.open import open_source
from inferdoc.source.reads import Grid, Read
from tests.source.fake_server import Answer, matrix, refusal, serving

ADJUST = "To adjust the related per-tenant limit, configure -{}, or contact your service administrator."
FETCHED = ADJUST.format("querier.max-fetched-series-per-query")
START_MS = 1_700_000_000_001
GRID = Grid(START_MS, 1000, 40, 1000, 10_000, 2500)
TARGETS = [f"10.0.0.{n}:8000" for n in range(8)]

MIMIR_SERIES = (
    "expanding series: the query exceeded the maximum number of series (limit: 3 series) "
    f"(err-mimir-max-series-per-query). {FETCHED}"
)
CORTEX_SERIES = "the query hit the max number of series limit (limit: 3 series)"
THANOS_SERIES = (
    "expanding series: proxy Series(): rpc error: code = Aborted desc = receive series from Addr: 10.1.0.7:10901: "
    "rpc error: code = ResourceExhausted desc = exceeded series limit: limit 3 violated (got 4)"
)
VICTORIA_SERIES = (
    "error when executing query: cannot fetch data: error when searching tsids: the number of matching timeseries "
    "exceeds 3; either narrow down the search or increase -search.max* command-line flag values at vmselect"
)
MIMIR_LENGTH = (
    "expanding series: the query time range exceeds the limit (query length: 745h0m0s, limit: 720h0m0s) "
    f"(err-mimir-max-query-length). {ADJUST.format('querier.max-partial-query-length')}"
)
MIMIR_MEMORY = (
    "the query exceeded the maximum allowed estimated amount of memory consumed by a single query "
    "(limit: 1073741824 bytes) (err-mimir-max-estimated-memory-consumption-per-query)"
)
MIMIR_CHUNKS = (
    "the query exceeded the aggregated chunks size limit (limit: 9 bytes) (err-mimir-max-chunks-bytes-per-query)"
)
STORE_GATEWAY_CHUNKS = (
    "expanding series: rpc error: code = Code(422) desc = exceeded chunks limit: limit 3 violated (got 4)"
)
CORTEX_CHUNKS = "the query hit the max number of chunks limit while fetching chunks from ingesters (limit: 3)"
THANOS_AWAY = (
    'expanding series: proxy Series(): rpc error: code = Aborted desc = fetch series for {replica="b"} '
    "Addr: 10.1.0.7:10901: rpc error: code = Unavailable desc = connection error: connection refused"
)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(prometheus_http, "FIRST_PAUSE_SECONDS", 0.01)


def steps(params):
    start, end, step = (round(float(params[name]) * 1000) for name in ("start", "end", "step"))
    return range(start, end + 1, step)


def chosen(query):
    """The targets that a query asks for."""
    if 'instance=~"' not in query:
        return TARGETS
    wanted = query.partition('instance=~"')[2].partition('"')[0].replace("\\\\", "").split("|")
    return [target for target in TARGETS if target in wanted]


def few_series(text, most=3):
    """A server that touches at most so many series for a query, and refuses with this text."""

    def respond(asked):
        if asked.path == "/api/v1/label/instance/values":
            return {"status": "success", "data": TARGETS}
        told = chosen(asked.params["query"])
        if len(told) > most:
            return refusal(422, "execution", text)
        times = [ms / 1000 for ms in steps(asked.params)]
        if "by (job)" in asked.params["query"]:
            return matrix(({"job": "vllm"}, [(at, str(len(told))) for at in times])) if told else matrix()
        return matrix(*(({"instance": each}, [(at, each[7:8]) for at in times]) for each in told))

    return respond


@pytest.mark.parametrize("text", [MIMIR_SERIES, CORTEX_SERIES, THANOS_SERIES, VICTORIA_SERIES])
def test_too_many_series_are_asked_for_by_targets(text):
    of_target, of_job = Read("m", "rate", ("instance",)), Read("m", "rate", ("job",))
    with serving(few_series(text)) as fake:
        source = open_source(prometheus=fake.url)
        found = source.evaluate([of_target, of_job], GRID)
        (info,) = {len(source.info("i", GRID))}
        source.close()
    assert [key[0] for key in found[of_target].keys] == TARGETS and info == len(TARGETS)
    np.testing.assert_array_equal(found[of_target].values, np.repeat(np.arange(8.0)[:, None], GRID.count, axis=1))
    assert found[of_job].values.tolist() == [[8.0] * GRID.count], "what parts have in common is added up"
    assert source.cost.split > 0


def test_a_limit_below_one_target_is_told_in_a_line():
    with serving(few_series(MIMIR_SERIES, most=0)) as fake, pytest.raises(SourceError) as caught:
        open_source(prometheus=fake.url).evaluate([Read("m", "rate", ("instance",))], GRID)
    assert "\n" not in str(caught.value) and "even the series of one target are too much" in str(caught.value)


@pytest.mark.parametrize("text", [MIMIR_LENGTH, MIMIR_MEMORY, MIMIR_CHUNKS, STORE_GATEWAY_CHUNKS, CORTEX_CHUNKS])
def test_what_is_too_much_of_a_stretch_is_asked_for_in_halves(text):
    def respond(asked):
        if len(steps(asked.params)) > 12:
            return refusal(422, "execution", text)
        return matrix(({"pod": "a"}, [(ms / 1000, "1") for ms in steps(asked.params)]))

    read = Read("m", "rate", ("pod",))
    with serving(respond) as fake:
        source = open_source(prometheus=fake.url)
        found = source.evaluate([read], GRID)[read]
        assert all("instance" not in each.params["query"] for each in fake.asked)
    assert found.values.tolist() == [[1.0] * GRID.count] and source.cost.split == 3


def test_a_busy_tenant_is_asked_again_and_not_in_parts():
    busy = (
        "the request has been rejected because the tenant exceeded the request rate limit, set to 10 requests/s across "
        f"all distributors with a maximum allowed burst of 5 (err-mimir-tenant-max-request-rate). {FETCHED}"
    )
    answers = [Answer(429, busy), Answer(429, busy)]

    def respond(asked):
        return answers.pop() if answers else matrix(({"pod": "a"}, [(START_MS / 1000, "1")]))

    read = Read("m", "rate", ("pod",))
    with serving(respond) as fake:
        source = open_source(prometheus=fake.url)
        assert source.evaluate([read], GRID)[read].keys == [("a",)]
        assert len(fake.asked) == 3 and source.cost.split == 0


def test_half_an_answer_is_refused_and_where_there_is_no_other_taken_and_told():
    def respond(asked):
        if asked.params["partial_response"] == "false":
            return refusal(422, "execution", THANOS_AWAY)
        return matrix(({"pod": "a"}, [(START_MS / 1000, "1")]), warnings=["fetch series for store b: unavailable"])

    reads = [Read(name, "rate", ("pod",)) for name in "abc"]
    with serving(respond) as fake:
        source = open_source(prometheus=fake.url, parallel=1)
        assert all(found.keys == [("a",)] for found in source.evaluate(reads, GRID).values())
        assert [each.params["partial_response"] for each in fake.asked] == ["false", "true", "true", "true"]
        assert {each.params["dedup"] for each in fake.asked} == {"true"}
    assert source.warnings[0].startswith("a part of the data is missing") and "10.1.0.7" in source.warnings[0]


def test_a_missing_tenant_is_named():
    with serving(lambda asked: Answer(401, "no org id\n")) as fake, pytest.raises(SourceError) as caught:
        open_source(prometheus=fake.url).evaluate([Read("m", "rate", ("pod",))], GRID)
    assert "--header 'X-Scope-OrgID: TENANT'" in str(caught.value)
