"""Where a line or a row of a board leads to: from the fleet to a pool, a pod, its GPUs, with the time range kept."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from inferdoc.generate.board_spec import BoardSpec

POOL_BOARD = "inferdoc-latency"
GPU_BOARD = "inferdoc-gpu"
ALWAYS = ("datasource", "cluster", "namespace")
BOARD = "board"
"""Label with the uid of the dashboard that shows the cause of a series."""
CHOSEN = {"model_name": "model_name", "role": "role", "tier": "tier", "pod": "pod"}


def drill(labels: Sequence[str], rows: bool = False) -> tuple[tuple[str, str], ...]:
    """Titles and addresses for series with these labels. rows: of a table, whose labels are fields of the row."""
    names = [label for label in CHOSEN if label in labels]
    if "pod" in names:
        where = [("Latency of this pod", POOL_BOARD), ("GPUs of this pod", GPU_BOARD)]
        names = ["pod"]
    elif "role" in names or "tier" in names:
        where = [("Pods of this pool", POOL_BOARD), ("GPUs of this pool", GPU_BOARD)]
    elif names:
        where = [("Pods of this model", POOL_BOARD)]
    else:
        return ()
    return tuple((title, address(board, names, rows)) for title, board in where)


def with_board(expr: str, boards: Mapping[str, BoardSpec]) -> str:
    """The series of an expression with the uid of a dashboard in the label `board`, by their label `cause`."""
    found = f'label_replace({expr}, "{BOARD}", "{POOL_BOARD}", "", "")'
    for board in boards.values():
        if board.causes:
            pattern = "|".join(re.escape(each).replace(r"\-", "-").replace(r"\*", ".*") for each in board.causes)
            found = f'label_replace({found}, "{BOARD}", "{board.uid}", "cause", "{pattern}")'
    return found


def address(board: str, names: Sequence[str], rows: bool) -> str:
    """A link that keeps the time range and the variables, narrowed to the labels of the line or row."""
    kept = [name for name in (*ALWAYS, "model_name") if name not in names]
    parts = ["${__url_time_range}", *(f"${{{name}:queryparam}}" for name in kept)]
    value = "${__data.fields.%s}" if rows else "${__field.labels.%s}"
    return f"/d/{board}?" + "&".join([*parts, *(f"var-{CHOSEN[name]}={value % name}" for name in names)])
