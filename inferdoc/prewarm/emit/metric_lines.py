"""The metrics of prewarm, in the text format of a textfile collector."""

from __future__ import annotations

import re
from collections.abc import Mapping

FLOOR = "inferdoc_prewarm_floor_replicas"
UNTIL = "inferdoc_prewarm_valid_until_timestamp_seconds"
MAXIMUM = "inferdoc_prewarm_maximum_replicas"
BUDGET = "inferdoc_prewarm_budget_hours"
SET = "inferdoc_prewarm_set_replicas"
APPLIED = "inferdoc_prewarm_applied_timestamp_seconds"
UNFOLLOWED = "inferdoc_prewarm_plan_unusable"
HELP = {
    FLOOR: "Replicas that should be warm now.",
    UNTIL: "When the plan behind the floor stops being valid.",
    MAXIMUM: "Replicas that the plan never exceeds.",
    BUDGET: "Replica-hours a week that the floor may cost.",
    SET: "Floor that stands on the object since the last run of apply.",
    APPLIED: "When apply last settled the object.",
    UNFOLLOWED: "1 where the last run of apply had no plan to follow (stale, gone, not fit for the object), else 0.",
}


def metric_text(filled: Mapping[str, Mapping[str, float]]) -> str:
    """Families by name, values by pool; whole numbers without a point."""
    lines = []
    for name, values in filled.items():
        if values:
            lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} gauge"]
            lines += [f'{name}{{pool="{pool}"}} {value:.12g}' for pool, value in values.items()]
    return "\n".join(lines) + "\n"


def values_of(text: str) -> dict[tuple[str, str], float]:
    """The values of a text written by `metric_text`, by name and pool; lines of another form are left out."""
    found = re.findall(r'^(\w+)\{pool="([^"]*)"\} ([-+.\deE]+)$', text, re.MULTILINE)
    return {(name, pool): float(value) for name, pool, value in found}
