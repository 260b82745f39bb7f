"""What a live pool shows of what a benchmark measured: one reading per pod and five minutes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from inferdoc.catalogue.document import nearest
from inferdoc.errors import InferdocError
from inferdoc.fleet.members import assignments_of
from inferdoc.forecast.fromsource import Gathered, Key, gather, pool_name
from inferdoc.forecast.series import DAY
from inferdoc.judging.settings import CACHE_SETTINGS, newest_settings, settings_of
from inferdoc.source.grid import make_grid, scrape_interval_ms
from inferdoc.times import seconds_of

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.config import Config
    from inferdoc.fleet.members import Pool
    from inferdoc.source.identified import Identified

RATE = "request_rate"
LATENCIES = ("ttft_p50", "ttft_p99", "tpot_request_p99", "itl_p99", "e2e_p99")
READ = (RATE, "prompt_len_mean", "output_len_mean", "prefix_hit_ratio", "error_share", *LATENCIES)
STEP = 300
SETTINGS_MS = 3_600_000
"""Settings are those of the last hour."""


@dataclass(frozen=True)
class ProductionPool:
    """rows: signal -> float64[readings], one per pod and step in which it served, NaN if unknown; settings: those
    of its cache, which vLLM shows."""

    name: str
    pool: Pool
    rows: Mapping[str, np.ndarray]
    settings: Mapping[str, str]

    @property
    def rate(self) -> np.ndarray:
        """float64[readings]: requests/s of a pod."""
        return self.rows[RATE]


def production_for_request(
    source: Identified, config: Config, catalogue: Catalogue, options: Mapping[str, Any]
) -> ProductionPool:
    """The pool that --against names. Raises InferdocError, SourceError."""
    days = max(1, math.ceil(seconds_of(options["history"], "--history") / DAY))
    made = gather(source, READ, catalogue.tiers, assignments_of(config.pods), days=days, step=STEP)
    pools = {pool_name(pool): (pool, keys) for pool, keys in made.pools().items()}
    name = options["against"]
    if name not in pools:
        raise InferdocError(f'--against: no pool "{name}"{nearest(name, pools)}; pools: {", ".join(sorted(pools))}')
    pool, keys = pools[name]
    rows = _served(made, keys)
    if not len(rows[RATE]):
        raise InferdocError(
            f"--against {name}: no request was served in the last {options['history']}; a longer --history"
        )
    return ProductionPool(name, pool, rows, _settings(source, keys))


def _served(made: Gathered, keys: Sequence[Key]) -> dict[str, np.ndarray]:
    columns = {signal: np.concatenate([made.row(signal, key) for key in keys]) for signal in READ}
    known = np.nan_to_num(columns[RATE]) > 0
    return {signal: values[known] for signal, values in columns.items()}


def _settings(source: Identified, keys: Sequence[Key]) -> Mapping[str, str]:
    newest = source.latest_ms()
    if newest is None:
        return {}
    interval = scrape_interval_ms(source.scrapes(newest - SETTINGS_MS, newest))
    shown = newest_settings(source.info(CACHE_SETTINGS, make_grid(newest - SETTINGS_MS, newest, interval, newest)))
    return next((labels for key in keys if (labels := settings_of(shown, key))), {})
