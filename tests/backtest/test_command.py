"""`inferdoc alerts backtest`."""

from __future__ import annotations

import json
import shutil

import pytest

from tests import prometheus_server
from tests.backtest.conftest import DOWN, INTERVAL, START
from tests.cli.command import call
from tests.generate.conftest import needs_promtool

pytestmark = [pytest.mark.live, needs_promtool]


@pytest.fixture
def folder(tmp_path, file, rules):
    """A folder with one incident and one quiet recording, and rules beside it."""
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    shutil.copy(file, recordings / "incident.om")
    quiet = "\n".join(line for line in file.read_text("utf-8").splitlines() if 'pod="b"' not in line)
    (recordings / "quiet.om").write_text(quiet + "\n", "utf-8")
    told = {"file": "incident.om", "control": False, "expected": ["engine-down"], "onset": START + INTERVAL * DOWN[0]}
    labels = {"recordings": [told, {"file": "quiet.om", "control": True}]}
    (recordings / "labels.json").write_text(json.dumps(labels), "utf-8")
    return recordings


def test_totals_as_json(folder, rules):
    done = call("alerts", "backtest", "--out", rules.files[0].parent, "-o", "json", folder)
    assert done.code == 0, done.err
    (result,) = json.loads(done.out)["results"]
    sums = result["totals"]
    assert (sums["recall"], sums["median_delay"], sums["wrong_tickets"]) == (1.0, 60.0, 1.0)
    assert (sums["quiet_cause_alerts"], sums["quiet_pages"]) == (0, 0)


def test_a_cold_start_and_other_rules_beside_ours(folder, rules):
    done = call("alerts", "backtest", "--out", rules.files[0].parent, "--cold", "--rules", rules.files[1], folder)
    assert done.code == 0, done.err
    assert "inferdoc, cold" in done.out and "inferdoc-rules.yaml, cold" in done.out
    assert "right cause named" in done.out


def test_nothing_to_replay_says_what_to_name(rules):
    done = call("alerts", "backtest", "--out", rules.files[0].parent)
    assert done.code == 2 and "--prometheus" in done.err


def test_a_folder_without_labels_is_no_input(tmp_path, rules):
    (tmp_path / "empty").mkdir()
    done = call("alerts", "backtest", "--out", rules.files[0].parent, tmp_path / "empty")
    assert done.code != 0 and "labels.json" in done.err


def test_a_server_is_read_as_a_recording_is(file, rules, tmp_path):
    """Raw samples come out of the server; which of its series had ended is told from its scrapes."""
    if not prometheus_server.available():
        pytest.skip(prometheus_server.MISSING)
    with prometheus_server.running([file], tmp_path / "server") as address:
        options = ("--prometheus", address, "--since", "1h", "-o", "json")
        done = call("alerts", "backtest", "--out", rules.files[0].parent, *options)
    assert done.code == 0, done.err
    (result,) = json.loads(done.out)["results"]
    (alert,) = (a for a in result["outcomes"][0]["alerts"] if a["alert"] == "Down")
    assert alert["label_sets"] == 1 and 0 <= alert["first"] - (START + INTERVAL * DOWN[0]) <= 90
