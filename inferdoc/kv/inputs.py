"""What a user gives beside the pool: memory of the tiers below, and what no metric shows of model and layout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from inferdoc.capacity.kv_bytes import KV_DTYPES, SPARSE_LAYER_BYTES, KvLayers, kv_bytes_per_token
from inferdoc.errors import InferdocError
from inferdoc.kv.live import CachedPool
from inferdoc.sizing.request import model_known, shape_named

if TYPE_CHECKING:
    from inferdoc.catalogue.load import Catalogue

NVME = 7.0
"""GB/s that one NVMe drive reads (PCIe Gen4 x4)."""
MOST_GIB, MOST_GBPS = 1e6, 1e5


@dataclass(frozen=True)
class TiersBelow:
    """host_gib, nvme_gib: for the KV of one replica, None where none is given; nvme: bytes/s of its drives; host:
    bytes/s of each GPU to host memory; gpus: of an engine, gpus_known: whether anything shows that; kv_bytes: of a
    token on each GPU, None where the model is not known; dtype: of the KV cache; latent: every GPU holds the same."""

    host_gib: float | None
    nvme_gib: float | None
    nvme: float
    host: float
    gpus: int
    gpus_known: bool
    kv_bytes: float | None
    dtype: str
    latent: bool = False

    @property
    def replica_bytes(self) -> float | None:
        """Bytes of a token in a tier that all GPUs of a replica share."""
        return None if self.kv_bytes is None else self.kv_bytes * (1 if self.latent else self.gpus)


def tiers_for_request(options: Mapping[str, Any], pool: CachedPool, catalogue: Catalogue) -> TiersBelow:
    """Every option checked. Raises InferdocError."""
    gib, gbps = (MOST_GIB, "GiB"), (MOST_GBPS, "GB/s")
    for flag, (most, unit) in (("host-gib", gib), ("nvme-gib", gib), ("nvme-gbps", gbps)):
        given = options.get(flag.replace("-", "_"))
        if given is not None and not 0 < given <= most:
            raise InferdocError(f"--{flag} {given:g}: expected {unit}, above 0 and at most {most:,.0f}")
    of_pod = options.get("gpus") or pool.gpus
    gpus = None if of_pod is None else max(1, of_pod // pool.engines)
    layers = _layers(options, pool, catalogue)
    dtype = _dtype(options.get("kv_dtype") or pool.settings.get("cache_dtype", "auto"))
    return TiersBelow(
        options.get("host_gib"),
        options.get("nvme_gib"),
        (options.get("nvme_gbps") or NVME) * 1e9,
        catalogue.tiers.host_rate(pool.pool.tier),
        gpus or 1,
        gpus is not None,
        None if layers is None else _bytes(layers, dtype, gpus or 1),
        dtype,
        layers is not None and bool(layers.latent),
    )


def _layers(options: Mapping[str, Any], pool: CachedPool, catalogue: Catalogue) -> KvLayers | None:
    given = options.get("model")
    if given is None and model_known(pool.pool.model, catalogue) is None:
        return None
    return shape_named(given or pool.pool.model, catalogue).kv


def _bytes(layers: KvLayers, dtype: str, gpus: int) -> float:
    if dtype not in (SPARSE_LAYER_BYTES if layers.sparse else KV_DTYPES):
        raise InferdocError(f"--kv-dtype {dtype}: this model's KV cache has one of {', '.join(SPARSE_LAYER_BYTES)}")
    return kv_bytes_per_token(layers, dtype, gpus)


def _dtype(label: str) -> str:
    """From the cache_dtype label of vLLM: fp8_e4m3 -> fp8; auto is that of the weights, 16 bits."""
    return next((name for name in KV_DTYPES if label.startswith(name)), "bf16")


def memory_of(gib: float, below: TiersBelow, pool: CachedPool) -> float | None:
    """So many GiB as times the KV cache of a replica; None where the bytes of a token are not known."""
    return None if below.replica_bytes is None else math.floor(gib * 2**30 / below.replica_bytes) / pool.capacity
