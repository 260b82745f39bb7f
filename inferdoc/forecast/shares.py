"""How much of the combination each path is: by what their mixture, not each of them, would have been off.

Scored one by one, two paths that err alike take twice the share of one that errs otherwise, and a path that evens out
another's errors counts for nothing (Bates and Granger, The combination of forecasts, 1969)."""

from __future__ import annotations

import numpy as np

LOOKS_A_DAY = 4.0
"""Independent samples of the path errors in a day, six hours each. By the degrees of freedom of a day's squared error
(Satterthwaite) loads have 1.6 to 6, 3.5 in the mean (docs/forecast.md)."""
PSEUDO_DAYS = 0.5
TURNS, STILL = 200, 1e-4
TINY = 1e-12


def shares(left: np.ndarray, recent: np.ndarray) -> np.ndarray:
    """float64[N], sum 1: the minimum of looks/2 x mean log squared error of the mixture + relative entropy to equal
    shares; for a mixture that is one path alone, its posterior. left: float64[N, K, P], what each path was off on each
    day, NaN where unknown; recent: float64[K], what each day counts."""
    known = np.isfinite(left).all(axis=0)
    hits = known.sum(axis=1)
    used = hits > 0
    share = np.full(len(left), 1.0 / len(left))
    if not used.any():
        return share
    off = np.where(known, left, 0.0)[:, used]
    squares = np.einsum("ikp,jkp->kij", off, off) / hits[used, None, None] + TINY
    part = recent[used] / (recent[used].sum() + PSEUDO_DAYS)
    looks = LOOKS_A_DAY * float(recent[used].sum())
    stride, best = 1.0 / looks, _cost(share, squares, part, looks)
    for _ in range(TURNS):
        toward = squares @ share
        slope = looks * part @ (toward / (toward @ share)[:, None])
        step = (1 - stride) * np.log(np.maximum(share, TINY)) - stride * slope
        further = np.exp(step - step.max())
        further /= further.sum()
        cost = _cost(further, squares, part, looks)
        if cost > best:
            stride /= 2
            continue
        moved = np.abs(further - share).max()
        share, best = further, cost
        if moved < STILL * stride:
            break
    return share


def _cost(share: np.ndarray, squares: np.ndarray, part: np.ndarray, looks: float) -> float:
    off = float(part @ np.log(np.maximum(squares @ share @ share, TINY)))
    return 0.5 * looks * off + float(share @ np.log(np.maximum(share, TINY)))
