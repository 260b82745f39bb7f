"""Several days: each is read on its own, named by its date, and they add up to the whole."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import pytest

from inferdoc.cost.reading import DAY_MS, LEAST_PIECE_MS, days
from inferdoc.simulate.output import write_store
from inferdoc.simulate.scenario_files import read_scenario
from inferdoc.simulate.scrape import simulate
from inferdoc.store import Store
from tests.cli.command import call

THIN = """
id: thin
title: "Two pods with little to do, for a day and a quarter"
expect: {cause: null}
pools: [{name: pool, pods: 2, tier: l4, model: llama-3.1-8b}]
traffic: [{rate: 0.02, prompt: {median: 300, sigma: 0.3, max: 900}, output: {median: 1000, sigma: 0.3, max: 2000}}]
exporters: {dcgm: false, router: false, cadvisor: false}
duration: 30h
scrape: 120
seed: 5
"""
MIDNIGHT = 20_000 * DAY_MS


@pytest.fixture(scope="module")
def thin(tmp_path_factory):
    path = tmp_path_factory.mktemp("thin") / "fleet.db"
    with Store.open(path, "w") as store:
        write_store(simulate(read_scenario(THIN, "thin")), store)
    return path


def told(thin, *arguments: object) -> str:
    done = call("cost", "--store", thin, "--until", "latest", "--since", "7d", *arguments)
    assert done.code == 0, done
    return done.out


def test_days_add_up_and_are_named_by_their_date(thin):
    bill = json.loads(told(thin, "-o", "json"))
    first = datetime.fromisoformat(bill["from"]).astimezone(UTC)
    names = [f"{first + timedelta(days=n):%Y-%m-%d}" for n in range(2)]
    assert [row["day"] for row in bill["days"]] == names
    assert sum(row["whole"]["gpu_hours"] for row in bill["days"]) == pytest.approx(bill["whole"]["whole"]["gpu_hours"])
    assert bill["whole"]["whole"]["gpu_hours"] == pytest.approx(60.0, rel=0.01)
    for row in bill["days"]:
        assert sum(part["amount"]["gpu_hours"] for part in row["parts"]) == pytest.approx(row["whole"]["gpu_hours"])
        assert row["parts"][1]["cause"] == "idle" and row["parts"][1]["amount"]["gpu_hours"] > 0
        assert row["figures"]["good_request"] is not None, "a day of one pool is a whole piece"


def test_nothing_is_lost_where_everyone_waits(thin):
    """Tokens of an answer that runs over the edge of a slot or of a day are no loss."""
    for row in json.loads(told(thin, "-o", "json"))["days"]:
        (lost,) = [part["amount"]["gpu_hours"] for part in row["parts"] if part["cause"] == "lost"]
        assert lost <= 0.0005 * row["whole"]["gpu_hours"]


def test_hours_are_those_of_the_clock(thin):
    rows = json.loads(told(thin, "-o", "json", "--by", "hour"))["rows"]
    assert 30 <= len(rows) <= 32 and [row["name"] for row in rows] == sorted(row["name"] for row in rows)
    assert max(row["whole"]["gpu_hours"] for row in rows[1:-1]) == pytest.approx(2.0, rel=0.05), "a step is two minutes"


def test_the_week_stands_in_csv_text_and_html(thin):
    rows = list(csv.DictReader(io.StringIO(told(thin, "-o", "csv"))))
    assert [row["by"] for row in rows] == ["pool", "day and pool", "day and pool"]
    assert all(row["day"] for row in rows[1:])
    assert "by day and pool" in told(thin) and "By day and pool" in told(thin, "-o", "html")


def test_days_are_cut_at_midnight_and_short_ends_go_with_their_neighbours():
    assert list(days(MIDNIGHT, MIDNIGHT + DAY_MS)) == [(MIDNIGHT, MIDNIGHT + DAY_MS)]
    begin, end = MIDNIGHT - 2 * LEAST_PIECE_MS, MIDNIGHT + DAY_MS + 2 * LEAST_PIECE_MS
    assert list(days(begin, end)) == [(begin, MIDNIGHT), (MIDNIGHT, MIDNIGHT + DAY_MS), (MIDNIGHT + DAY_MS, end)]
    near = MIDNIGHT - LEAST_PIECE_MS // 2, MIDNIGHT + DAY_MS + LEAST_PIECE_MS // 2
    assert list(days(*near)) == [near]
