"""The closed set of condition kinds. Each kind is one module with `evaluate`, `explain` and `promql`."""

from __future__ import annotations

from inferdoc.judging.conditions.registry import evaluate, explain, holding_until, prepare, promql

__all__ = ["evaluate", "explain", "holding_until", "prepare", "promql"]
