"""Adapters on a board: vllm:lora_requests_info names them in labels, joined by commas, and PromQL counts no commas.

Old combinations stay exported for ever; the one with the largest value, its time, is the present one.
"""

from __future__ import annotations

from inferdoc.generate.board_scope import MATCHED, matched, pods
from inferdoc.judging.conditions.render import POOL, clause
from inferdoc.source.reads import selector

INFO = "vllm:lora_requests_info"
MOST = 8
"""So many adapters are shown separately; more show as this many. --max-loras is 1 by default, seldom above 8."""
LATELY = 600
"""s: combinations that were seen within this time."""
POD = ("namespace", "pod")


def adapters(label: str) -> str:
    """How many adapters the label `running_lora_adapters` or `waiting_lora_adapters` of a pod names now."""
    by = ", ".join((*POD, *POOL))
    known = f"max by ({by}) ({_scoped()})"
    text = [f"{count} * group by ({by}) ({_now(label, count)})" for count in range(MOST, 0, -1)]
    return "\nor ".join([*text, f"0 * {known}"])


def combinations() -> str:
    """How many combinations of adapters a pod had within the last ten minutes."""
    by = ", ".join((*POD, *POOL))
    return f"count by ({by}) ({_scoped()} > time() - {LATELY})"


def _now(label: str, count: int) -> str:
    """The present combination of pods where it has so many adapters."""
    more = f"(,[^,]+){{{count - 1}{',' if count == MOST else ''}}}"
    chosen = _scoped(((label, "=~", f"[^,]+{more}"),))
    newest = f"max by (namespace, pod, instance) ({selector(INFO, matched(MATCHED['target']))})"
    return f"{chosen} == on (namespace, pod, instance) group_left () {newest}"


def _scoped(match: tuple[tuple[str, str, str], ...] = ()) -> str:
    own = selector(INFO, (*matched(MATCHED["target"]), *match))  # type: ignore[arg-type]
    join = f"on (cluster, namespace, pod) group_left ({', '.join(POOL)}) {clause(pods('target'))}"
    return f"({own} * {join})"
