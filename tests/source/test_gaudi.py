"""Signals of Gaudi devices, joined to the engine whose pod the exporter names."""

from __future__ import annotations

import pytest

from inferdoc import open_source
from inferdoc.store.importer import import_file
from inferdoc.store.store import Store

START = 1_700_000_000
ENGINE = 'instance="10.0.0.1:8000",job="vllm",namespace="llm",pod="vllm-0"'
DEVICE = 'instance="node-1:41611",job="gaudi",exported_namespace="llm",exported_pod="vllm-0",UUID="{}"'
SHOWN = {
    "gpu_util": ("habanalabs_utilization", 87, 0.87),
    "gpu_power": ("habanalabs_power_mW", 412_000, 412),
    "gpu_temp": ("habanalabs_temperature_onchip", 63, 63),
    "fb_free": ("habanalabs_memory_free_bytes", 2 * 1024**3, 2048),
}


def test_devices_are_read_in_the_units_of_signals(tmp_path):
    rows = {"vllm:num_requests_running": [(f'{ENGINE},engine="0",model_name="m"', 3)], "up": [(ENGINE, 1)]}
    rows |= {family: [(DEVICE.format(device), raw) for device in "ab"] for family, raw, _ in SHOWN.values()}
    lines = []
    for family, series in rows.items():
        lines.append(f"# TYPE {family} gauge")
        lines += [f"{family}{{{own}}} {value} {START + 15 * i}" for own, value in series for i in range(60)]
    (tmp_path / "page.om").write_text("\n".join([*lines, "# EOF\n"]))
    with Store.open(tmp_path / "page.db", "w") as store:
        import_file(store, tmp_path / "page.om")
    frame = open_source(store=tmp_path / "page.db").read(list(SHOWN), START + 300, START + 800, 15)
    for signal, (_, _, value) in SHOWN.items():
        matrix = frame[signal]
        assert [entity.pod for entity in matrix.entities] == ["vllm-0", "vllm-0"]
        assert matrix.values[:, -1] == pytest.approx(value)
