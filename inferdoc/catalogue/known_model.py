"""`collectors/models.yaml`: models that can be named instead of giving their config.json."""

from __future__ import annotations

from typing import Any

import msgspec


class KnownModel(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """title: the name under which its makers publish it; parameters, active (per token; of a dense model all): as they
    count them; config: the keys of its config.json that sizing reads."""

    title: str
    parameters: float
    config: dict[str, Any]
    source: str
    active: float | None = None


class KnownModels(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """By short name."""

    models: dict[str, KnownModel] = {}
