"""Which alerts are one incident, and whether somebody is to look."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from inferdoc.incidents import runs
from inferdoc.incidents.intake import Merging, QueueFullError
from inferdoc.incidents.record import Record
from tests.incidents.alerts import NOW, alert, entered


@pytest.fixture
def record(tmp_path) -> Iterator[Record]:
    opened = Record(tmp_path / "incidents.db", writing=True)
    yield opened
    opened.close()


def ids(record: Record) -> list[str]:
    return [incident.id for incident in record.incidents()]


def take_next(record: Record, now: float = NOW) -> str | None:
    """Begin the look that is due, and say why."""
    taken = runs.begin(record, now)
    return None if taken is None else taken[0].why


def test_a_first_alert_opens_an_incident_and_requests_a_run(record):
    assert entered(record, alert(pod="vllm-0")) == "accepted"
    (incident,) = record.incidents()
    assert incident.place.pool == ("", "llm", "m") and incident.place.pod == "vllm-0" and incident.opened == NOW
    assert take_next(record) == "alert" and take_next(record) is None


def test_the_same_message_again_is_nothing_new_until_it_is_a_repeat(record):
    entered(record, alert())
    take_next(record)
    assert entered(record, alert(), now=NOW + 300) == "merged"
    assert entered(record, alert(), now=NOW + 4 * 3600) == "accepted"
    assert len(ids(record)) == 1 and [run.why for run in record.runs(ids(record)[0])] == ["alert", "repeat"]


def test_a_run_that_was_repeated_by_itself_is_no_repeat(record):
    entered(record, alert())
    taken = runs.begin(record, NOW)
    runs.fail(record, taken[0], "nothing to read", NOW, ())
    four_hours_later = NOW + 4 * 3600
    assert take_next(record, four_hours_later) == "again"
    assert entered(record, alert(), now=four_hours_later + 1) == "accepted"
    assert [run.why for run in record.runs(ids(record)[0])] == ["alert", "again", "repeat"]


def test_messages_while_a_run_waits_are_one_run(record):
    entered(record, alert())
    assert entered(record, alert("ItlHigh", starts=NOW + 5), now=NOW + 5) == "merged"
    (incident,) = record.incidents()
    assert {each.name for each in incident.alerts} == {"TtftHigh", "ItlHigh"} and len(record.runs(incident.id)) == 1


@pytest.mark.parametrize(
    ("labels", "starts", "together"),
    [
        ({}, NOW + 60, True),
        ({"cluster": "prod"}, NOW + 60, True),  # told by one of the two alone
        ({"model_name": "other"}, NOW + 60, False),
        ({"namespace": "team-b"}, NOW + 60, False),
        ({}, NOW + 3 * 3600, False),  # hours later it is another story
        ({"namespace": "", "model_name": ""}, NOW + 60, False),  # nothing in common is told
    ],
)
def test_alerts_of_one_pool_that_begin_together_are_one_incident(record, labels, starts, together):
    entered(record, alert())
    entered(record, alert("QueueGrows", starts=starts, **labels), now=starts)
    assert (len(ids(record)) == 1) is together


def test_tenants_share_nothing(record):
    entered(record, alert(), tenant="a")
    entered(record, alert(), tenant="b")
    assert sorted(incident.tenant for incident in record.incidents()) == ["a", "b"]


def test_an_incident_is_over_with_its_last_alert(record):
    entered(record, alert(), alert("ItlHigh"))
    take_next(record)
    entered(record, alert(ends=NOW + 100), now=NOW + 101)
    assert record.incidents()[0].resolved is None
    assert entered(record, alert("ItlHigh", ends=NOW + 200), now=NOW + 201) == "accepted"
    (incident,) = record.incidents()
    assert incident.resolved == NOW + 200 and not incident.firing
    assert [run.why for run in record.runs(incident.id)] == ["alert", "resolved"]


def test_what_is_over_before_anybody_checked_is_still_reported_as_an_alert(record):
    entered(record, alert())
    entered(record, alert(ends=NOW + 20), now=NOW + 21)
    assert take_next(record, NOW + 21) == "alert"


@pytest.mark.parametrize(("after", "reopened"), [(600.0, True), (1200.0, False)])
def test_an_alert_that_flaps_reopens_its_incident_within_the_grace_time(record, after, reopened):
    entered(record, alert())
    take_next(record)
    entered(record, alert(ends=NOW + 60), now=NOW + 60)
    back = NOW + 60 + after
    entered(record, alert(starts=back), now=back)
    newest = record.incidents()[0]
    assert (len(ids(record)) == 1) is reopened and newest.resolved is None and newest.reopened == int(reopened)


def test_an_end_without_a_beginning_is_no_incident(record):
    assert entered(record, alert(ends=NOW)) == "ignored" and not ids(record)


def test_a_full_queue_refuses_what_is_new_and_enters_nothing(record):
    merging = Merging(queue=2)
    for number in range(2):
        entered(record, alert(model_name=f"m{number}"), merging=merging)
    with pytest.raises(QueueFullError, match="2 pending"):
        entered(record, alert(model_name="m2"), merging=merging)
    assert len(ids(record)) == 2
    assert entered(record, alert("ItlHigh", model_name="m1"), merging=merging) == "merged"


def test_a_restart_of_alertmanager_that_lost_an_end_closes_the_alert_before(record):
    entered(record, alert())
    take_next(record)
    entered(record, alert(starts=NOW + 7200), now=NOW + 7200)
    (incident,) = record.incidents()
    assert [(each.starts, each.ends) for each in incident.alerts] == [(NOW, NOW + 7200), (NOW + 7200, None)]
