"""What the cache of layouts holds."""

import tracemalloc

from inferdoc.collect.exposition import parse
from inferdoc.collect.samples import LayoutCache


def test_labels_that_change_at_every_restart_stay_within_memory():
    """40 pods whose labels change at every restart held 360 MB and more."""
    same = ",".join(f'{name}="{name}-of-the-fleet"' for name in ("cluster", "model_name", "region", "team", "zone"))
    cache = LayoutCache()
    tracemalloc.start()
    try:
        for restart in range(60):
            own = f'revision="{restart}",uid="{restart:036d}"'
            parse("".join(f'm_bucket{{{same},{own},le="{le}"}} 1\n' for le in range(500)).encode(), layouts=cache)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 40e6
