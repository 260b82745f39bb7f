"""The interface of a target of `inferdoc prewarm emit`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from inferdoc.prewarm.emit.base import EmitOptions
from inferdoc.prewarm.emit.patch_target import PatchTarget
from inferdoc.prewarm.plan import PlanRow
from inferdoc.prewarm.reference_check import MinuteSpan


@dataclass(frozen=True)
class PrewarmTarget:
    """All that emit, check and the proof before each write know of a target.

    emit: the plan as text.
    states: what the text contains: the floor of each minute of the week, that of one moment, or no floor.
    manifests: the text is Kubernetes objects.
    patched: the kind of object whose floor its CronJobs patch.
    read_week: int64[minutes], the floor that the text gives, by the rules of what runs it and not by code of `emit`.
        The last argument is int64[minutes]: what `prewarm apply` sets at each minute. None: read as Kubernetes objects.
    read_moment: text and pool -> the floor that the text states, None for a text that points to the plan.
    """

    emit: Callable[[PlanRow, EmitOptions], str]
    states: Literal["week", "moment", "nothing"] = "week"
    manifests: bool = True
    patched: PatchTarget | None = None
    read_week: Callable[[MinuteSpan, str, EmitOptions, np.ndarray], np.ndarray] | None = None
    read_moment: Callable[[str, str], int | None] = lambda _text, _pool: None
