"""Amounts of a bill as people read them."""

from __future__ import annotations

from inferdoc.cost.model import Amount, Bill, BillRow, CascadeSummary, CheaperTier, Energy, Figures

FIGURES = (
    ("input", "a million input tokens"),
    ("output", "a million output tokens"),
    ("generated", "a million output tokens, all in"),
    ("request", "a thousand requests"),
)
WHOLE = 10_000
"""From this value on, only whole units are printed."""


def hours_words(hours: float) -> str:
    """GPU-hours: "23,456 GPU-h", "12.4 GPU-h", "0.0031 GPU-h"."""
    if hours >= WHOLE:
        return f"{hours:,.0f} GPU-h"
    return f"{hours:,.1f} GPU-h" if hours >= 100 else f"{hours:.3g} GPU-h"


def money_words(money: float, currency: str) -> str:
    """Money: "23,456 USD", "1,204.50 USD", "0.00231 USD"."""
    if money >= WHOLE:
        return f"{money:,.0f} {currency}"
    return f"{money:,.2f} {currency}" if money >= 0.995 or money == 0 else f"{money:.3g} {currency}"


def amount_words(amount: Amount | None, currency: str | None) -> str:
    """Money where there is a price, else GPU-hours; "-" without data."""
    if amount is None:
        return "-"
    if amount.money is None or currency is None:
        return hours_words(amount.gpu_hours)
    return money_words(amount.money, currency)


def times(amount: Amount | None, number: float) -> Amount | None:
    """So many times an amount."""
    if amount is None:
        return None
    return Amount(amount.gpu_hours * number, None if amount.money is None else amount.money * number)


def figure_of(figures: Figures, name: str) -> Amount | None:
    """A figure as it is shown: of a thousand requests, else of a million tokens."""
    amount: Amount | None = getattr(figures, name)
    return times(amount, 1000) if name == "request" else amount


def good_words(figures: Figures, currency: str | None) -> str:
    """A thousand requests within the objectives: "0.31 USD", or "0.31 USD to 0.35 USD" where buckets leave it open."""
    if figures.good_request is None:
        return "-"
    low, high = (amount_words(times(one, 1000), currency) for one in figures.good_request)
    return low if low == high else f"{low} to {high}"


def energy_words(energy: Energy | None, bill: Bill) -> str | None:
    """ "1.32 kWh drawn by the GPUs, 1.53 output tokens a joule, 0.182 kWh per million output tokens"; with what the
    site drew and paid if the bill has its PUE and its price of a kWh."""
    if energy is None:
        return None
    parts = [f"{energy.kwh:.3g} kWh drawn by the GPUs"]
    at_meter = energy.kwh * bill.pue
    if bill.pue > 1:
        parts.append(f"{at_meter:.3g} kWh at the meter (PUE {bill.pue:g})")
    if bill.kwh is not None:
        parts.append(f"{at_meter * bill.kwh:,.2f} {bill.currency} for it on top")
    if energy.tokens_per_joule is not None and energy.kwh_per_million is not None:
        parts.append(f"{energy.tokens_per_joule:.3g} output tokens a joule")
        parts.append(f"{energy.kwh_per_million:.3g} kWh per million output tokens")
    return ", ".join(parts)


def cheaper_words(one: CheaperTier, currency: str | None) -> str:
    """Another tier for a pool: "llm m: on l40s instead of h100-80 its useful work would cost up to 1.20 USD (26 %)
    less"."""
    money = f"up to {money_words(one.money, currency or '')} ({100 * one.share:.0f} %) less"
    return f"{one.pool}: on {one.cheaper} instead of {one.tier} its useful work would cost {money}"


def cascade_words(one: CascadeSummary, currency: str | None) -> str:
    """A router or a cascade of two models."""
    money = [
        money_words(1000 * each, currency or "") for each in (one.on_small, one.on_large, one.routed, one.handed_on)
    ]
    small, large, routed, handed_on = money
    return (
        f"a thousand requests: {small} on {one.small}, {large} on {one.large}; {routed} if a router sent "
        f"{100 * one.share:g} % of them to the first; {handed_on} if the first saw all and handed the others on"
    )


def counted_words(row: BillRow) -> str:
    """What the figures are over."""
    tokens = f"{row.prompt_tokens:,.0f} input tokens, {row.output_tokens:,.0f} output tokens"
    return f"{tokens}, {row.requests:,.0f} requests served"


def share_words(part: float, whole: float) -> str:
    """A share: "12.4 %"."""
    return f"{100 * part / whole:.1f} %" if whole > 0 else "-"
