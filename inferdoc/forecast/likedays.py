"""The path of like days: what followed on the days that went as the last one did.

Profiles average over all days of a kind; a tenant that works in spells (a batch job every few nights, a launch week, a
quiet fortnight) is better told by the few days that were like this one (nearest neighbours, as in analogue forecasting:
Lorenz, Atmospheric predictability as revealed by naturally occurring analogues, 1969).
"""

from __future__ import annotations

import numpy as np

from inferdoc.forecast.paths import Folded, day, smooth, weighted_mean

NEIGHBOURS, MIN_DAYS, MIN_KNOWN = 4, 3, 0.5
OTHER_KIND = 8.0
"""How far away a day of another kind is, in usual distances: a working day before a weekend is like another one."""
NEAREST = 0.1
"""Added to distances, so that one day that is all but the same does not stand alone."""
LEVEL_SHARE = 0.5


def like_days(folded: Folded, upto: int, ahead: int) -> np.ndarray | None:
    """float64[F, P]: the mean of what followed the days most like the last one, each moved by half of what lay between
    the levels of the two. Alike are days of small squared distance, and of the same kind (working or resting), as
    also the days after them. None where fewer than three days can be compared."""
    z, resting, last = folded.z, folded.rows.resting, folded.z[upto - 1]
    distances, kinds, gaps, rows = list[float](), list[float](), list[float](), list[int]()
    for row in range(upto - ahead):
        left = last - z[row]
        known = np.isfinite(left)
        if known.mean() >= MIN_KNOWN:
            distances.append(float((left[known] ** 2).mean()))
            gaps.append(float(left[known].mean()))
            pairs = ((row, upto - 1), (row + 1, upto))
            kinds.append(sum(float((resting[one] != resting[other]).mean()) for one, other in pairs))
            rows.append(row)
    base = day(folded, upto, ahead)
    if len(rows) < MIN_DAYS or base is None:
        return None
    usual = float(np.median(distances)) or 1.0
    far = np.array(distances) / usual + OTHER_KIND * np.array(kinds)
    nearest = np.argsort(far, kind="stable")[:NEIGHBOURS]
    followed = np.stack([z[rows[i] + 1 : rows[i] + 1 + ahead] + LEVEL_SHARE * gaps[i] for i in nearest])
    path = weighted_mean(followed, (1.0 / (far[nearest] + NEAREST))[:, None, None])
    return smooth(np.where(np.isfinite(path), np.maximum(path, 0.0), base), folded.rows.minutes)
