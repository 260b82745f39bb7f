"""alerts/floor.yaml: what is expected of alerts is shipped, or says why not, and what is shipped is there."""

from __future__ import annotations

import yaml

from tests.generate.conftest import ROOT

EXPECTED = 55
"""Lines of the floor that the pack was held against, before those that the project added."""


def test_every_line_names_alerts_of_the_pack_or_a_reason(pack):
    lines = yaml.load((ROOT / "alerts" / "floor.yaml").read_text("utf-8"), yaml.CSafeLoader)["floor"]
    shipped = {rule.name for rule in pack.rules}
    assert len(lines) >= EXPECTED and len({line["asked"] for line in lines}) == len(lines)
    for line in lines:
        assert set(line) <= {"asked", "alerts", "why"}, line
        assert line.get("alerts") or line.get("why"), f"{line['asked']}: neither an alert nor a reason"
        assert set(line.get("alerts", ())) <= shipped, f"{line['asked']}: {set(line['alerts']) - shipped}"


def test_every_alert_of_no_cause_is_expected_by_somebody(pack):
    """An alert about operations that no line asks for is noise, or a line that is missing."""
    lines = yaml.load((ROOT / "alerts" / "floor.yaml").read_text("utf-8"), yaml.CSafeLoader)["floor"]
    asked = {name for line in lines for name in line.get("alerts", ())}
    own = {"InferdocPodLabelShared", "InferdocRouterReplicaDown", "InferdocPrewarmFloorAtMaximum"}
    assert {rule.name for rule in pack.rules if rule.kind == "monitoring"} - asked == own
