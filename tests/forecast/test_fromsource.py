"""Loads of pools from a source: pods summed without false drops, roles, and the way through a real store."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from fake_source import FakeSource
from made import DAY, MONDAY

from inferdoc.catalogue.load import load_catalogue
from inferdoc.cli.forecast import command
from inferdoc.cli.prewarm import command as prewarm
from inferdoc.config_sections import PodSection
from inferdoc.errors import InferdocError
from inferdoc.forecast.fromsource import gather, gpus_of_pod, load_series, sum_of_pods
from inferdoc.forecast.series import LoadUnit
from inferdoc.source.frame import Entity

NAN = np.nan


class Fake(FakeSource):
    """Pods with one value per signal; silent: Unix seconds between which nothing is known."""

    def __init__(
        self, pods: dict[str, str], values: dict[str, float], end: int, silent: tuple[int, int] = (0, 0)
    ) -> None:
        super().__init__(end)
        self.pods, self.values, self.silent = pods, values, silent

    def rows(self, signal: str, times: np.ndarray) -> dict[Entity, np.ndarray]:
        if signal not in self.values:
            return {}
        row = np.full(len(times), float(self.values[signal]))
        row[(times > self.silent[0]) & (times <= self.silent[1])] = NAN
        labels = ("pod", "namespace", "model_name", "role")
        return {Entity.of(labels, (pod, "ns", "m", role)): row for pod, role in self.pods.items()}


def series_of(source: Fake, days: int = 2, load: LoadUnit | None = None) -> dict[str, object]:
    made = gather(source, ["arrival_rate", "request_rate", "admission_rejections_rate", "prefill_tokens_rate",
                           "generation_tokens_rate"], load_catalogue(()).tiers, days=days)  # fmt: skip
    return dict(load_series(made, load))  # type: ignore[arg-type]


END = MONDAY + 2 * DAY


def test_pods_are_summed_and_rejections_count_as_demand() -> None:
    source = Fake({"a": "", "b": ""}, {"running": 1, "arrival_rate": 3.0, "admission_rejections_rate": 0.5}, END)
    (series,) = series_of(source).values()
    assert series.kind == "rate" and series.unit == "requests/s"  # type: ignore[attr-defined]
    assert np.allclose(series.values, 7.0)  # type: ignore[attr-defined]
    assert series.end == END  # type: ignore[attr-defined]


def test_prefill_is_counted_in_input_tokens_and_decode_in_output_tokens() -> None:
    values = {"running": 1.0, "arrival_rate": 3.0, "prefill_tokens_rate": 900.0, "generation_tokens_rate": 80.0}
    found = series_of(Fake({"p": "prefill", "d": "decode"}, values, END))
    assert {name: float(s.values[5]) for name, s in found.items()} == {"ns-m-prefill": 900.0, "ns-m-decode": 80.0}  # type: ignore[attr-defined]


def test_an_outage_of_scraping_is_a_gap() -> None:
    source = Fake({"a": ""}, {"running": 1, "arrival_rate": 3.0}, END, (MONDAY + 3600, MONDAY + 3 * 3600))
    (series,) = series_of(source).values()
    assert np.isnan(series.values[12:36]).all()  # type: ignore[attr-defined]


def test_a_load_is_as_fine_as_asked_for() -> None:
    source = Fake({"a": ""}, {"running": 1, "arrival_rate": 3.0}, END)
    made = gather(source, ["arrival_rate"], load_catalogue(()).tiers, days=1)
    for step in (made.step, 3 * made.step):
        (series,) = load_series(made, step=step).values()
        assert (series.step, len(series.values)) == (step, DAY // step)


@pytest.mark.parametrize(
    ("sections", "gpus", "found"),
    [
        ((), {"a": 2, "b": 4}, 4),
        ((PodSection("a|b", gpus=8), PodSection("a", gpus=1)), {"a": 2, "b": 4}, 8),
        ((PodSection("a", role="decode"), PodSection("b", gpus=8)), {"a": 2, "b": 4}, 4),
        ((), {"elsewhere": 2}, None),
        ((), {}, None),
    ],
)
def test_the_gpus_of_a_pod_are_told_or_counted(
    sections: tuple[PodSection, ...], gpus: dict[str, int], found: int | None
) -> None:
    class Exporter(FakeSource):
        def rows(self, signal: str, times: np.ndarray) -> dict[Entity, np.ndarray]:
            names = [(pod, str(index)) for pod, count in gpus.items() for index in range(count)]
            return {Entity.of(("namespace", "pod", "gpu"), ("ns", *name)): np.ones(len(times)) for name in names}

    source = Fake({"a": "", "b": ""}, {"running": 1, "arrival_rate": 3.0}, END)
    made = gather(source, ["arrival_rate"], load_catalogue(()).tiers, days=1)
    assert gpus_of_pod(Exporter(END), sections, made, [("", "ns", "a"), ("", "ns", "b")]) == found


def test_a_source_without_an_engine_is_one_clear_line() -> None:
    with pytest.raises(InferdocError, match="no engine was seen"):
        series_of(Fake({"a": ""}, {"gpu_util": 0.5}, END))


def test_pods_that_come_and_go_leave_no_false_drop() -> None:
    rows = np.full((3, 20), NAN)
    rows[0] = 5.0
    rows[1, 5:15] = 4.0
    rows[2] = 6.0
    rows[2, 8:10] = NAN  # a short hole is bridged
    total = sum_of_pods(rows)
    assert total.tolist() == [11.0] * 5 + [15.0] * 10 + [11.0] * 5
    rows[2, 4:12] = NAN  # a long hole of a heavy pod makes a gap
    assert np.isnan(sum_of_pods(rows)[4:12]).all()


def test_a_pod_that_comes_back_as_another_process_was_away_and_hid_nothing() -> None:
    """Numbered pods that are scaled in at night: no gap, and nothing drawn across the night."""
    rows = np.full((2, 20), NAN)
    rows[0] = 5.0
    rows[1, :6] = rows[1, 14:] = 4.0
    lives = np.stack([np.full(20, 1000.0), np.where(np.arange(20) < 10, 1000.0, 50_000.0)])
    assert sum_of_pods(rows, lives).tolist() == [9.0] * 6 + [5.0] * 8 + [9.0] * 6
    assert np.isnan(sum_of_pods(rows, np.full_like(rows, 1000.0))[6:14]).all()


def exposition(days: float) -> str:
    """Counters of two pods over some days, a scrape a minute, a daily rhythm."""
    times = np.arange(MONDAY, MONDAY + days * DAY, 60)
    rate = 2.0 + 1.8 * np.sin(2 * np.pi * (times % DAY) / DAY)
    total = np.cumsum(rate * 60)
    lines = []
    for name, kind, values in [
        ("vllm:num_requests_running", "gauge", np.round(rate * 3)),
        ("vllm:num_requests_waiting", "gauge", np.zeros(len(times))),
        ("vllm:request_success", "counter", np.round(total)),
        ("up", "gauge", np.ones(len(times))),
    ]:
        lines.append(f"# TYPE {name} {kind}")
        sample = f"{name}_total" if kind == "counter" else name
        for pod in ("a", "b"):
            labels = f'job="vllm",instance="{pod}:8000",pod="{pod}",namespace="ns",model_name="m",engine="0"'
            if name == "up":
                labels = f'job="vllm",instance="{pod}:8000",pod="{pod}",namespace="ns"'
            extra = ',finished_reason="stop"' if kind == "counter" else ""
            lines += [
                f"{sample}{{{labels}{extra}}} {v:g} {t}" for t, v in zip(times.tolist(), values.tolist(), strict=True)
            ]
    return "\n".join(lines) + "\n# EOF\n"


def test_forecast_and_plan_from_a_store(tmp_path: Path) -> None:
    from inferdoc.store import Store, import_file

    text, path = tmp_path / "fleet.om", tmp_path / "fleet.db"
    text.write_text(exposition(4))
    with Store.open(path, "w") as store:
        import_file(store, str(text))
    answer = CliRunner().invoke(command, ["--store", str(path), "--history", "4d", "--horizon", "6h", "-o", "json"])
    assert answer.exit_code == 0, answer.output + str(answer.exception)
    found = json.loads(answer.stdout)
    assert found["series"] == "ns-m" and found["unit"] == "requests/s"
    assert not found["abstained"], found["reason"]
    # 4 requests/s on average, lowest at 18:00 and rising through midnight to 04:00
    assert found["forecast"][0]["p50"] == pytest.approx(4.0, rel=0.15)
    assert found["forecast"][-1]["p50"] == pytest.approx(7.6, rel=0.15)
    at = str(MONDAY + 4 * DAY)
    words = ["plan", "--store", str(path), "--history", "4d", "--horizon", "24h", "--from", at]
    answer = CliRunner().invoke(prewarm, words)
    assert str(answer.exception) == (
        "what a replica serves is not known (0 readings of a latency beside this load, 60 are needed); "
        "give --capacity 'ns-m=NUMBER requests/s'"
    )
    answer = CliRunner().invoke(prewarm, [*words, "--capacity", "1.5 requests/s", "-o", "json"])
    assert answer.exit_code == 0, str(answer.exception)
    plan = json.loads(answer.stdout)["pools"][0]
    assert plan["policy"]["capacity_unit"] == "requests/s"
    assert max(w["replicas"] for w in plan["windows"]) >= 6
    answer = CliRunner().invoke(command, ["--store", str(path), "--history", "4d", "--capacity"])
    assert "requests/s: not known: 0 readings of a latency beside this load, 60 are needed" in answer.stdout
