"""Plans that people can review: few windows, changes that are worth it, and said in words, hours and money."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner, Result
from plans import WORKDAYS, office_plan, plan, pool

from inferdoc.cli.prewarm import command
from inferdoc.config_sections import PricesSection, TierPrice
from inferdoc.errors import InferdocError
from inferdoc.prewarm.command import differ, previous_plan
from inferdoc.prewarm.difference import former_pool, settled_with, with_moves
from inferdoc.prewarm.plan import PlanRow, pool_plan, to_json, window_row
from inferdoc.prewarm.week import SLOT, WeekWindow, differing_segments, starts_a_day, steps, within_budget


def ragged() -> np.ndarray:
    """A need that changes every half hour, on each day another."""
    half_hours = np.random.default_rng(3).integers(2, 30, 7 * 48)
    return np.repeat(half_hours, 30)


@pytest.mark.parametrize("most", [1, 4, 12])
def test_no_day_starts_more_windows_than_chosen_and_none_is_too_low(most: int) -> None:
    need = ragged()
    floor = steps(need, 1800, most)
    assert starts_a_day(floor[::SLOT]) <= most
    assert (floor >= need).all()
    assert starts_a_day(steps(need, 1800, 48)[::SLOT]) > 12


def test_a_budget_under_the_minimum_is_refused_with_the_arithmetic() -> None:
    with pytest.raises(InferdocError, match="minimum of 2 alone takes 336 replica-hours a week; raise the budget"):
        within_budget(np.full(10080, 5), 2, 300.0)


def later(minutes: int = 15, level: int = 8) -> PlanRow:
    """The office plan with its morning later by so much."""
    windows = [
        WeekWindow(WORKDAYS, 450 + minutes, 270 - minutes, level),
        WeekWindow(WORKDAYS, 720, 375, 11),
        WeekWindow((5,), 1320, 600, 4),
    ]
    return plan(pool(*windows))


def test_a_change_must_save_its_price() -> None:
    former = former_pool(office_plan(), "llama", "Europe/Berlin")
    assert former is not None
    floor = pool_plan(later().pools[0]).floor  # five mornings save (8 - 2) x 15 min: 7.5 replica-hours, 1.5 each
    kept, said = settled_with(former, floor, floor, 2.0)
    assert (kept == former.floor).all() and "5 time range(s) stay as in plan" in said[0]
    moved, said = settled_with(former, floor, floor, 1.0)
    assert (moved == floor).all() and said == []


def test_what_the_former_plan_cannot_carry_changes_whatever_the_price() -> None:
    former = former_pool(later(), "llama", "Europe/Berlin")
    assert former is not None
    need = pool_plan(office_plan().pools[0]).floor
    made, _ = settled_with(former, need, need, 1e9)
    assert (made >= need).all()


def test_a_stretch_over_sunday_midnight_is_one() -> None:
    over = plan(pool(WeekWindow((6,), 1380, 120, 4)))
    former = former_pool(over, "llama", "Europe/Berlin")
    assert former is not None
    flat = np.full(10080, 2)
    made, _ = settled_with(former, flat, flat, 3.9)
    assert (made == flat).all()
    made, _ = settled_with(former, flat, flat, 4.1)
    assert (made == former.floor).all()


def test_another_clock_or_an_abstention_is_no_former_pool() -> None:
    assert former_pool(office_plan(), "llama", "UTC") is None
    assert former_pool(office_plan(), "mistral", "Europe/Berlin") is None
    assert former_pool(None, "llama", "UTC") is None


def test_the_reason_of_a_window_says_how_it_moved() -> None:
    former = former_pool(office_plan(), "llama", "Europe/Berlin")
    assert former is not None
    row = with_moves(later(level=9).pools[0], former)
    assert row.windows[0].reason == f"because; plan {former.plan_id} had 8 then (because)"
    assert row.windows[1].reason == "because"
    longer = with_moves(later().pools[0], former)
    assert longer.windows[0].reason == f"because; plan {former.plan_id} kept 8 for longer"


def test_stretches_are_where_floors_differ() -> None:
    old, new = pool_plan(office_plan().pools[0]).floor, pool_plan(later().pools[0]).floor
    found = differing_segments(old, new)
    assert [(s.start % 1440, s.end - s.start, s.replicas) for s in found] == [(450, 15, 2)] * 5
    (whole,) = differing_segments(np.full(10080, 2), np.full(10080, 3))
    assert (whole.start, whole.end, whole.replicas) == (0, 10080, 3)
    assert differing_segments(old, old) == []


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    for name, made in (("old", office_plan()), ("new", later(level=9))):
        (tmp_path / f"{name}.json").write_text(to_json(made))
    return str(tmp_path / "old.json"), str(tmp_path / "new.json")


def ask(*words: str) -> Result:
    return CliRunner().invoke(command, ["diff", *words])


def test_diff_says_words_and_hours_and_no_money_without_a_price(files: tuple[str, str]) -> None:
    answer = ask(*files)
    assert answer.exit_code == 0
    assert "mon-fri 07:30-07:45: 8 -> 2 (-7.5 h)" in answer.stdout
    assert "mon-fri 07:45-12:00: 8 -> 9 (+21.25 h)" in answer.stdout
    assert "(+13.75)" in answer.stdout and "USD" not in answer.stdout
    assert max(map(len, answer.stdout.splitlines())) <= 80


def test_diff_says_why_each_stretch_moved(tmp_path: Path) -> None:
    """A floor that falls has the reason of the old window, one that rises that of the new."""
    early = WeekWindow(WORKDAYS, 450, 60, 8), WeekWindow(WORKDAYS, 720, 60, 11)
    late = WeekWindow(WORKDAYS, 450, 60, 8), WeekWindow(WORKDAYS, 750, 60, 11)
    for file, windows, noon in (("old", early, "noon"), ("new", late, "later")):
        rows = [window_row(window, reason) for window, reason in zip(windows, ("morning", noon), strict=True)]
        (tmp_path / file).write_text(to_json(plan(pool(windows=rows))))
    (found,) = json.loads(ask(str(tmp_path / "old"), str(tmp_path / "new"), "-o", "json").stdout)["pools"]
    assert [(move["before"], move["after"], move["reason"]) for move in found["moves"]] == [
        (11, 2, "noon"),
        (2, 11, "later"),
    ]


def test_diff_with_a_price_is_money(files: tuple[str, str]) -> None:
    assert "(+13.75, +27.50 USD)" in ask(*files, "--price", "2").stdout
    (found,) = json.loads(ask(*files, "--price", "2", "-o", "json").stdout)["pools"]
    assert found["cost"] == 27.5 and found["hours_after"] - found["hours_before"] == pytest.approx(13.75)


def test_the_price_of_the_configuration_is_the_tiers(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    names = []
    for file, made in (("old", office_plan(name="llm-h100")), ("new", office_plan(name="llm-h100", base=3))):
        names.append(str(tmp_path / file))
        Path(names[-1]).write_text(to_json(made))
    prices = PricesSection(currency="EUR", overhead=1.5, tiers={"h100": TierPrice(2.0)})
    differ(old=names[0], new=names[1], price=None, gpus=4, prices=prices, output="json")
    told = json.loads(capsysbinary.readouterr().out)
    more = told["pools"][0]["hours_after"] - told["pools"][0]["hours_before"]
    assert told["currency"] == "EUR" and told["pools"][0]["cost"] == pytest.approx(more * 12.0)


def test_pools_that_come_and_go_and_change_their_clock_are_said(tmp_path: Path) -> None:
    told = msgspec.structs.replace(office_plan().pools[0], zone="UTC", maximum=30)
    for name, made in (("a", plan(*office_plan().pools, pool(name="gone"))), ("b", plan(told, pool(name="new")))):
        (tmp_path / name).write_text(to_json(made))
    answer = ask(str(tmp_path / "a"), str(tmp_path / "b")).stdout
    for words in ("clock: Europe/Berlin -> UTC", "maximum: 20 -> 30", "is new in the plan", "is in the plan no more"):
        assert words in answer
    assert "nothing changes" in ask(str(tmp_path / "a"), str(tmp_path / "a")).stdout


def test_a_nightly_job_has_no_former_plan_on_its_first_night(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert previous_plan(str(tmp_path / "plan.json")) is None
    assert "no previous plan yet" in capsys.readouterr().err
