"""`inferdoc prewarm` on the command line."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from made import csv_of, office

from inferdoc.cli.prewarm import command


def ask(*words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(command, list(words), input=text)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("load") / "Pool A.csv"
    file.write_text(csv_of(office(14)))
    return str(file)


def test_plan_explain_and_emit_work_as_a_pipe(pool: str) -> None:
    words = ["--input", pool, "--rps-per-replica", "0.2", "--cold-start", "5m", "--min", "1", "--max", "20"]
    made = ask("plan", *words, "--tz", "Europe/Berlin", "-o", "json")
    assert made.exit_code == 0, made.output
    found = json.loads(made.stdout)
    assert found["schema"] == "inferdoc.prewarm/v1"
    assert found["pools"][0]["name"] == "pool-a"
    assert "Europe/Berlin" in ask("explain", text=made.stdout).stdout
    for target in ("keda-cron", "cronjob", "json"):
        answer = ask("emit", "--target", target, text=made.stdout)
        assert answer.exit_code == 0, answer.output
        assert found["plan_id"] in answer.stdout


def test_the_table_explains_the_plan(pool: str) -> None:
    answer = ask("plan", "--input", pool, "--rps-per-replica", "0.2")
    assert answer.exit_code == 0
    assert "policy balanced: p90 at 85%" in answer.stdout


def test_a_stale_plan_is_refused(pool: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    assert ask("plan", "--input", pool, "--rps-per-replica", "0.2", "-o", "json", "--out", str(file)).exit_code == 0
    answer = ask("emit", "--plan", str(file), "--target", "json", "--now", str(int(time.time()) + 10 * 86400))
    assert "stale" in str(answer.exception)


def test_the_schema_of_a_plan_is_printed_and_holds(pool: str) -> None:
    import jsonschema

    schema = json.loads(ask("plan", "--schema").stdout)
    assert schema["$id"] == "inferdoc.prewarm/v1"
    jsonschema.validate(
        json.loads(ask("plan", "--input", pool, "--rps-per-replica", "0.2", "-o", "json").stdout), schema
    )
