"""The gate's answer on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

import click

from inferdoc.canary.request import ArmSeen, CanaryAnswer, CheckAnswer
from inferdoc.report.wrapping import wrap
from inferdoc.words import figure, how_many

COLOURS = {"pass": "green", "fail": "red", "unknown": "yellow"}
TITLE, SHARES = 27, 10
"""Columns of a question and of a share."""
FIRST_PODS = 4


def canary_text(answer: CanaryAnswer, *, verbose: bool = False, colour: bool = False) -> str:
    """Lines for a terminal; colour only if set. verbose: how each difference comes about, and its series."""
    verdict = answer.decision.upper()
    head = click.style(verdict, fg=COLOURS[answer.decision], bold=True) if colour else verdict
    lines = [head, *wrap(answer.summary, "  ")]
    lines += ["", *_arm("candidate", answer.candidate), *_arm("stable", answer.stable)]
    lines += wrap(
        f"{how_many(answer.windows, 'window')} of {answer.window_seconds:g} s, {answer.from_} to {answer.until}", "  "
    )
    if answer.checks:
        interval = f"{figure(answer.interval, 'ratio')} interval"
        heads = ("candidate", "stable", "worse by")
        lines += ["", " " * (TITLE + 2) + "".join(f"{head:>{SHARES}}" for head in heads) + f"  {interval:<23}margin"]
        lines += [line for check in answer.checks for line in _check(check, verbose)]
    for title, texts in (
        ("not known because", answer.reasons[1:]),
        ("notes", answer.notes),
        ("assumed", answer.assumed),
    ):
        if texts:
            lines += ["", title, *(line for text in texts for line in wrap(text, "  - "))]
    return "\n".join(lines)


def _arm(name: str, arm: ArmSeen) -> Iterator[str]:
    more = f" and {len(arm.pods) - FIRST_PODS} more" if len(arm.pods) > FIRST_PODS else ""
    good = (
        ""
        if arm.goodput is None
        else f", goodput {figure(arm.goodput[0], '1/s')} to {figure(arm.goodput[1], '1/s')} a pod"
    )
    rate = f"{how_many(arm.requests, 'request')}, {figure(arm.requests_per_second, '1/s')}{good}"
    yield from wrap(f"{', '.join(arm.pods[:FIRST_PODS])}{more}: {rate}", f"  {name:<10} ")


def _check(check: CheckAnswer, verbose: bool) -> Iterator[str]:
    title = check.title if check.limit is None else f"{check.title} {figure(check.limit, 's')}"
    shares = "".join(f"{figure(share, 'ratio'):>{SHARES}}" for share in (check.candidate, check.stable))
    between = f"{100 * check.low:+.3g} to {_points(check.high)}"
    worse, margin = _points(check.difference), _points(check.margin)
    yield f"  {title:<{TITLE}}{shares}{worse:>{SHARES}}  {between:<22}{margin:>7}  {check.decision}"
    if verbose:
        yield from wrap(check.formula, "      = ")
        events = f"{check.events[0]:,} and {check.events[1]:,} events, design effect {check.design:.3g}"
        yield from wrap(f"{events}; {check.needed:,} events of the candidate decide", "        with ")
        if check.times is not None:
            low, value, high = check.times
            yield from wrap(f"mean {value:.3g} times that of the stable pods, {low:.3g} to {high:.3g}", "        with ")
        yield from wrap(check.source, "        from ")


def _points(share: float) -> str:
    """A difference of shares in percentage points: +1.02."""
    return f"{100 * share:+.3g} pt" if abs(share) < 0.995 else f"{100 * share:+.0f} pt"
