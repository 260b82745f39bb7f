"""What is kept, for how long, and what a damaged or foreign file says."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import pairwise

import pytest

from inferdoc.errors import InferdocError
from inferdoc.incidents import runs
from inferdoc.incidents.record import Record, RecordError
from inferdoc.incidents.runs import RunOutcome
from inferdoc.judging.model import Diagnosis
from tests.incidents.alerts import NOW, alert, document_of, entered

OUTPUTS = ["slack", "file"]


@pytest.fixture(scope="module")
def sick(store_of) -> Diagnosis:
    return document_of(store_of("kv-preemption-thrash"))


@pytest.fixture(scope="module")
def well(store_of) -> Diagnosis:
    return document_of(store_of("control-steady"))


@pytest.fixture
def record(tmp_path) -> Iterator[Record]:
    opened = Record(tmp_path / "incidents.db", writing=True)
    yield opened
    opened.close()


def run_once(record: Record, answer: Diagnosis, now: float = NOW, page: str | None = None) -> bool:
    taken = runs.begin(record, now)
    assert taken is not None
    return runs.finish(record, taken[0], RunOutcome(answer, page), now, OUTPUTS)


def waiting(record: Record) -> list[str]:
    return [output for output in OUTPUTS if runs.due(record, output, NOW + 10_000)]


def test_a_document_and_its_page_come_back_as_they_were(record, sick):
    entered(record, alert())
    run_once(record, sick, page="<p>report</p>")
    (incident,) = record.incidents()
    run = record.newest_run(incident.id)
    assert run is not None and run.story is not None and run.story.cause == sick.findings[0].id
    assert record.diagnosis(run.number) == sick and record.page(run.number) == "<p>report</p>"
    assert incident.story == run.story and run.from_ == sick.window.from_


def test_what_reports_nothing_new_is_not_posted(record, sick, well):
    entered(record, alert())
    assert run_once(record, sick) and waiting(record) == OUTPUTS
    entered(record, alert("ItlHigh", starts=NOW + 9), now=NOW + 9)
    assert not run_once(record, sick, NOW + 9)
    entered(record, alert("QueueGrows", starts=NOW + 12), now=NOW + 12)
    assert run_once(record, well, NOW + 12), "another verdict is news"


def test_the_end_is_posted_and_the_cause_stays(record, sick, well):
    entered(record, alert())
    run_once(record, sick)
    entered(record, alert(ends=NOW + 60), now=NOW + 60)
    assert run_once(record, well, NOW + 61)
    (incident,) = record.incidents()
    assert incident.story is not None and incident.story.cause == sick.findings[0].id


def test_a_run_that_sees_nothing_is_taken_again_a_few_times(record, well):
    entered(record, alert())
    now = NOW
    for after in runs.AGAIN_SECONDS:
        run_once(record, well, now)
        assert runs.begin(record, now + after - 1) is None
        now += after
    run_once(record, well, now)
    assert runs.next_due(record) is None
    (incident,) = record.incidents()
    assert [run.why for run in record.runs(incident.id)] == ["alert", *["again"] * len(runs.AGAIN_SECONDS)]


def test_a_run_that_failed_is_reported_once_and_taken_again(record):
    entered(record, alert())
    for number, now in enumerate((NOW, NOW + runs.AGAIN_SECONDS[0])):
        run = runs.begin(record, now)[0]
        runs.fail(record, run, "the server does not answer", now, OUTPUTS)
        for output in OUTPUTS:
            if post := runs.due(record, output, now):
                assert number == 0
                runs.sent(record, post)
    (incident,) = record.incidents()
    assert [run.failure for run in record.runs(incident.id)][:2] == ["the server does not answer"] * 2


def test_what_was_under_way_waits_again_after_a_restart(record):
    entered(record, alert())
    assert runs.begin(record, NOW) is not None and runs.begin(record, NOW) is None
    assert runs.resume(record) == 1 and runs.begin(record, NOW) is not None


def test_an_output_that_fails_is_tried_for_a_day_or_more_and_then_given_up(record, sick):
    entered(record, alert())
    run_once(record, sick)
    now, tries, limit = NOW, [], 86_400.0
    while due := runs.due(record, "slack", now):
        tries.append(now - NOW)
        if runs.missed(record, due, "500", now, limit):
            break
        now = runs.next_post_due(record, "slack")
    pauses = [after - before for before, after in pairwise(tries)]
    assert pauses[:5] == list(runs.PAUSES) and max(pauses) == runs.PAUSES[-1] and tries[-1] == limit
    assert runs.due(record, "slack", now + 10_000) is None and runs.due(record, "file", now).output == "file"
    assert runs.pending(record) == {"file": 1}


@pytest.mark.parametrize("back", [1_000.0, 3_600.0, 1e8])
def test_a_clock_that_is_set_back_holds_nothing_up(record, sick, back):
    """A diagnosis and a message that wait for their next try, when the clock is found to have run ahead."""
    entered(record, alert(starts=NOW), now=NOW)
    taken = runs.begin(record, NOW)
    runs.fail(record, taken[0], "the server does not answer", NOW, OUTPUTS)
    assert runs.begin(record, NOW) is None and runs.begin(record, NOW - back) is not None
    runs.missed(record, runs.due(record, "slack", NOW), "503", NOW, 86_400.0)
    assert runs.due(record, "slack", NOW) is None
    again = runs.due(record, "slack", NOW - back)
    assert not runs.missed(record, again, "503", NOW - back, 86_400.0)
    assert runs.due(record, "slack", NOW - back) is None and runs.due(record, "slack", NOW - back + 60) is not None


@pytest.mark.parametrize("ahead", [100_000.0, 1e8])
def test_a_clock_that_jumps_ahead_gives_no_message_up(record, sick, ahead):
    entered(record, alert())
    run_once(record, sick)
    now = NOW + ahead
    for _ in range(20):
        due = runs.due(record, "slack", now)
        assert due is not None and not runs.missed(record, due, "503", now, 86_400.0)
        assert runs.next_post_due(record, "slack") > now, "a pause between two tries"
        now = runs.next_post_due(record, "slack")
    assert runs.pending(record) == {"slack": 1, "file": 1}


def test_behind_a_message_that_was_given_up_the_next_one_is_too(record, sick):
    entered(record, alert())
    run_once(record, sick)
    entered(record, alert(ends=NOW + 600), now=NOW + 600)
    run_once(record, sick, NOW + 600)
    now, limit, given_up = NOW + 600, 86_400.0, []
    while due := runs.due(record, "slack", now):
        if runs.missed(record, due, "500", now, limit):
            given_up.append(now - NOW)
        now = max(now, runs.next_post_due(record, "slack") or now)
    assert len(given_up) == 2 and limit <= given_up[0] and given_up[1] <= limit + runs.PAUSES[-1]


def test_a_message_that_is_refused_delays_its_own_incident_only(record, sick):
    for name in ("a", "b"):
        entered(record, alert(namespace=name))
        run_once(record, sick)
    entered(record, alert(namespace="a", ends=NOW), now=NOW)
    run_once(record, sick)
    first = runs.due(record, "slack", NOW)
    runs.missed(record, first, "500", NOW, 86_400.0)
    second = runs.due(record, "slack", NOW)
    runs.sent(record, second)
    assert runs.due(record, "slack", NOW) is None, "the end of an incident is not told before its beginning"
    incidents = [runs.about(record, post)[1].place.namespace for post in (first, second)]
    assert incidents == ["a", "b"]


def test_the_last_incident_with_the_same_cause_is_remembered(record, sick):
    entered(record, alert())
    run_once(record, sick)
    entered(record, alert(ends=NOW + 60), now=NOW + 60)
    run_once(record, sick, NOW + 60)
    later = NOW + 7 * 86_400
    entered(record, alert(starts=later), now=later)
    run_once(record, sick, later)
    newest, first = record.incidents()
    like = record.like(newest)
    assert like is not None and like.id == first.id and record.like(first) is None


def test_old_incidents_are_forgotten_with_all_that_was_reported(record, sick):
    entered(record, alert())
    run_once(record, sick)
    entered(record, alert(ends=NOW + 60), now=NOW + 60)
    assert runs.prune(record, NOW + 59) == 0 and runs.prune(record, NOW + 61) == 1
    with record.reading() as connection:
        assert [connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("alert", "look", "post")] == [
            0
        ] * 3


def test_one_process_writes_and_others_read(record, tmp_path):
    entered(record, alert())
    with pytest.raises(RecordError, match="being written by"):
        Record(tmp_path / "incidents.db", writing=True)
    reader = Record(tmp_path / "incidents.db")
    assert len(reader.incidents()) == 1
    reader.close()


def test_an_incident_is_named_by_the_beginning_of_its_id(record):
    entered(record, alert())
    (incident,) = record.incidents()
    assert record.incident(incident.id[:15]).id == incident.id
    with pytest.raises(InferdocError, match="no such incident"):
        record.incident("nope")


@pytest.mark.parametrize("content", ["text", "store"])
def test_another_file_is_no_record(tmp_path, content):
    path = tmp_path / "other.db"
    if content == "text":
        path.write_text("no database at all, and long enough to be taken for a header of one\n" * 20, "utf-8")
    else:
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE t (x)")
        other.close()
    for writing in (True, False):
        with pytest.raises(RecordError, match=r"other\.db"):
            Record(path, writing=writing)


def test_no_record_is_one_line(tmp_path):
    with pytest.raises(RecordError, match="inferdoc serve"):
        Record(tmp_path / "none.db")


def test_damaged_bytes_are_an_error_of_the_record(tmp_path, sick):
    """Every byte of the file in turn becomes invalid UTF-8, a stride apart: each is read, or is a RecordError."""
    made = Record(tmp_path / "made.db", writing=True)
    entered(made, alert())
    run_once(made, sick, page="<p>report</p>")
    made.close()
    whole, refused = (tmp_path / "made.db").read_bytes(), set()
    for place in range(0, len(whole), 61):
        path = tmp_path / "damaged.db"
        path.write_bytes(whole[:place] + b"\x87" * 3 + whole[place + 3 :])
        try:
            damaged = Record(path)
        except RecordError as error:
            refused.add(str(error).count("\n"))
            continue
        try:
            for incident in damaged.incidents():
                for run in damaged.runs(incident.id):
                    damaged.diagnosis(run.number), damaged.page(run.number)
        except InferdocError as error:
            refused.add(str(error).count("\n"))
        finally:
            damaged.close()
    assert refused == {0}
