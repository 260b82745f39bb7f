"""Prefill and decode pods that serve one model together: what they counted, minute by minute, and how long KV takes
from one to the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from inferdoc.errors import InferdocError
from inferdoc.forecast.fromsource import pool_name
from inferdoc.kv.live import pool_chosen
from inferdoc.whatif.live import HITS, LOOKED, PROMPT, STEP, TTFT, ObservedPool, WatchedFleet, watched_fleet

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue
    from inferdoc.config import Config
    from inferdoc.fleet.members import Pool
    from inferdoc.forecast.fromsource import Key
    from inferdoc.source.identified import Identified

APART = ("prefill", "decode")
"""Roles of a pair, in the order in which a request passes them."""
OTHER = dict(zip(APART, reversed(APART), strict=True))
READ = "vllm:nixl_xfer_time_seconds"


@dataclass(frozen=True)
class ObservedPair:
    """prefill, decode: over the same minutes; read: seconds in which a decode pod reads one token of KV while it reads
    nothing else, None where no transfer is counted."""

    prefill: ObservedPool
    decode: ObservedPool
    read: float | None

    @property
    def sides(self) -> tuple[ObservedPool, ObservedPool]:
        """Both pools, the prefill pool first."""
        return self.prefill, self.decode

    @property
    def name(self) -> str:
        """Of both."""
        return " + ".join(each.name for each in self.sides)

    def part(self, first: int, last: int) -> ObservedPair:
        """The intervals from `first` to before `last`."""
        return replace(self, prefill=self.prefill.part(first, last), decode=self.decode.part(first, last))


def observed_for_request(
    source: Identified, config: Config, catalogue: Catalogue, options: Mapping[str, Any], until: int | None = None
) -> ObservedPool | ObservedPair:
    """The pool that --pool names, or the only one; of a pool that does one phase, the pair. until: Unix seconds, None
    for the newest sample. Raises InferdocError."""
    fleet = watched_fleet(source, config, catalogue, options, until)
    pools = fleet.made.pools()
    named = options.get("pool")
    if named is None and len(pools) == len(APART) and {pool.role for pool in pools} == set(APART):
        named = pool_name(next(iter(pools)))
    pool, keys = pool_chosen(fleet.made, named)
    if pool.role == "both":
        return fleet.pool(pool, keys)
    other = _other_side(pool, pools)
    by_role = {each.role: fleet.pool(each, pools[each]) for each in (pool, other)}
    prefill, decode = _over_the_same(by_role["prefill"], by_role["decode"])
    return ObservedPair(prefill, decode, _seconds_to_read(fleet, prefill, decode))


def _other_side(pool: Pool, pools: Mapping[Pool, Sequence[Key]]) -> Pool:
    """The one pool that does the other phase of the same model."""
    role = OTHER[pool.role]
    there = [each for each in pools if each.family == pool.family and each.role == role]
    if len(there) == 1:
        return there[0]
    name = pool_name(pool)
    if not there:
        raise InferdocError(f"{name}: a {pool.role} pool, and no {role} pool of {pool.model} is seen beside it")
    raise InferdocError(
        f"{name}: {len(there)} {role} pools share its requests ({', '.join(sorted(map(pool_name, there)))}); only "
        "one prefill and one decode pool can be played together"
    )


def _over_the_same(prefill: ObservedPool, decode: ObservedPool) -> tuple[ObservedPool, ObservedPool]:
    """Both over the minutes in which both were at work."""
    begin = max(each.begin for each in (prefill, decode))
    end = min(each.end for each in (prefill, decode))
    if end <= begin:
        raise InferdocError(f"{prefill.name} and {decode.name}: never at work in the same minutes")
    first, last = (each.part((begin - each.begin) // STEP, (end - each.begin) // STEP) for each in (prefill, decode))
    return first, last


def _seconds_to_read(fleet: WatchedFleet, prefill: ObservedPool, decode: ObservedPool) -> float | None:
    """Reads of a pod share its link evenly, so of n/s that take t each, one alone would take t / (1 + n t): the mean
    time in an M/G/1 queue with processor sharing is s / (1 - n s), whatever the sizes are."""
    seconds, count = (fleet.counter(f"{READ}_{part}", decode) for part in ("sum", "count"))
    tokens = prefill.mean(PROMPT) * (1.0 - decode.total(HITS) / max(1.0, decode.total(LOOKED)))
    if not count or seconds is None or not tokens > 0:
        return None
    each = seconds / count
    arriving = decode.total(f"{TTFT}_count") / decode.pods / decode.seconds
    return each / (1.0 + arriving * each) / tokens
