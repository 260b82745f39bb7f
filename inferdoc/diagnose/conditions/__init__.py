"""The closed set of condition kinds. Each kind is one module with `evaluate`, `explain` and `promql`."""

from __future__ import annotations

from inferdoc.diagnose.conditions.registry import evaluate, explain, kind_of, parts_of, promql, signals_of

__all__ = ["evaluate", "explain", "kind_of", "parts_of", "promql", "signals_of"]
