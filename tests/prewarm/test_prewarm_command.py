"""`inferdoc prewarm` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import plans as by_hand
import pytest
from click.testing import CliRunner, Result
from made import DAY, MONDAY, csv_of, office

from inferdoc.cli.prewarm import command
from inferdoc.prewarm.pools import Planned

END = str(MONDAY + 14 * DAY)
PLANNED = ("--rps-per-replica", "0.2", "--from", END)


def ask(*words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(command, list(words), input=text)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("load") / "Pool A.csv"
    file.write_text(csv_of(office(14)))
    return str(file)


def test_plan_explain_and_emit_work_as_a_pipe(pool: str) -> None:
    words = ["--input", pool, *PLANNED, "--cold-start", "5m", "--min", "1", "--max", "20"]
    made = ask("plan", *words, "--tz", "Europe/Berlin", "-o", "json")
    assert made.exit_code == 0, made.output
    found = json.loads(made.stdout)
    assert found["schema"] == "inferdoc.prewarm/v1"
    assert found["pools"][0]["name"] == "pool-a"
    assert "Europe/Berlin" in ask("explain", text=made.stdout).stdout
    for target in ("keda-cron", "cronjob", "json"):
        answer = ask("emit", "--target", target, "--now", END, text=made.stdout)
        assert answer.exit_code == 0, answer.output
        assert found["plan_id"] in answer.stdout


def test_the_table_explains_the_plan(pool: str) -> None:
    answer = ask("plan", "--input", pool, *PLANNED)
    assert answer.exit_code == 0
    assert "policy balanced: p90 at 85%" in answer.stdout


def test_a_stale_plan_is_refused(pool: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    assert ask("plan", "--input", pool, *PLANNED, "-o", "json", "--out", str(file)).exit_code == 0
    answer = ask("emit", "--plan", str(file), "--target", "json", "--now", str(int(END) + 10 * DAY))
    assert "stale" in str(answer.exception)


def test_the_schema_of_a_plan_is_printed_and_holds(pool: str) -> None:
    import jsonschema

    schema = json.loads(ask("plan", "--schema").stdout)
    assert schema["$id"] == "inferdoc.prewarm/v1"
    jsonschema.validate(json.loads(ask("plan", "--input", pool, *PLANNED, "-o", "json").stdout), schema)


def test_options_hold_for_all_pools_or_for_the_one_named(pool: str) -> None:
    words = ["plan", "--input", pool, *PLANNED, "-o", "json"]
    row = json.loads(ask(*words, "--max", "9", "--max", "pool-a=7", "--policy", "pool-a=safe").stdout)["pools"][0]
    assert (row["maximum"], row["policy"]["name"]) == (7, "safe")
    assert "no pool is called `other`" in str(ask(*words, "--max", "other=7").exception)
    assert ask(*words, "--max", "pool-a=many").exit_code == 2
    assert ask(*words, "--policy", "greedy").exit_code == 2


def test_old_data_are_refused_in_one_line(pool: str) -> None:
    refused = ask("plan", "--input", pool, "--capacity", "0.2 requests/s", "--from", str(int(END) + 3 * DAY))
    assert "3.0 days before the plan" in str(refused.exception)


MEETING = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//made//EN
BEGIN:VEVENT
UID:1
SUMMARY:Board meeting
DTSTART:20260317T090000Z
DTEND:20260317T100000Z
END:VEVENT
END:VCALENDAR
"""


@pytest.mark.parametrize("count", [1, 2])
def test_remarks_go_to_standard_error_and_name_their_pool_where_there_are_several(
    count: int, pool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [by_hand.pool(name=name, notes=[f"about {name}"]) for name in ("llama", "mistral")[:count]]
    monkeypatch.setattr("inferdoc.prewarm.command.plan_pools", lambda *_: Planned(rows, [("qwen", "no capacity")]))
    calendar = tmp_path / "team.ics"
    calendar.write_text(MEETING)
    words = ["plan", "--input", pool, *PLANNED, "--tz", "UTC"]
    notes = ["note: about llama"] if count == 1 else ["llama: about llama", "mistral: about mistral"]
    left_out = "qwen is not in this plan: no capacity"
    assert ask(*words).stderr.splitlines() == [*notes, left_out]
    told = ask(*words, "--calendar", str(calendar)).stderr.splitlines()
    assert told == ["note: neither a whole day nor a factor (x3) in the calendar's: Board meeting", *notes, left_out]
