"""The declarations of standing states: consistent as shipped, refused with the place where they are not."""

from __future__ import annotations

import pytest

from inferdoc.audit.api import needed_signals, problems, refuse_unknown
from inferdoc.audit.observe import REGISTRY
from inferdoc.audit.waste import WASTES
from inferdoc.catalogue.content import content_root
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.errors import CatalogueError


def overlay(folder, name, text):
    """A user's catalogue folder with one file among the standing states."""
    place = folder / "diagnostics" / "standing"
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(text, "utf-8")
    return Catalogue((folder,))


def shipped(name):
    return (content_root() / "diagnostics" / "standing" / f"{name}.yaml").read_text("utf-8")


def test_the_shipped_states_are_consistent():
    assert list(problems(load_catalogue())) == []
    assert len(load_catalogue().standing.states) >= 35


def test_every_formula_is_used():
    content = load_catalogue().standing
    texts = " ".join(step.do + step.why for state in content.states.values() for step in state.next_steps)
    named = {one.quantity for one in content.observations.values()}
    assert {name for name in REGISTRY if name not in named and f"{{{name}}}" not in texts} == set()
    assert WASTES.keys() == {state.waste for state in content.states.values()} - {None}


def test_every_standing_limit_has_a_reader():
    content = load_catalogue()
    named = {name for one in content.standing.observations.values() for name in (one.above, one.below, one.share)}
    code = "".join(path.read_text("utf-8") for path in (content_root() / "inferdoc" / "audit").glob("*.py"))
    text = (content_root() / "collectors" / "tiers.yaml").read_text("utf-8")
    section = text.split("# ---- standing states")[1].split("\nstand_ins:")[0]
    mine = [line.split(":")[0].strip() for line in section.splitlines() if line.startswith("  ") and "{value" in line]
    assert [name for name in mine if name not in named and f'"{name}"' not in code] == []


def test_every_input_is_read():
    content = load_catalogue()
    read = set(needed_signals(content))
    for quantity in REGISTRY.values():
        assert set(quantity.inputs) | set(quantity.optional) <= content.signals.keys()
    for one in content.standing.observations.values():
        assert one.signal is None or one.signal in read


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("needs: [preempts_always]", "needs: [preempt_always]", 'did you mean "preempts_always"'),
        ("waste: recompute", "waste: recomputed", 'did you mean "recompute"'),
        ("{running_room}", "{runing_room}", 'did you mean "running_room"'),
        ("runbook: kv-preemption-thrash", "runbook: kv-preemption", "no such cause"),
        ("flags: [--watermark]", "flags: [--watermarks]", "vllm-flags.yaml"),
        ("id: preempts-always", "id: preempted", "as the file is named"),
        ("severity: warning", "severity: critical", "severity"),
        ("scope: pod", "scope: pod\nliteral: 3", "unknown key"),
    ],
)
def test_a_wrong_state_is_refused_in_one_line(tmp_path, before, after, words):
    text = shipped("preempts-always")
    assert before in text
    with pytest.raises(CatalogueError) as refused:
        refuse_unknown(overlay(tmp_path, "preempts-always.yaml", text.replace(before, after)))
    assert words in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{signal: kv_usage, above: 0.3, because: x, source: y}", "str"),
        ("{signal: kv_usage, above: kv_usage_hihg, because: x, source: y}", 'did you mean "kv_usage_high"'),
        ("{signal: kv_use, above: kv_usage_high, because: x, source: y}", "no such signal"),
        ("{signal: kv_usage, because: x, source: y}", "exactly one of above, below, matches"),
        ("{signal: kv_usage, tier: link_gbps, above: kv_usage_high, because: x, source: y}", "exactly one of signal"),
        ("{tier: colour, above: kv_usage_high, because: x, source: y}", "no such figure"),
        ("{setting: cache_dtype, matches: '(', because: x, source: y}", "regular expression"),
    ],
)
def test_a_wrong_observation_is_refused(tmp_path, entry, words):
    text = shipped("observations") + f"  mine: {entry}\n"
    with pytest.raises(CatalogueError) as refused:
        refuse_unknown(overlay(tmp_path, "observations.yaml", text))
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_a_state_of_the_user_joins_the_shipped_ones(tmp_path):
    text = shipped("preempts-always").replace("id: preempts-always", "id: my-state")
    content = overlay(tmp_path, "my-state.yaml", text)
    assert {"my-state", "preempts-always"} <= content.standing.states.keys()
    refuse_unknown(content)


def test_states_lie_where_the_wheel_takes_them():
    folder = content_root() / "diagnostics" / "standing"
    assert folder.is_dir()
    assert all(path.suffix == ".yaml" for path in folder.iterdir())


def test_a_state_may_point_to_the_page_of_a_cause_that_is_not_checked_for() -> None:
    assert not list(problems(load_catalogue(disabled=["gpu-clock-throttle"])))
