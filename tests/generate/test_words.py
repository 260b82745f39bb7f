"""What is said in words: templates as Prometheus fills them in, conditions with figures, runbook sections."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from inferdoc.catalogue.conditions import AnyOf, Level, Move, Not
from inferdoc.errors import InferdocError
from inferdoc.generate.cause_rules import in_words
from inferdoc.generate.document import MARK, apply_changes, write
from inferdoc.generate.runbook_sections import runbook_changes
from inferdoc_dev.generate.__main__ import changes, main
from inferdoc_dev.rule_tests.templating import duration, expand, humanize, percentage
from tests.generate.conftest import ROOT

PAGES = ROOT / "runbooks"
RUNNING = Level(signal="running", limit=3, up=True)


@pytest.mark.parametrize(
    ("value", "said"), [(0, "0"), (1, "1"), (12.345678, "12.35"), (1234, "1.234k"), (0.0052, "5.2m"), (2.5e6, "2.5M")]
)
def test_humanize(value, said):
    assert humanize(value) == said


@pytest.mark.parametrize(
    ("value", "said"), [(0, "0s"), (0.026, "26ms"), (2.5, "2.5s"), (75, "1m 15s"), (90061, "1d 1h 1m 1s")]
)
def test_durations(value, said):
    assert duration(value) == said


def test_percentages_and_labels():
    assert percentage(0.936) == "93.6%"
    assert expand("{{ $labels.pod }} at {{ $value | humanizePercentage }}", {"pod": "p0"}, 0.5) == "p0 at 50%"


def test_an_unknown_template_is_refused():
    with pytest.raises(InferdocError, match="no such template"):
        expand("{{ $value | toTime }}", {}, 1)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (
            Level(signal="kv_usage", limit="kv_usage_high", up=True, share_of=0.5),
            "KV cache in use by live requests above 90 % (kv_usage_high) in 50% of the windows",
        ),
        (Level(signal="target_up", limit=0.5, up=False, for_="20s"), "Scrape succeeded: no"),
        (
            Move(signal="xid_lost_last", ratio=2.0, up=True, by=0.5),
            "The last error code of the GPU says that it does not answer: from no to yes",
        ),
        (
            Move(signal="ttft_mean", ratio=1.5, up=True, by=0.1),
            "Time to first token, mean rises to 1.5 times its baseline and by at least 100 ms",
        ),
        (
            AnyOf((RUNNING, Level(signal="waiting", limit=2, up=True))),
            "Requests running above 3 requests or Requests waiting above 2 requests",
        ),
        (Not(RUNNING), "not: Requests running above 3 requests"),
    ],
)
def test_conditions_in_words(catalogue, condition, said):
    assert in_words(condition, catalogue) == said


def test_the_brief_form_leaves_out_how_long_and_by_which_name(catalogue):
    condition = Level(signal="kv_usage", limit="kv_usage_high", up=True, share_of=0.5)
    assert in_words(condition, catalogue, brief=True) == "KV cache in use by live requests above 90 %"


def test_the_pages_are_up_to_date():
    assert runbook_changes(PAGES) == [], "run make generate"


def test_a_page_is_filled_between_its_markers_and_nowhere_else(tmp_path):
    page = tmp_path / "engine-down.md"
    page.write_text(
        "# Down\n\n<!-- fires-when: generated from diagnostics/engine-down.yaml -->\nold\n"
        "<!-- /fires-when -->\n\nEnd.\n"
    )
    assert [str(each) for each in runbook_changes(tmp_path)] == [f"{page}: out of date"]
    assert "old" in page.read_text()
    assert apply_changes(runbook_changes(tmp_path)) == [f"{page}: updated"]
    text = page.read_text()
    assert text.startswith("# Down\n\n<!-- fires-when") and text.endswith("<!-- /fires-when -->\n\nEnd.\n")
    assert "- Scrape succeeded: no or " in text and "\nold\n" not in text
    assert "Alert `InferdocEngineDown` (critical): fires after 1m, keeps firing for 2m." in text
    assert runbook_changes(tmp_path) == []


def test_a_page_without_markers_is_one_clear_line(tmp_path):
    (tmp_path / "engine-down.md").write_text("# Down\n")
    with pytest.raises(InferdocError, match="markers <!-- fires-when"):
        runbook_changes(tmp_path)


def test_a_cause_without_a_rule_says_so_on_its_page():
    text = (PAGES / "telemetry-artifact.md").read_text("utf-8")
    assert "No alert rule: derived from the scrapes, not from a series." in text


def test_everything_is_generated_in_one_go(tmp_path):
    shutil.copytree(PAGES, tmp_path / "runbooks")
    found, _ = changes(tmp_path)
    assert len([change for change in found if change.state == "missing"]) > 25
    assert not (tmp_path / "alerts").exists(), "comparing writes nothing"


def test_a_failure_in_the_middle_leaves_all_files_as_they_were(tmp_path, monkeypatch):
    names = ["a.yaml", "b.yaml", "c.yaml", "new/d.yaml"]
    for name in names[:3]:
        (tmp_path / name).write_text(f"{MARK}old\n")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    replace = Path.replace

    def full(self, target):
        if target.name == "c.yaml":
            raise OSError(28, "No space left on device", str(target))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InferdocError, match=r"c\.yaml: cannot be written: No space left.*nothing was changed"):
        write({Path(name): "new" for name in ("a.yaml", "c.yaml", "new/d.yaml")}, tmp_path)
    monkeypatch.undo()
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert write({Path(name): "new" for name in names[:2]}, tmp_path) == [
        f"{tmp_path / 'a.yaml'}: updated",
        f"{tmp_path / 'b.yaml'}: updated",
        f"{tmp_path / 'c.yaml'}: removed",
    ]


def test_the_check_of_the_checkout_says_nothing(capsys):
    assert main(["--check"]) == 0
    assert capsys.readouterr().out == ""
