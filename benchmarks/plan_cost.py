"""What one plan costs a Prometheus: queries, and CPU seconds of the server, for pools of weeks of history.

    python benchmarks/plan_cost.py [POOLS [REPLICAS [WEEKS [SCRAPE]]]]   default: 10 pools of 2 replicas, 4 weeks, 120 s

Half of the pools prefill, half decode, with all buckets that vLLM has. Needs prometheus and promtool on the PATH. The
table of docs/prewarm.md is what it prints."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import requests
from measured import measured_line
from process_cost import Spent

from inferdoc.catalogue.load import load_catalogue
from inferdoc.catalogue.slo import Slo
from inferdoc.forecast.command import Origin
from inferdoc.forecast.engine import Request
from inferdoc.prewarm.plan_options import PlanOptions
from inferdoc.prewarm.pools import plan_pools
from inferdoc.source.open import open_source
from tests import pd_weeks, prometheus_server

MONDAY = 1_771_804_800
HISTOGRAMS = load_catalogue(()).exporters["vllm"].metrics
ALL_BOUNDS = {role: HISTOGRAMS[name].bounds for role, name in pd_weeks.HISTOGRAM.items()}


def fleet(pools: int, replicas: int) -> list[pd_weeks.Tiered]:
    """So many pools of a name of their own, each with about so many replicas at noon."""
    made = []
    for number in range(pools):
        like = pd_weeks.FLEET[0] if number % 2 == 0 else pd_weeks.FLEET[2]
        share = (replicas - 0.2) * 0.95 * like.usable / like.tokens / 24.0
        made.append(pd_weeks.Tiered(like.role, f"tier-{number}", share, like.saturation, like.base, like.cold))
    return made


def server_cpu(url: str) -> float:
    """CPU seconds that the server has used."""
    found = re.search(r"^process_cpu_seconds_total (\S+)", requests.get(f"{url}/metrics", timeout=10).text, re.M)
    assert found is not None
    return float(found[1])


def main(pools: int = 10, replicas: int = 2, weeks: int = 4, scrape: int = 120) -> None:
    pd_weeks.BOUNDS.update(ALL_BOUNDS)
    made = pd_weeks.Weeks(MONDAY, 7 * weeks, scrape, pools=fleet(pools, replicas))
    slos = tuple(
        Slo(signal, signal, f"{signal}_p99", "latency", target, 0.99, "30d")
        for signal, target in pd_weeks.OBJECTIVES.values()
    )
    with tempfile.TemporaryDirectory() as folder:
        text = made.write(Path(folder) / "weeks.om")
        with prometheus_server.running([text], Path(folder) / "prometheus") as url:
            source = open_source(prometheus=url, timeout=600)
            origin = Origin(until=made.end, open=lambda: (source, load_catalogue(()).tiers, (), slos))
            before = server_cpu(url)
            with Spent() as own:
                planned = plan_pools(
                    origin, PlanOptions(Request(7 * 86_400, begin=made.end, arima_seconds=0)), made.end
                )
            took = server_cpu(url) - before
            print("| pools | replicas at noon | weeks | scrape | planned | queries | server CPU, s | own CPU, s |")
            print("|---|---|---|---|---|---|---|---|")
            cells = (pools, replicas, weeks, f"{scrape} s", len(planned.rows), source.cost.queries)
            print(f"| {' | '.join(map(str, cells))} | {took:.2f} | {own.cpu:.1f} |\n\n{measured_line()}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
