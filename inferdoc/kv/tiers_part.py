"""Whether to bring KV back from a tier of memory below, or to compute it again."""

from __future__ import annotations

from inferdoc.capacity.transfer import reload_seconds_per_token
from inferdoc.kv.live import CachedPool
from inferdoc.kv.wanted import TiersBelow
from inferdoc.sizing.model import Predicted, SizedPart
from inferdoc.sizing.number import Inputs, number

TIERS = "bring back or compute again"


def tiers_part(pool: CachedPool, below: TiersBelow, doubts: list[str]) -> list[SizedPart]:
    """Seconds a token of both, by tier; a doubt where one side is not known."""
    if pool.prefill is None:
        doubts.append("tiers below: prefill was not timed; see doctor for vllm:request_prefill_time_seconds")
        return []
    if below.kv_bytes is None or below.replica_bytes is None:
        doubts.append(f"tiers below: model {pool.pool.model} is not known; give --model with its config.json")
        return []
    if not below.told:
        doubts.append(
            "GPUs of a pod are not told: one for each engine is taken; give --gpus, or [[pods]] of the configuration"
        )
    low, middle, high = pool.prefill
    numbers = [
        number(
            ("compute", "compute a token again", "s/token"),
            {"low": low, "middle": middle, "high": high},
            formula="prefill seconds / computed tokens",
            inputs={},
            source="vllm:request_prefill_time_seconds, in the quietest third of the time",
        )
    ]
    host = f"{below.host / 1e9:g} GB/s for each of its GPUs, as host_gbps of its tier says"
    numbers += _tier(pool, below, "host memory", (below.kv_bytes, below.host), host)
    if pool.reload is not None:
        numbers += _tier(pool, below, "host memory, measured", (below.replica_bytes, 1.0 / pool.reload), "its offload")
    if reload_seconds_per_token(below.replica_bytes, below.nvme) > middle:
        doubts.append("NVMe: slower than computing again, so what it holds saves no time; more drives or FP8 KV do")
    drives = f"drives that read {below.nvme / 1e9:g} GB/s together (--nvme-gbps)"
    numbers += _tier(pool, below, "NVMe", (below.replica_bytes, below.nvme), drives)
    return [SizedPart(TIERS, numbers)]


def _tier(pool: CachedPool, below: TiersBelow, title: str, path: tuple[float, float], source: str) -> list[Predicted]:
    """path: bytes of a token on it, and its bytes/s."""
    assert pool.prefill is not None
    low, middle, high = pool.prefill
    reload = reload_seconds_per_token(*path)
    name = title.replace(", ", "_").replace(" ", "_").lower()
    inputs: Inputs = {"KV of a token": (path[0], "bytes"), "path": (path[1], "bytes/s")}
    return [
        number(
            (f"reload_{name}", f"from {title}", "s/token"),
            reload,
            formula="KV bytes of a token / bytes per second",
            inputs=inputs,
            source=source,
            assumed=True,
        ),
        number(
            (f"gain_{name}", "  faster by", "times"),
            {"low": low / reload, "middle": middle / reload, "high": high / reload},
            formula="seconds to compute / seconds to bring back; below 1 it is slower",
            inputs=inputs,
            source=f"{source}; KV in {below.dtype}",
            assumed=True,
        ),
    ]
