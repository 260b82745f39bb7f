"""What changed between two looks."""

from __future__ import annotations

from types import SimpleNamespace

from inferdoc.watch.rounds import news


def finding(cause="engine-down", pods=("a",), **more):
    scope = SimpleNamespace(
        pods=list(pods), cluster=None, namespace=more.pop("namespace", "ns"), model="m", role="both"
    )
    plain = {"severity": "critical", "certainty": "likely", "ongoing": True, "imminent": False, "ended": None}
    return SimpleNamespace(id=cause, scope=scope, onset="2026-11-18T11:18:52.955Z", **{**plain, **more})


def answer(*findings, verdict="critical"):
    return SimpleNamespace(findings=list(findings), verdict=verdict)


def test_all_of_the_first_run_is_new():
    logged = news(None, answer(finding(pods=("a", "b"))))
    assert logged == ["new      engine-down: critical, likely, since 11:18:52Z, on a, b"]


def test_nothing_is_printed_where_nothing_changed():
    assert news(answer(finding()), answer(finding())) == []


def test_the_same_finding_that_is_dated_otherwise_is_no_news():
    later = finding()
    later.onset = "2026-11-18T11:19:07.955Z"
    assert news(answer(finding()), answer(later)) == []


def test_a_finding_that_is_gone_has_ended():
    logged = news(answer(finding()), answer(verdict="healthy"))
    assert logged == ["verdict  critical -> healthy", "ended    engine-down, on a"]


def test_a_finding_that_lasts_no_more_has_ended_with_its_time():
    over = finding(ongoing=False, ended="2026-11-18T11:30:00.000Z")
    assert news(answer(finding()), answer(over)) == ["ended    engine-down at 11:30:00Z, on a"]
    assert news(answer(over), answer(over)) == []


def test_what_is_printed_of_a_finding_that_lasts():
    after = finding(certainty="proven", severity="warning", pods=("b", "c"))
    assert news(answer(finding(pods=("a", "b"))), answer(after)) == [
        "changed  engine-down: critical -> warning; likely -> proven; also on c; no longer on a"
    ]


def test_two_places_with_one_cause_are_distinguished():
    here, there = finding(namespace="x"), finding(namespace="y", pods=("b",))
    assert news(answer(here, there), answer(here)) == ["ended    engine-down, on b"]


def test_many_pods_are_counted():
    logged = news(None, answer(finding(pods=tuple("abcdef"))))
    assert logged[0].endswith("on a, b, c, d and 2 more pods")


def test_words_of_others_are_printable():
    logged = news(None, answer(finding(pods=("a\x1b[31m\n",))))
    assert logged == ["new      engine-down: critical, likely, since 11:18:52Z, on a\\u001b[31m "]
