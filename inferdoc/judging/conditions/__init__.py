"""The closed set of condition kinds. Each kind is one module with `evaluate`, `explain` and `promql`."""

from __future__ import annotations

from inferdoc.judging.conditions.registry import evaluate, explain, prepare, promql

__all__ = ["evaluate", "explain", "prepare", "promql"]
