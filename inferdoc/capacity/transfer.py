"""Moving KV cache: over a link to another pod, or back from a tier of memory below."""

from __future__ import annotations

LEAST_NVLINK = 100.0
"""GB/s one way: PCIe Gen5 x16 is 64, the slowest NVLink 300."""


def transfer_seconds(size_bytes: float, link_gigabits: float, efficiency: float) -> float:
    """Time of a transfer on a link: bytes over gigabits/8 (a 400 Gb/s card moves 50 GB/s) times its efficiency."""
    return size_bytes / (link_gigabits / 8 * 1e9 * efficiency)


def reload_seconds_per_token(kv_bytes: float, bandwidth: float) -> float:
    """Seconds to bring a token's KV back at so many bytes/s; worth it where shorter than computing the token."""
    return kv_bytes / bandwidth
