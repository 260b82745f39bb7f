"""`inferdoc headroom` over a week and a half of pools that scale, whose capacity at the objective is known."""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from inferdoc.store.importer import import_file
from inferdoc.store.store import Store
from tests.built import built
from tests.cli.command import alone, call, refused
from tests.pd_weeks import FLEET, OBJECTIVES, Weeks

__all__ = ["alone"]

START = 1_771_804_800
PREFILL, DECODE = FLEET[0], FLEET[2]
DAYS = 9
PROMISED = "".join(
    f'[[slo]]\nrole = "{role}"\nlimits = {{{signal}_p99 = {limit}}}\n' for role, (signal, limit) in OBJECTIVES.items()
)
NODES = {f"{PREFILL.name}-{i}": f"n{i // 2}" for i in range(6)} | {f"{DECODE.name}-{i}": "n9" for i in range(2)}
ZONES = {"n0": "z1", "n1": "z1", "n2": "z2", "n9": "z2"}


@pytest.fixture(scope="module")
def made() -> Path:
    return built("headroom weeks", made_fleet)


def made_fleet(folder: Path) -> None:
    """A store that ends at noon of a working day, its configuration beside it."""
    weeks = Weeks(START, days=DAYS, pools=(PREFILL, DECODE))
    weeks.times = weeks.times[weeks.times <= START + (DAYS - 1) * 86_400 + 12 * 3600]
    weeks.noise = weeks.noise[: len(weeks.times)]
    lines = list(weeks.lines())[:-1]
    last = weeks.times[-3:]
    lines.append("# TYPE kube_pod_info gauge")
    for pod, node in NODES.items():
        lines += [f'kube_pod_info{{namespace="prod",pod="{pod}",node="{node}"}} 1 {at}' for at in last]
    lines.append("# TYPE kube_node_labels gauge")
    for node, zone in ZONES.items():
        label = f'node="{node}",label_topology_kubernetes_io_zone="{zone}"'
        lines += [f"kube_node_labels{{{label}}} 1 {at}" for at in last]
    page = folder / "weeks.om"
    page.write_text("\n".join([*lines, "# EOF", ""]), "utf-8")
    with Store.open(folder / "weeks.db", "w") as store:
        import_file(store, page)
    (folder / "inferdoc.toml").write_text(PROMISED, "utf-8")


def line(made: Path) -> tuple[object, ...]:
    where = ("--store", made / "weeks.db", "--until", "latest", "--arima-seconds", "0")
    return "--config", made / "inferdoc.toml", "headroom", *where


@cache
def document(made: Path, *more: object) -> dict[str, Any]:
    """What the command answers; only read."""
    done = call(*line(made), "--tz", "UTC", "-o", "json", *more)
    assert done.code == 0, done.err
    return json.loads(done.out)


def pool_of(answer: dict[str, Any], role: str) -> dict[str, Any]:
    (found,) = [pool for pool in answer["pools"] if pool["role"] == role]
    return found


def numbers(part: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in part}


def test_usable_rate_and_peak_are_those_of_the_servers(made):
    answer = document(made)
    weeks = Weeks(START, days=DAYS, pools=(PREFILL, DECODE))
    week = weeks.times > START + (DAYS - 7.5) * 86_400
    for pool in (PREFILL, DECODE):
        told = pool_of(answer, pool.role)
        room = numbers(told["parts"][0]["numbers"])
        assert room["knee"]["value"] == pytest.approx(pool.usable, rel=0.1)
        assert room["knee"]["low"] <= room["knee"]["value"] <= room["knee"]["high"]
        true = np.quantile(weeks.expected(weeks.times[week]) * pool.share * pool.tokens, 0.95)
        assert room["load_peak"]["value"] == pytest.approx(true, rel=0.15)
        assert room["share"]["value"] == pytest.approx(room["load_peak"]["value"] / room["usable"]["value"])
        left = room["usable"]["value"] - room["load_peak"]["value"]
        assert room["headroom"]["value"] == pytest.approx(left)
        assert room["headroom_requests"]["value"] == pytest.approx(left / pool.tokens, rel=0.02)
        assert room["headroom_replicas"]["value"] == left // (room["usable"]["value"] / told["replicas"])


def test_every_number_has_a_unit_a_formula_and_a_source(made):
    answer = document(made)
    told = [each for pool in answer["pools"] for part in pool["parts"] for each in part["numbers"]]
    told += [each for pool in answer["pools"] for each in pool["clock"]["numbers"]]
    told += [each for pool in answer["pools"] for one in pool["lost"] for each in (one["share"], one["more"]) if each]
    assert len(told) > 20
    assert all(each["unit"] and each["formula"] and each["source"] for each in told)


def test_replicas_given_make_the_pool_larger_and_move_the_clock(made):
    name = pool_of(document(made), "decode")["pool"]
    small = document(made, name, "--replicas", "2")["pools"][0]
    large = document(made, name, "--replicas", f"{name}=40")["pools"][0]
    assert small["clock"]["status"] in ("crosses", "beyond it now")
    assert large["clock"]["status"] == "not within the horizon"
    assert large["usable"] == pytest.approx(20 * small["usable"])


def test_the_fullest_node_and_zone_come_from_kube_state_metrics(made):
    answer = document(made)
    pod, node, zone = pool_of(answer, "prefill")["lost"]
    assert pool_of(answer, "prefill")["replicas"] == 5, "as many are there at noon"
    assert (node["name"], node["replicas"], node["left"]) == ("n0", 2, 3)
    assert (zone["name"], zone["replicas"], zone["left"]) == ("z1", 4, 1)
    assert node["share"]["value"] == pytest.approx(pod["share"]["value"] * 4 / 3)
    assert zone["more"]["value"] == pod["more"]["value"] + 3
    decode = pool_of(answer, "decode")
    assert [one["what"] for one in decode["lost"]] == ["one pod"]
    assert any("the node of 3 pods" in each for each in decode["cannot_tell"])


def test_the_text_says_clock_and_losses_and_verbose_shows_formulas(made):
    berlin = (*line(made), "--tz", "Europe/Berlin")
    brief, verbose = call(*berlin), call(*berlin, "-v")
    assert brief.code == verbose.code == 0
    for words in (
        "headroom clock",
        "after a loss",
        "peak over the usable rate",
        "7 days, times in Europe/Berlin",
    ):
        assert words in brief.out
    assert "      = peak / usable rate of the pool" in verbose.out
    assert "      = " not in brief.out


def test_the_page_draws_load_and_forecast_against_what_the_pool_carries(made):
    page = call(*line(made), "--tz", "Europe/Berlin", "-o", "html").out
    assert page.count('role="img"') == 2 and "nan" not in page.lower() and "<script" not in page
    crossing = pool_of(document(made), "prefill")["clock"]["earliest"]["at"]
    assert crossing == "2026-03-04T11:25:54Z" and "Wednesday 12:26</text>" in page, "an hour later in Berlin"
    for words in ("Wed 04", "usable rate", 'class="badge critical">does not hold', "prompt tokens/s"):
        assert words in page


def test_metrics_are_the_numbers_of_the_document(made):
    pools = document(made)["pools"]
    done = call(*line(made), "--tz", "UTC", "-o", "prometheus")
    families = {one.name: one.samples for one in text_string_to_metric_families(done.out)}

    def told(name: str, **labels: str) -> dict[str, float]:
        rows = [one for one in families[name] if labels.items() <= one.labels.items()]
        return {one.labels["pool"]: one.value for one in rows}

    rooms = {pool["pool"]: numbers(pool["parts"][0]["numbers"]) for pool in pools}
    assert told("inferdoc_headroom_used", load="peak") == {
        name: pytest.approx(room["share"]["value"]) for name, room in rooms.items()
    }
    assert told("inferdoc_headroom_replicas", what="to_spare") == {
        name: room["headroom_replicas"]["value"] for name, room in rooms.items()
    }
    for pool in pools:
        for one in pool["lost"]:
            loss = told("inferdoc_headroom_after_loss", lost=one["what"])
            assert loss[pool["pool"]] == pytest.approx(one["share"]["value"])
    crossing = {pool["pool"]: pool["clock"]["earliest"]["at"] for pool in pools if pool["clock"]["earliest"]}
    assert pool_of({"pools": pools}, "prefill")["pool"] in crossing
    assert told("inferdoc_headroom_crossing_timestamp_seconds", path="earliest") == {
        pool: datetime.fromisoformat(at).timestamp() for pool, at in crossing.items()
    }


def test_a_load_that_no_metric_shows_is_not_called_zero(made, tmp_path):
    counted = ("_tokens_total", "_tokens_created", "_success_total", "_tokens_count", "_tokens_sum", "_seconds_count")
    lines = (made / "weeks.om").read_text("utf-8").splitlines()
    kept = [line for line in lines if not any(f"{end}{{" in line for end in counted)]
    (tmp_path / "gauges.om").write_text("\n".join([*kept, ""]), "utf-8")
    with Store.open(tmp_path / "gauges.db", "w") as store:
        import_file(store, tmp_path / "gauges.om")
    done = call("headroom", "--store", tmp_path / "gauges.db", "--until", "latest", "--arima-seconds", "0")
    assert done.code == 3
    told = " ".join((done.out + done.err).split())
    assert "no metric shows its load" in told and "had no load" not in told


def test_mistakes_are_one_line(made):
    utc = (*line(made), "--tz", "UTC")
    refused(call(*utc, "nope"), 2, "no pool is called `nope`", "prod-m-decode-h100-80")
    refused(call(*utc, "--replicas", "nope=3"), 2, "--replicas: no pool is called `nope`")
    refused(call(*utc, "--since", "soon"), 2, "--since")
    refused(call(*utc, "--horizon", "60d"), 2, "35 days")
