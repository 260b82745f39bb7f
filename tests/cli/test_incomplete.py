"""No command takes part of the data for all of it."""

from __future__ import annotations

import json

import msgspec
import pytest

from inferdoc.serve.note import note
from inferdoc.source.base import Incomplete
from inferdoc.source.open import open_source
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store
from tests.cli.command import alone, call
from tests.incidents.alerts import alert, document_of, entered
from tests.judging.made import Engine, recorded, stored
from tests.pd_weeks import FLEET, Weeks

__all__ = ["alone"]
GAP = "the server warns: store-1: connection refused"


@pytest.fixture
def partial(monkeypatch):
    """Every source says that it read only part."""

    def opened(*args, **options):
        source = open_source(*args, **options)
        source.warnings.append(Incomplete(GAP))
        return source

    monkeypatch.setattr("inferdoc.source.configured.open_source", opened)


@pytest.fixture(scope="module")
def store(store_of):
    return store_of("control-steady")


@pytest.fixture(scope="module")
def hours(tmp_path_factory):
    """A store of nine days, which shows what a replica carries."""
    folder = tmp_path_factory.mktemp("incomplete")
    page = folder / "weeks.om"
    page.write_text("\n".join(Weeks(1_771_804_800, days=9, pools=(FLEET[0],)).lines()), "utf-8")
    with Store.open(folder / "weeks.db", "w") as made:
        import_file(made, page)
    return folder / "weeks.db"


def request_twice(store, command, form, *words):
    return call(*command.split(), "--store", store, "--until", "latest", "-o", form, *words)


def test_an_audit_of_a_whole_source_prints_nothing_of_gaps(store):
    done = request_twice(store, "audit", "json", "--since", "10m")
    assert json.loads(done.out)["source"]["incomplete"] == [], done.err


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_an_audit_of_part_of_the_data_is_not_clean(store, partial, form):
    done = request_twice(store, "audit", form, "--since", "10m")
    whole = request_twice(store, "audit", "json", "--since", "10m")
    assert whole.out, whole.err
    states = json.loads(whole.out)
    assert states["source"]["incomplete"] == [GAP] and "store-1: connection refused" in done.out
    if not states["states"]:
        assert (done.code, states["verdict"]) == (3, "unknown") and "incomplete" in states["summary"]


def test_an_audit_misses_a_pod_that_is_scraped_without_its_metrics(tmp_path):
    text = recorded(*(Engine(f"chat-{n}") for n in range(3))).only(
        lambda line: "chat-1" not in line or line.startswith("up{")
    )
    done = request_twice(stored(text, tmp_path), "audit", "json", "--since", "6m")
    reported = json.loads(done.out)
    assert reported["source"]["incomplete"] == ["no engine metrics from chat-1, although scrapes succeed"]
    assert reported["verdict"] != "nothing"


@pytest.mark.parametrize("form", ["text", "html", "json"])
def test_a_bill_of_part_of_the_data_is_marked_and_ends_with_3(store, partial, form):
    done = request_twice(store, "cost", form)
    assert done.code == 3 and "store-1: connection refused" in " ".join(done.out.split()), done.err


@pytest.mark.parametrize("form", ["text", "html", "json"])
def test_headroom_of_part_of_the_data_is_marked_and_ends_with_3(hours, partial, form):
    done = request_twice(hours, "headroom", form, "--tz", "UTC", "--arima-seconds", "0")
    assert done.code == 3 and "store-1: connection refused" in " ".join(done.out.split()), done.err


def test_a_plan_of_part_of_the_data_prints_so(hours, partial):
    when = ("--tz", "UTC", "--arima-seconds", "0", "--from", "1772582400", "-o", "json")
    done = call("prewarm", "plan", "--store", hours, "--rps-per-replica", "2", *when)
    assert done.code == 0, done.err
    assert any("incomplete" in line and GAP in line for line in json.loads(done.out)["notes"]) and GAP in done.err


def test_headroom_of_all_of_the_data_ends_with_0(hours):
    assert request_twice(hours, "headroom", "json", "--tz", "UTC", "--arima-seconds", "0").code == 0


def test_cost_of_all_of_the_data_ends_with_0(store):
    assert request_twice(store, "cost", "json").code == 0


def test_a_message_prints_what_was_not_read(tmp_path, store_of):
    from inferdoc.incidents import runs
    from inferdoc.incidents.record import Record

    answer = document_of(store_of("kv-preemption-thrash"))
    record = Record(tmp_path / "incidents.db", writing=True)
    entered(record, alert())
    run, incident = runs.begin(record, 2e9)
    assert "incomplete" not in dict(note(incident, run, answer).facts)
    answer = msgspec.structs.replace(answer, source=msgspec.structs.replace(answer.source, incomplete=[GAP]))
    assert dict(note(incident, run, answer).facts)["incomplete"] == GAP
    record.close()


@pytest.mark.parametrize("form", ["text", "json", "markdown", "html"])
def test_a_diagnosis_of_part_of_the_data_is_unknown_in_every_form(store, partial, form):
    done = request_twice(store, "diagnose", form, "--since", "10m")
    assert done.code == 3 and "store-1: connection refused" in " ".join(done.out.split()), done.err
