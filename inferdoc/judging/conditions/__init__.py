"""The closed set of condition kinds. Each kind is one module with `evaluate`, `explain` and `promql`."""

from __future__ import annotations

from inferdoc.judging.conditions.registry import evaluate, explain, prepare, promql, signals_of

__all__ = ["evaluate", "explain", "prepare", "promql", "signals_of"]
