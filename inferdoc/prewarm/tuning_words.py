"""What a back-test chose, in one line."""

from __future__ import annotations

from inferdoc.prewarm.plan import SettingRow, TuningRow
from inferdoc.prewarm.policy import AVOIDED, PRICE, Setting


def tuning_words(row: TuningRow) -> str:
    """`tuned on the last 7 days: p70 x 0.9 avoids 86 % of a reactive scaler's overload at 1.05 x the replica-hours of
    perfect foresight; ...`, with what it is measured against."""
    best = row.chosen
    surely = f" (surely {best.surely:.0%})" if best.surely < best.avoided else ""
    found = (
        f"tuned on the last {row.days} days: {_named(best)} avoids {best.avoided:.0%}{surely} of a reactive scaler's "
        f"overload at {best.price:.2f} x the replica-hours of perfect foresight, best of {row.tried}"
    )
    if row.usual is not None and _named(row.usual) != _named(best):
        found += f"; the policy's {_named(row.usual)} would avoid {_avoiding(row.usual)}"
    if not row.met:
        found += f"; no setting surely avoids {AVOIDED:.0%} for at most {PRICE:g} x"
        if row.enough is not None:
            found += f", {_named(row.enough)} would avoid {_avoiding(row.enough)}"
    return found


def _avoiding(row: SettingRow) -> str:
    return f"{row.avoided:.0%} at {row.price:.2f}"


def _named(row: SettingRow) -> str:
    return str(Setting(row.quantile, row.safety_factor))
