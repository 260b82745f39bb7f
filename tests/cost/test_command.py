"""`inferdoc cost`: the parts add up whatever a row is, the forms agree, and bad input is one line."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import datetime
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.command import alone, call, refused

__all__ = ["alone"]

PRICES = """
[prices]
currency = "EUR"
overhead = 1.5
[prices.tiers.h100-80]
on_demand = 4.0
[prices.tiers.a100-80]
on_demand = 2.0
"""
BYS = ["pool", "model", "tier", "hour", "day"]


def answer(store: Path, *arguments: object) -> dict:
    done = call("cost", "--store", store, "--until", "latest", "-o", "json", *arguments)
    assert done.code == 0, done
    return json.loads(done.out)


def close(one: float, other: float) -> bool:
    return one == pytest.approx(other, rel=1e-6, abs=1e-12)


def adds_up(row: dict) -> bool:
    parts = [part["amount"] for part in row["parts"]]
    divided = [row[name] for name in ("prompts", "outputs", "undivided")]
    units = ["gpu_hours", *(["money"] if row["whole"]["money"] is not None else [])]
    return all(close(sum(p[u] for p in several), row["whole"][u]) for several in (parts, divided) for u in units)


@pytest.mark.parametrize("by", BYS)
def test_parts_and_rows_add_up_to_the_whole(by, wasteful):
    Path("inferdoc.toml").write_text(PRICES + "[prices.tiers.l40s]\non_demand = 1.0\n", "utf-8")
    bill = answer(wasteful.store, "--by", by)
    assert bill["schema"] == "inferdoc.cost/v1" and bill["by"] == by and bill["currency"] == "EUR"
    assert all(adds_up(row) for row in [bill["whole"], *bill["rows"]])
    for unit in ("gpu_hours", "money"):
        assert close(sum(row["whole"][unit] for row in bill["rows"]), bill["whole"]["whole"][unit])
        for place, part in enumerate(bill["whole"]["parts"]):
            assert close(sum(row["parts"][place]["amount"][unit] for row in bill["rows"]), part["amount"][unit])
    for name in ("prompt_tokens", "output_tokens", "requests"):
        assert close(sum(row[name] for row in bill["rows"]), bill["whole"][name])
    assert min(part["amount"]["gpu_hours"] for row in bill["rows"] for part in row["parts"]) >= 0.0


def test_money_is_gpu_hours_at_the_price_of_the_tier(wasteful):
    Path("inferdoc.toml").write_text(PRICES, "utf-8")
    bill = answer(wasteful.store, "--by", "tier")
    rows = {row["name"]: row["whole"] for row in bill["rows"]}
    assert close(rows["h100-80"]["money"], rows["h100-80"]["gpu_hours"] * 6.0)
    assert close(rows["a100-80"]["money"], rows["a100-80"]["gpu_hours"] * 3.0)
    assert rows["l40s"]["money"] is None and bill["whole"]["whole"]["money"] is None
    assert any("no price of tier l40s" in note for note in bill["notes"])
    assert [tier["per_gpu_hour"] for tier in bill["tiers"]] == [3.0, 6.0, None]


def test_figures_are_what_the_parts_say(wasteful):
    row = answer(wasteful.store)["rows"][0]
    figures = row["figures"]
    assert close(figures["input"]["gpu_hours"], row["prompts"]["gpu_hours"] / row["prompt_tokens"] * 1e6)
    assert close(figures["output"]["gpu_hours"], row["outputs"]["gpu_hours"] / row["output_tokens"] * 1e6)
    assert close(figures["generated"]["gpu_hours"], row["whole"]["gpu_hours"] / row["output_tokens"] * 1e6)
    assert close(figures["request"]["gpu_hours"], row["whole"]["gpu_hours"] / row["requests"])
    cheap, dear = figures["good_request"]
    assert figures["request"]["gpu_hours"] <= cheap["gpu_hours"] <= dear["gpu_hours"]


def test_energy_is_that_of_the_gpus(wasteful):
    bill = answer(wasteful.store, "--by", "tier")
    assert close(sum(row["energy"]["kwh"] for row in bill["rows"]), bill["whole"]["energy"]["kwh"])
    for row in bill["rows"]:
        watts = row["energy"]["kwh"] * 1000 / row["whole"]["gpu_hours"]
        assert 35 < watts < 710, "between idle and the limit of a card"


def test_energy_at_the_meter_is_told_with_what_it_costs_and_is_not_in_the_sum(wasteful):
    plain = answer(wasteful.store)
    Path("inferdoc.toml").write_text("[prices]\ncurrency = 'EUR'\npue = 1.5\nkwh = 20\n", "utf-8")
    told = answer(wasteful.store)
    kwh = plain["whole"]["energy"]["kwh"]
    assert told["whole"]["energy"]["kwh"] == kwh and told["whole"]["whole"]["money"] is None
    said = " ".join(call("cost", "--store", wasteful.store, "--until", "latest").out.split())
    assert f"{1.5 * kwh:.3g} kWh at the meter (PUE 1.5), {30 * kwh:.2f} EUR for it on top" in said


@pytest.mark.parametrize("wrong", ["pue = 0.9", "kwh = 0", "kwh = -1"])
def test_a_site_that_draws_less_than_its_machines_or_power_without_a_price_is_refused(wrong, wasteful):
    Path("inferdoc.toml").write_text(f"[prices]\n{wrong}\n", "utf-8")
    refused(call("cost", "--store", wasteful.store, "--until", "latest"), 2, wrong.split()[0])


def test_without_a_price_there_is_no_money_and_a_line_says_how_to_set_one(wasteful):
    said = call("cost", "--store", wasteful.store, "--until", "latest")
    assert said.code == 0 and "[prices.tiers." in said.out and "inferdoc.toml" in said.out
    assert "USD" not in said.out and "GPU-h" in said.out


def test_text_has_a_unit_on_every_figure_and_v_what_it_was_worked_out_from(wasteful):
    Path("inferdoc.toml").write_text(PRICES + "[prices.tiers.l40s]\non_demand = 1.0\n", "utf-8")
    said = call("cost", "--store", wasteful.store, "--until", "latest", "-v").out
    first = said[: said.index("by pool")]
    for line in first.splitlines():
        if re.match(r"  (a |useful|idle|more|work|computed|prefixes|rejected)", line):
            assert re.search(r"\d (EUR|GPU-h)|-$", line), line
    for words in ("worked out as", "vllm:num_preemptions", "at 6 EUR per GPU-hour", "overhead x 1.5"):
        assert words in said
    below_the_path = said[: said.index("worked out as")].splitlines()[1:]
    assert max(map(len, below_the_path)) <= 100


def test_csv_and_html_hold_the_same(wasteful):
    Path("inferdoc.toml").write_text(PRICES, "utf-8")
    bill = answer(wasteful.store)
    done = call("cost", "--store", wasteful.store, "--until", "latest", "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["name"] for row in rows] == [row["name"] for row in bill["rows"]]
    for row, told in zip(rows, bill["rows"], strict=True):
        parts = [float(row[f"{part['cause']}_gpu_hours"]) for part in told["parts"]]
        assert close(sum(parts), float(row["gpu_hours"])) and close(float(row["gpu_hours"]), told["whole"]["gpu_hours"])
        assert (row["money"] == "") == (told["whole"]["money"] is None)
    page = call("cost", "--store", wasteful.store, "--until", "latest", "-o", "html").out
    assert page.startswith("<!DOCTYPE html>") and "<script" not in page
    assert page.count('class="part-idle"') > 1 and "rejected drafts" in page and "no price of tier l40s" in page


def test_metrics_hold_the_same(wasteful):
    Path("inferdoc.toml").write_text(PRICES, "utf-8")
    page = call("cost", "--store", wasteful.store, "--until", "latest", "-o", "prometheus").out
    told = {
        (sample.name, sample.labels.get("name"), sample.labels.get("part") or sample.labels.get("tokens")): sample
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    for row in answer(wasteful.store)["rows"]:
        for part in row["parts"]:
            hours = told["inferdoc_cost_gpu_hours", row["name"], part["cause"]]
            assert close(hours.value, part["amount"]["gpu_hours"])
            money = told.get(("inferdoc_cost_money", row["name"], part["cause"]))
            assert (None if money is None else money.value) == part["amount"]["money"]
            assert money is None or money.labels["currency"] == "EUR"
        figure = told.get(("inferdoc_cost_per_million_tokens", row["name"], "output_all_in"))
        assert (None if figure is None else figure.value) == row["figures"]["generated"]["money"]


def test_bars_are_as_long_as_money(wasteful):
    """Two pools that cost the same have bars of one length, whatever a GPU-hour of theirs costs."""
    Path("inferdoc.toml").write_text(PRICES + "[prices.tiers.l40s]\non_demand = 1.0\n", "utf-8")
    page = call("cost", "--store", wasteful.store, "--until", "latest", "-o", "html").out
    bars: dict[str, float] = {}
    for wide, name in re.findall(r'width="([\d.]+)" height="18"><title>(\w+) ', page):
        bars[name] = bars.get(name, 0.0) + float(wide)
    rows = {row["name"].split()[0]: row["whole"]["money"] for row in answer(wasteful.store)["rows"]}
    most = max(rows.values())
    for name, money in rows.items():
        assert bars[name] / max(bars[one] for one in rows) == pytest.approx(money / most, rel=0.01), name


def test_tenants_need_a_series_that_tells_them_apart(wasteful):
    bill = answer(wasteful.store, "--by", "tenant")
    assert sum(row["whole"]["gpu_hours"] for row in bill["rows"]) == pytest.approx(bill["whole"]["whole"]["gpu_hours"])
    assert all(adds_up(row) for row in bill["rows"])
    refused(
        call("cost", "--store", wasteful.store, "--until", "latest", "--by", "tenant", "-l", "job=vllm"), 4, "tenants"
    )


def test_bad_input_is_one_line(wasteful, tmp_path):
    refused(call("cost", "--store", tmp_path / "none.db"), 4)
    refused(call("cost", "--store", wasteful.store, "--since", "soon"), 2, "--since")
    refused(call("cost", "--store", wasteful.store, "--pod", "nobody", "--until", "latest"), 4, "no engine")
    refused(
        call("cost", "--store", wasteful.store, "--from", "2020-01-01T00:00:00Z", "--until", "2020-01-02T00:00:00Z"), 4
    )
    Path("inferdoc.toml").write_text("[prices.tiers.l4]\non_demand = -1\n", "utf-8")
    refused(call("cost", "--store", wasteful.store), 2, "on_demand")


def test_a_part_of_the_fleet_and_hours_of_the_clock(wasteful):
    bill = answer(wasteful.store, "--namespace", "idle", "--by", "hour")
    begun = datetime.fromisoformat(bill["from"])
    assert bill["rows"][0]["name"] == f"{begun:%Y-%m-%d %H}:00"
    assert bill["whole"]["whole"]["gpu_hours"] == pytest.approx(wasteful.seconds("idle") / 3600, rel=0.01)
