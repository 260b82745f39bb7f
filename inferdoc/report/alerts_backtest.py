"""A back-test of alert rules, for people."""

from __future__ import annotations

from collections.abc import Iterator

from inferdoc.backtest.run import AlertsBacktest, RuleSetResult
from inferdoc.backtest.score import RecordingOutcome
from inferdoc.escaping import page

DASH = "-"


def as_text(report: AlertsBacktest, *, verbose: bool = False) -> str:
    """Per recording what fired first and how it is judged, then the totals. verbose: every alert of every recording."""
    return page(line.rstrip() for result in report.results for line in _result(result, verbose))


def _result(result: RuleSetResult, verbose: bool) -> Iterator[str]:
    yield f"{result.rules}, {result.history}"
    yield f"  {'recording':<36} {'named':>7} {'page':>7} {'wrong':>6} {'sent':>5} {'noise':>6}"
    for each in result.outcomes:
        yield from _recording(each, verbose)
    yield ""
    yield from (f"  {name:<48} {value}" for name, value in _totals(result))
    yield ""


def _recording(each: RecordingOutcome, verbose: bool) -> Iterator[str]:
    causes = [a for a in each.alerts if a.kind == "cause"]
    wrong = [a for a in causes if a.verdict == "wrong"]
    noise = [a for a in each.alerts if a.verdict == "noise"]
    name = f"{each.recording} (quiet)" if each.control else each.recording
    named = DASH if each.control else _seconds(each.named)
    felt = DASH if each.control else _seconds(each.felt)
    yield f"  {name:<36} {named:>7} {felt:>7} {len(wrong):>6} {sum(a.sent for a in wrong):>5} {len(noise):>6}"
    for a in each.alerts:
        if verbose or a.verdict in ("wrong", "noise"):
            when = _seconds(a.delay if a.delay is not None else a.first - each.begin)
            silenced = "" if a.sent else ", inhibited"
            yield f"    {when:>7} {a.alert:<40} {a.severity}, {a.verdict}{silenced}, {a.label_sets} series"


def _totals(result: RuleSetResult) -> Iterator[tuple[str, str]]:
    sums = result.totals
    if sums.incidents:
        yield "right cause named", f"{_share(sums.recall)} of {sums.incidents} incidents"
        yield "median delay", _seconds(sums.median_delay)
        yield "severe incidents that page", _share(sums.paged_severe)
        yield "pages within `for` and two intervals", _share(sums.prompt)
        yield "pages for a wrong cause", str(sums.wrong_pages)
        tickets = f"{sums.wrong_tickets or 0:.2f} before inhibition, {sums.wrong_tickets_sent or 0:.2f} after"
        yield "wrong-cause tickets per incident", tickets
    if sums.controls:
        yield "quiet recordings", f"{sums.controls}, {sums.quiet_hours:.1f} h"
        yield "  cause alerts, pages", f"{sums.quiet_cause_alerts}, {sums.quiet_pages}"
        yield "  ticket hours about symptoms", f"{sums.quiet_symptom_ticket_hours:.1f}"
        yield "  tickets about the monitoring", str(sums.quiet_monitoring_tickets)


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:+.0f} s"


def _share(value: float | None) -> str:
    return DASH if value is None else f"{value:.2f}"
