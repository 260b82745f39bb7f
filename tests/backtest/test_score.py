"""Right, wrong and noise."""

from __future__ import annotations

import pytest

from inferdoc.backtest.recording import RecordingLabels
from inferdoc.backtest.replay import Firing, RuleSet
from inferdoc.backtest.score import Notifying, outcome, totals

INCIDENT = RecordingLabels(
    "a.om.gz", control=False, expected=("engine-hung",), healthy_pods=("well",), onset=1000.0, severity="severe"
)
QUIET = RecordingLabels("q.om.gz", control=True)
NO_RULES = RuleSet("none", ())


def firing(begin: float, kind: str = "cause", cause: str = "engine-hung", severity: str = "warning", pod: str = "p"):
    labels = {"kind": kind, "cause": cause, "severity": severity, "pod": pod, "namespace": "n"}
    return Firing(f"Is{cause}{kind}", labels, begin, begin + 300)


def scored(*firings: Firing, labels: RecordingLabels = INCIDENT):
    return outcome(labels, firings, (0.0, 3600.0), NO_RULES, Notifying())


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (firing(1100), "right"),
        (firing(900), "noise"),
        (firing(1100, cause="slow-gpu"), "wrong"),
        (firing(1100, pod="well"), "wrong"),
        (firing(1100, kind="symptom", cause="unexplained-anomaly"), "symptom"),
        (firing(1100, cause="slow-gpu", severity="info"), "info"),
        (firing(900, kind="monitoring", cause="telemetry-artifact"), "monitoring"),
    ],
)
def test_a_verdict_for_each_alert(one, verdict):
    (alert,) = scored(one).alerts
    assert alert.verdict == verdict


def test_the_first_right_alert_names_the_cause():
    found = scored(firing(1400), firing(1100), firing(1050, cause="slow-gpu"))
    assert found.named == 100
    assert found.felt is None


def test_a_page_is_felt_and_prompt_within_two_intervals():
    early = scored(firing(1060, kind="symptom", severity="critical"))
    late = scored(firing(1061, kind="symptom", severity="critical"))
    assert (early.felt, early.prompt, late.prompt) == (60, True, False)


def test_alerts_of_many_pods_are_one_ticket():
    found = scored(*(firing(1100, cause="slow-gpu", pod=f"p{n}") for n in range(5)))
    assert [a.label_sets for a in found.alerts] == [5]
    assert totals([found]).wrong_tickets == 1


def test_whatever_fires_in_a_quiet_recording_is_noise():
    quiet = scored(
        firing(10), firing(10, kind="symptom", severity="critical"), firing(10, kind="symptom", cause="b"), labels=QUIET
    )
    sums = totals([quiet, scored(firing(1100))])
    assert (sums.recall, sums.quiet_cause_alerts, sums.quiet_pages) == (1.0, 1, 1)
    assert sums.quiet_symptom_ticket_hours == pytest.approx(330 / 3600)
    assert sums.quiet_hours == 1.0


def test_a_severe_incident_without_a_page_counts():
    assert totals([scored(firing(1100)), scored(firing(1100, kind="symptom", severity="critical"))]).paged_severe == 0.5
