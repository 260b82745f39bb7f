"""What a back-test of plans chooses, and what it must not know."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from made import DAY, csv_of, noise, office
from plans import plan, pool

from inferdoc.cli.prewarm import command
from inferdoc.errors import InferdocError
from inferdoc.forecast.engine import Request
from inferdoc.forecast.series import LoadSeries, LoadUnit, Rate
from inferdoc.prewarm.build import outlook, shaped
from inferdoc.prewarm.difference import tuning_words
from inferdoc.prewarm.plan import TuningRow
from inferdoc.prewarm.plan_options import POLICIES, Capacity, Limits, PlanOptions, PoolOptions, Setting, settings_of
from inferdoc.prewarm.replay import GridReplay, Tried, chosen, followed, replay_grid, tuned, walk, without_luck

USUAL = Setting(0.9, 1.0)
CHEAP, MIDDLE, DEAR = Setting(0.5, 0.8), Setting(0.7, 1.0), Setting(0.95, 1.2)
FEW = (CHEAP, MIDDLE, USUAL)


def wish(grid: tuple[Setting, ...] = FEW, **changed: object) -> PoolOptions:
    made = PoolOptions(
        request=Request(7 * DAY, arima_seconds=0.0),
        policy=POLICIES["balanced"],
        capacity=Capacity(Rate(0.2, LoadUnit.OF_FILE)),
        limits=Limits(1, 30),
        cold_start=300,
        name="office",
        grid=grid,
    )
    return replace(made, **changed)  # type: ignore[arg-type]


def steep(days: int = 14) -> LoadSeries:
    """A service that opens at eight sharp, every day, with counting noise: what a reactive scaler meets too late."""
    hour = np.arange(days * 288) % 288 / 12
    busy = np.where((hour >= 8) & (hour < 18), 400.0, 30.0)
    return replace(office(days), values=np.random.default_rng(5).poisson(busy).astype(float))


def tried(setting: Setting, surely: float, price: float) -> Tried:
    return Tried(setting, surely, surely, price)


def pick(*each: Tried, former: Setting | None = None) -> TuningRow:
    row = None
    if former is not None:
        row = pool()
        policy = msgspec.structs.replace(row.policy, quantile=former.quantile, safety_factor=former.safety)
        row = msgspec.structs.replace(row, policy=policy)
    return chosen(GridReplay(7, list(each)), USUAL, row)


def setting(row: TuningRow) -> Setting:
    return Setting(row.chosen.quantile, row.chosen.safety_factor)


def test_the_cheapest_that_surely_avoids_enough_is_taken() -> None:
    row = pick(tried(CHEAP, 0.79, 0.95), tried(MIDDLE, 0.81, 1.05), tried(USUAL, 0.97, 1.12))
    assert (setting(row), row.met, row.enough) == (MIDDLE, True, None)
    assert row.usual is not None and row.usual.price == 1.12


def test_what_costs_too_much_is_told_and_not_taken() -> None:
    row = pick(tried(CHEAP, 0.5, 0.95), tried(MIDDLE, 0.7, 1.1), tried(DEAR, 0.9, 1.6))
    assert (setting(row), row.met) == (MIDDLE, False)
    assert row.enough is not None and row.enough.price == 1.6
    words = tuning_words(row)
    assert words.endswith("no setting surely avoids 80% for at most 1.15 x, p95 x 1.2 would avoid 90% at 1.60")
    assert setting(pick(tried(MIDDLE, 0.9, 1.3), tried(DEAR, 0.95, 1.6))) == MIDDLE


def test_the_setting_of_the_former_plan_stays_while_it_is_all_but_as_good() -> None:
    each = (tried(CHEAP, 0.81, 1.00), tried(MIDDLE, 0.9, 1.04), tried(DEAR, 0.95, 1.10))
    assert setting(pick(*each)) == CHEAP
    assert setting(pick(*each, former=MIDDLE)) == MIDDLE
    assert setting(pick(*each, former=DEAR)) == CHEAP
    fair = (tried(CHEAP, 0.5, 1.0), tried(MIDDLE, 0.53, 1.1))
    assert setting(pick(*fair)) == MIDDLE and setting(pick(*fair, former=CHEAP)) == CHEAP


def test_nothing_is_surer_than_what_asks_for_more() -> None:
    each = without_luck([tried(CHEAP, 0.9, 1.0), tried(MIDDLE, 0.6, 1.1), tried(DEAR, 0.95, 1.5)])
    assert [one.surely for one in each] == [0.6, 0.6, 0.95]


def test_no_replayed_day_knows_what_came_after_it() -> None:
    series = steep(12)
    later = replace(series, values=series.values.copy())
    later.values[10 * 288 :] *= 5
    floors = []
    for load in (series, later):
        days = walk(load, wish(), series.end - 3 * DAY, [0.9])
        assert [(day.begin - series.start) // DAY for day in days] == [9, 10, 11]
        floors.append(followed(days, wish()))
    assert (floors[0][: 2 * 1440] == floors[1][: 2 * 1440]).all()
    assert (floors[0][2 * 1440 :] != floors[1][2 * 1440 :]).any()


def test_a_rhythm_is_tuned_to_less_than_the_policy_buys() -> None:
    series = steep()
    found = {each.setting: each for each in replay_grid(series, wish()).each}
    assert set(found) == set(FEW)
    assert found[CHEAP].price < found[MIDDLE].price < found[USUAL].price
    assert found[USUAL].surely > 0.8
    ahead, new = tuned(series, outlook(series, wish()), wish())
    assert new.tuning is not None and new.tuning.met and new.tuning.days == 7
    row = shaped(ahead, new)
    assert (row.policy.quantile, row.policy.safety_factor) == (new.policy.quantile, new.safety)
    assert row.tuning == new.tuning
    plain = shaped(outlook(series, wish(())), wish(()))
    assert row.hours < plain.hours and plain.tuning is None


def smooth(days: int = 14) -> LoadSeries:
    hour = np.arange(days * 288) % 288 / 12
    return replace(office(days), values=200 + 150 * np.sin((hour - 9) / 24 * 2 * np.pi))


@pytest.mark.parametrize(
    ("series", "why"),
    [
        (office(9), "9.0 days of history, a back-test takes at least 10"),
        (noise(14), "the forecast abstained on 7 of the last 7 days"),
        (smooth(), "a reactive scaler alone was never overloaded in the last 7 days"),
    ],
)
def test_where_nothing_can_be_told_the_policy_stays(series: LoadSeries, why: str) -> None:
    with pytest.raises(InferdocError, match=why):
        replay_grid(series, wish())
    ahead, new = tuned(series, outlook(series, wish()), wish())
    assert new == wish() and new.tuning is None
    assert ahead.result.abstained or f"not tuned: {why}" in ahead.result.notes


def test_a_number_that_was_asked_for_stays() -> None:
    assert {each.quantile for each in settings_of(0.85, None)} == {0.85}
    assert {each.safety for each in settings_of(None, 1.3)} == {1.3}
    assert settings_of(0.85, 1.3) == (Setting(0.85, 1.3),)


def ask(*words: str, text: str | None = None) -> str:
    answer = CliRunner().invoke(command, list(words), input=text)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_the_plan_says_what_was_chosen_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    series = steep()
    monkeypatch.setattr(time, "time", lambda: float(series.end))  # older data are refused
    load, plain = tmp_path / "llama.csv", tmp_path / "plain.json"
    load.write_text(csv_of(series))
    said = ("plan", f"--input={load}", "--rps-per-replica=0.2", "--arima-seconds=0", "-o", "json")
    ask(*said, f"--out={plain}")
    text = ask(*said, "--tune=backtest", "--safety-factor=1")
    made = json.loads(text)
    (row,) = made["pools"]
    assert row["tuning"]["chosen"]["safety_factor"] == row["policy"]["safety_factor"] == 1
    assert row["tuning"]["tried"] == 5 and row["policy"]["quantile"] == row["tuning"]["chosen"]["quantile"]
    assert "--tune=backtest" in made["request"] and sum(row["forecast"]["weights"].values()) == pytest.approx(
        1, abs=0.01
    )
    words = "tuned on the last 7 days"
    assert words in ask("explain", text=text)
    assert words in ask("check", "--target=systemd", text=text)
    new = tmp_path / "new.json"
    new.write_text(text)
    assert words in ask("diff", str(plain), str(new))
    assert "is not tuned by a back-test any more" in ask("diff", str(new), str(plain))


def test_a_plan_remembers_whether_the_one_before_acted() -> None:
    row = pool(name="office")
    silent = msgspec.structs.replace(row, forecast=msgspec.structs.replace(row.forecast, abstained=True))
    young = msgspec.structs.replace(row, forecast=msgspec.structs.replace(silent.forecast, skill=None))
    for before, acted in ((row, True), (silent, False), (young, None)):
        asked = PlanOptions(Request(DAY), previous=plan(before))
        of_pool = asked.pool_options("office", "both", Capacity(Rate(0.2, LoadUnit.OF_FILE)), 300)
        assert of_pool.request.followed is acted
    assert asked.pool_options("other", "both", Capacity(Rate(0.2, LoadUnit.OF_FILE)), 300).request.followed is None
