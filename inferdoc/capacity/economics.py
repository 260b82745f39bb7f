"""Money and energy per token. A price is per GPU-hour, in whatever currency the user gives it."""

from __future__ import annotations


def price_per_million_tokens(price_per_hour: float, tokens_per_second: float) -> float:
    """Price of a million tokens: price x GPUs / (3600 x tokens/s) x 1e6, with the tokens really produced, so that idle
    time is in it."""
    return price_per_hour / (3600.0 * tokens_per_second) * 1e6


def tokens_per_joule(tokens_per_second: float, watts: float) -> float:
    """Tokens per joule of the GPUs alone; a facility takes its PUE times the energy. Tokens and joules of any stretch
    give the same."""
    return tokens_per_second / watts


def kwh_per_million_tokens(tokens_per_second: float, watts: float) -> float:
    """Kilowatt-hours per million tokens."""
    return watts / tokens_per_second * 1e6 / 3.6e6


def routed_price(share_small: float, small: float, large: float) -> float:
    """Price where a router sends a share of the requests to a small model and the others to a large one."""
    return share_small * small + (1.0 - share_small) * large


def escalated_price(share_escalated: float, small: float, large: float) -> float:
    """Price where a small model sees every request and hands a share on to a large one."""
    return small + share_escalated * large
