"""How each cause, and each kind of control, is drawn: the mechanism that changes and by how much."""

from inferdoc_dev.incidents import (
    autoscaling,
    cache,
    contexts,
    disaggregated,
    engines,
    gateway,
    load_changes,
    machines,
    prefixes,
    serving,
    settings,
    traffic,
)
from inferdoc_dev.incidents.controls import CONTROLS
from inferdoc_dev.incidents.generator import Drawing
from inferdoc_dev.incidents.pairs import PAIRS

CAUSES: dict[str, Drawing] = {
    **cache.CAUSES,
    **prefixes.CAUSES,
    **contexts.CAUSES,
    **load_changes.CAUSES,
    **disaggregated.CAUSES,
    **serving.CAUSES,
    **engines.CAUSES,
    **machines.CAUSES,
    **settings.CAUSES,
    **traffic.CAUSES,
    **gateway.CAUSES,
    **autoscaling.CAUSES,
}

__all__ = ["CAUSES", "CONTROLS", "PAIRS"]
