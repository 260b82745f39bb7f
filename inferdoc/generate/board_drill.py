"""Where a line or a row of a board leads to: from the fleet to a pool, a pod, its GPUs, with the time range kept."""

from __future__ import annotations

from collections.abc import Sequence

POOL_BOARD = "inferdoc-latency"
GPU_BOARD = "inferdoc-gpu"
ALWAYS = ("datasource", "cluster", "namespace")
CHOSEN = {"model_name": "model_name", "role": "role", "tier": "tier", "pod": "pod"}


def drill(labels: Sequence[str], rows: bool = False) -> tuple[tuple[str, str], ...]:
    """Titles and addresses for series with these labels. rows: of a table, whose labels are fields of the row."""
    told = [label for label in CHOSEN if label in labels]
    if "pod" in told:
        where = [("Latency of this pod", POOL_BOARD), ("GPUs of this pod", GPU_BOARD)]
        told = ["pod"]
    elif "role" in told or "tier" in told:
        where = [("Pods of this pool", POOL_BOARD), ("GPUs of this pool", GPU_BOARD)]
    elif told:
        where = [("Pods of this model", POOL_BOARD)]
    else:
        return ()
    return tuple((title, _address(board, told, rows)) for title, board in where)


def _address(board: str, told: Sequence[str], rows: bool) -> str:
    kept = [name for name in (*ALWAYS, "model_name") if name not in told]
    parts = ["${__url_time_range}", *(f"${{{name}:queryparam}}" for name in kept)]
    value = "${__data.fields.%s}" if rows else "${__field.labels.%s}"
    return f"/d/{board}?" + "&".join([*parts, *(f"var-{CHOSEN[name]}={value % name}" for name in told)])
