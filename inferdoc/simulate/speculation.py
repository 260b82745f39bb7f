"""What speculation yields per step: drafts that a grammar cuts short, and drafts that are accepted."""

from __future__ import annotations

from collections.abc import Sequence


def expected(accept: Sequence[float], valid: float = 1.0) -> tuple[float, float]:
    """(tokens accepted, tokens verified) of one stream and step, besides the one that every step yields.

    accept: chance that the token at each position is accepted once those before it were; valid: chance that a drafted
    token fits the grammar of the answer once those before it did. vLLM drops the rest of a draft before it is
    verified and counts only what is left (make_spec_decoding_stats subtracts tokens that the grammar refuses).
    """
    accepted = verified = 0.0
    chance = fits = 1.0
    for p in accept:
        fits *= valid
        chance *= p
        accepted += chance * fits
        verified += fits
    return accepted, verified
