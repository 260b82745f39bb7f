"""`inferdoc history` and `inferdoc diff` over a record that a service left."""

from __future__ import annotations

import json

import pytest

from inferdoc.incidents import runs
from inferdoc.incidents.record import Record
from inferdoc.incidents.runs import RunOutcome
from tests.cli.command import call, refused
from tests.incidents.alerts import NOW, alert, document_of, entered


@pytest.fixture(scope="module")
def left(tmp_path_factory, store_of):
    """The path of the record, and the ids of its two incidents: the older one is over."""
    answers = [document_of(store_of(name)) for name in ("kv-preemption-thrash", "engine-hung")]
    path = tmp_path_factory.mktemp("record") / "incidents.db"
    record = Record(path, writing=True)
    for at, answer in zip((NOW, NOW + 86_400), answers, strict=True):
        entered(record, alert(starts=at), now=at)
        run, _ = runs.begin(record, at)
        runs.finish(record, run, RunOutcome(answer), at, ())
        if at == NOW:
            entered(record, alert(starts=at, ends=at + 600), now=at + 600)
            run, _ = runs.begin(record, at + 600)
            runs.finish(record, run, RunOutcome(answer, ended_by="rollout of vllm: 2 pods"), at + 600, ())
    ids = [incident.id for incident in record.incidents()]
    record.close()
    return str(path), ids


def test_the_list_has_the_newest_first(left):
    path, (newest, oldest) = left
    result = call("history", "--record", path)
    assert result.code == 0
    words = " ".join(result.out.split())
    assert words.index(newest) < words.index(oldest) and "before it ended: rollout of vllm" in words
    assert oldest not in call("history", "--record", path, "--open").out
    assert [row["id"] for row in json.loads(call("history", "--record", path, "-o", "json").out)] == [newest, oldest]


def test_one_incident_has_its_runs_and_its_document(left):
    path, (newest, oldest) = left
    text = call("history", oldest, "--record", path).out
    assert "alerts" in text and "diagnosis runs" in text and "resolved:" in text
    assert json.loads(call("history", newest, "--record", path, "-o", "json").out)["findings"][0]["id"] == "engine-hung"
    assert call("history", newest, "--record", path, "-o", "html").out.startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("columns", [80, 110])
def test_the_text_fits_the_terminal(left, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    path, (newest, oldest) = left
    for result in (
        call("history", "--record", path),
        call("history", oldest, "--record", path),
        call("diff", newest, oldest, "--record", path),
    ):
        assert result.out and max(map(len, result.out.splitlines())) <= columns


def test_two_incidents_are_compared(left):
    path, (newest, oldest) = left
    result = call("diff", oldest, newest, "--record", path)
    assert result.code == 1 and "kv-preemption-thrash" in result.out and "engine-hung" in result.out
    assert call("diff", newest, newest, "--record", path).code == 0
    assert any(row["weighty"] for row in json.loads(call("diff", oldest, newest, "--record", path, "-o", "json").out))


def test_mistakes_are_one_line(left, tmp_path):
    path, _ = left
    other = tmp_path / "x.json"
    other.write_text("{}")
    refused(call("history", "nope", "--record", path), 2, "no such incident")
    refused(call("history", "--record", tmp_path / "none.db"), 4, "inferdoc serve")
    refused(call("diff", other, other), 2, "inferdoc diagnose -o json")
