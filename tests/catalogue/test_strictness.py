"""A wrong file is refused with one line: file, line, path, and what was expected."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec import structs

from inferdoc.catalogue.conditions import AllOf, KOf
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.catalogue.validate import check_tiers
from inferdoc.errors import CatalogueError
from tests.catalogue.conftest import Write, recipe

SIGNALS = """\
signals:
  mine:
    title: Mine
    unit: "1/s"
    harm: up
    level: engine
    readings:
      - {reading}
"""


def refused(overlay: Path, part: str = "recipes") -> str:
    """The one line with which a part of the catalogue is refused."""
    with pytest.raises(CatalogueError) as caught:
        getattr(load_catalogue([overlay]), part)
    line = str(caught.value)
    assert "\n" not in line
    assert "Traceback" not in line
    return line


def problem(write: Write, overlay: Path, reading: str) -> str:
    """What the cross check says of a signal with this reading."""
    write("collectors/signals-mine.yaml", SIGNALS.replace("{reading}", reading))
    problems = [line for line in Catalogue((overlay,)).problems() if "signals-mine.yaml" in line]
    assert problems
    return problems[0]


BROKEN = {
    "unknown key": (
        "severity: warning",
        "severty: warning",
        'r.yaml:5: severty: unknown key (did you mean "severity"?)',
    ),
    "unknown condition": (
        "rises: 2.0",
        "rise: 2.0",
        'r.yaml:7: observations.line_grows.rise: unknown key (did you mean "rises"?)',
    ),
    "unknown signal": (
        "signal: waiting",
        "signal: waitng",
        'r.yaml:7: observations.line_grows.signal: no such signal "waitng" (did you mean "waiting"?)',
    ),
    "wrong type": (
        "rises: 2.0",
        "rises: twice",
        "r.yaml:7: observations.line_grows.rises: expected `float | null`, got `str`",
    ),
    "wrong word": ("phase: queue", "phase: queues", "r.yaml:3: phase: invalid enum value 'queues'"),
    "two kinds": (
        "rises: 2.0",
        "rises: 2.0, above: 3",
        "is needed; given: above, rises",
    ),
    "no kind": ("rises: 2.0, ", "", "given: none"),
    "unknown threshold": (
        "rises: 2.0",
        "above: kv_usage_hi",
        'line_grows.above: no threshold "kv_usage_hi" in tiers.yaml (did you mean "kv_usage_high"?)',
    ),
    "no duration": ("for: 30s", "for: 30", "r.yaml:7: observations.line_grows.for: expected `str | null`, got `int`"),
    "odd duration": (
        "for: 30s",
        "for: half a minute",
        "observations.line_grows.for: expected a duration such as 90s, 15m or 1h",
    ),
    "reaches without within": (
        "rises: 2.0",
        "reaches: 9",
        "observations.line_grows.within: `within` goes with `reaches`",
    ),
    "rises below one": (
        "rises: 2.0",
        "rises: 0.5",
        "observations.line_grows.rises: at least this many times the baseline: expected 1 or more",
    ),
    "by with above": (
        "rises: 2.0",
        "above: 2, by: 1",
        "observations.line_grows.by: `by` goes with rises, falls, differs",
    ),
    "for and share_of": ("for: 30s", "for: 30s, share_of: 0.3", "either `for` in one piece or `share_of` the windows"),
    "present false": ("rises: 2.0", "present: false", "only true says something"),
    "no signal": ("signal: waiting, ", "", "observations.line_grows: `rises` needs a signal"),
    "no impact": ("impact: [tail_late]", "impact: []", "r.yaml:10: impact: a cause needs at least one impact"),
    "no needs": ("needs: [line_grows]", "needs: []", "r.yaml:9: needs: a cause needs at least one observation"),
    "unknown observation": (
        "needs: [line_grows]",
        "needs: [queue_grow]",
        'r.yaml:9: needs[0]: no such observation "queue_grow" (did you mean "queue_grows"?)',
    ),
    "unknown witness": (
        "impact:",
        "witnesses: {any_of: [line_grows, {not: queue_grow}]}\nimpact:",
        'r.yaml:10: witnesses.any_of[1].not: no such observation "queue_grow"',
    ),
    "a literal": (
        "needs: [line_grows]",
        "needs: [{signal: waiting, rises: 2.0}]",
        "r.yaml:9: needs[0].signal: unknown key; valid keys: observation, not, among, leads",
    ),
    "taken name": (
        "  tail_late:",
        "  queue_grows:",
        'r.yaml:8: observations.queue_grows: observation "queue_grows" is declared in',
    ),
    "missing key": ("severity: warning\n", "", "object missing required field `severity`"),
    "unknown effect": ("sources:", "effects: [queue-grows]\nsources:", 'effects[0]: no such cause "queue-grows"'),
    "itself": ("sources:", "look_alikes: [r]\nsources:", "look_alikes[0]: a cause cannot name itself here"),
    "excluded by nothing": (
        "sources:",
        "excluded_by: [{because: so}]\nsources:",
        "excluded_by[0]: expected either `cause` or `observation`",
    ),
    "excluded by no cause": (
        "sources:",
        "excluded_by: [{cause: slow-gpus}]\nsources:",
        'excluded_by[0].cause: no such cause "slow-gpus" (did you mean "slow-gpu"?)',
    ),
    "wrong inside a group": (
        "{signal: ttft_p99, rises: 1.5}",
        "{any: [line_grows, {not: line_grow}]}",
        'observations.tail_late.any[1].not: no such observation "line_grow" (did you mean "line_grows"?)',
    ),
    "made of itself": (
        "{signal: ttft_p99, rises: 1.5}",
        "{any: [line_grows, tail_late]}",
        "observations.tail_late: an observation cannot be made of itself",
    ),
    "made of others and a signal": (
        "{signal: ttft_p99, rises: 1.5}",
        "{any: [line_grows], rises: 1.5}",
        "observations.tail_late: exactly one of all, any, witnesses, not, and nothing of a signal; given: any, rises",
    ),
    "excluded by its own effect": (
        "sources:",
        "effects: [kv-capacity-bound]\nexcluded_by: [kv_cache_full]\nsources:",
        "kv_cache_full may be brought about by its own effect kv-capacity-bound; expected `when: before`",
    ),
    "excluded by an effect by name": (
        "sources:",
        "effects: [slow-gpu]\nexcluded_by: [{cause: slow-gpu}]\nsources:",
        "excluded_by[0]: slow-gpu may be brought about by its own effect slow-gpu; expected `when: before`",
    ),
    "never met": (
        "{signal: waiting, rises: 2.0, for: 30s}",
        "{signal: kv_usage, above: 1.2}",
        "observations.line_grows.above: never met: kv_usage is at most 1; expected less, got 1.2",
    ),
    "falls to more": ("rises: 2.0", "falls: 1.2", "at most this share of the baseline: expected 0 to 1, got 1.2"),
    "unknown flag": (
        "    undo: Remove the replica.",
        "    undo: Remove the replica.\n    flags: [--max-num-seq]",
        "next_steps[0].flags[0]: --max-num-seq does not stand in collectors/vllm-flags.yaml",
    ),
    "unknown step": (
        "next_steps:\n",
        "next_steps:\n  - add_replica\n",
        'next_steps[0]: no such step "add_replica" in steps.yaml (did you mean "add_replicas"?)',
    ),
    "a step with a cost of its own": (
        "next_steps:\n",
        "next_steps:\n  - {step: add_replicas, cost: none}\n",
        "next_steps[0]: a step that is named has its cost in steps.yaml; only `why` may be given here",
    ),
    "a number for a share": (
        "sources:",
        "pool_share: 0.6\nsources:",
        "pool_share: expected `str | null`, got `float`",
    ),
    "other id": ("id: r", "id: s", 'r.yaml:1: id: expected "r" as the file is named, got "s"'),
    "alert duration": ("sources:", "alert: {for: soon}\nsources:", "alert.for: expected a duration"),
    "optional signal": ("sources:", "optional: [nothing]\nsources:", 'optional[0]: no such signal "nothing"'),
    "stalls on nothing": ("rises: 2.0", "stalls: nothing", 'observations.line_grows.stalls: no such signal "nothing"'),
    "average with above": ("rises: 2.0", "above: 2, average: true", "`average` goes with rises, falls"),
    "within beside above": (
        "rises: 2.0",
        "above: 2, within: 1m",
        "observations.line_grows.within: `within` goes with reaches",
    ),
    "for beside slope": (
        "rises: 2.0",
        "slope: 0.1",
        "line_grows.for: `for` goes with above, below, rises, falls, stalls, differs",
    ),
    "share_of beside stalls": (
        "rises: 2.0, for: 30s",
        "stalls: running, share_of: 0.5",
        "r.yaml:7: observations.line_grows.share_of: `share_of` goes with above, below, rises, falls, differs",
    ),
    "never turns": ("rises: 2.0, for: 30s", "turns: 0", "observations.line_grows.turns: expected 1 or more, got 0"),
    "a signal beside not": (
        "{signal: ttft_p99, rises: 1.5}",
        "{not: line_grows, signal: ttft_p99}",
        "exactly one of all, any, witnesses, not, and nothing of a signal; given: not, signal",
    ),
    "witnesses of nothing": (
        "{signal: ttft_p99, rises: 1.5}",
        "{witnesses: []}",
        "observations.tail_late.witnesses: expected at least one observation",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_recipe(case: str, overlay: Path, write: Write) -> None:
    old, new, expected = BROKEN[case]
    path = write("diagnostics/r.yaml", recipe("r", old, new))
    line = refused(overlay)
    assert expected in line
    assert line.startswith(str(path))
    assert Catalogue().check_recipe_file(path)[0] == line


def test_a_sound_recipe_passes_the_check(write: Write) -> None:
    assert Catalogue().check_recipe_file(write("diagnostics/r.yaml", recipe("r"))) == []


def test_every_problem_of_a_file_is_told(write: Write) -> None:
    path = write("diagnostics/r.yaml", recipe("r", "signal: waiting, rises", "signal: w, rises"))
    path.write_text(path.read_text().replace("ttft_p99", "ttft_p98"), encoding="utf-8")
    assert len(Catalogue().check_recipe_file(path)) == 2


NOT_YAML = {
    "half a file": ("id: [", "r.yaml:2: not valid YAML"),
    "tab": ("id: r\n\ttitle: x", "r.yaml:2: not valid YAML"),
    "a list": ("- 1", "expected a mapping at the top, got a list"),
    "nothing": ("", "expected a mapping at the top, got nothing"),
    "text": ("hello", "expected a mapping at the top, got text"),
    "a page": ("<html><body>sign in</body></html>", "expected a mapping at the top, got text"),
    "twice": ("id: r\ntitle: a\ntitle: b", "r.yaml:3: not valid YAML: 'title' is given twice"),
    "code": ("id: !!python/object/apply:os.system ['true']", "not valid YAML: could not determine a constructor"),
}


@pytest.mark.parametrize("case", NOT_YAML)
def test_what_is_no_recipe(case: str, overlay: Path, write: Write) -> None:
    text, expected = NOT_YAML[case]
    path = overlay / "diagnostics" / "r.yaml"
    path.write_text(text, encoding="utf-8")
    assert expected in refused(overlay)


def test_bytes_that_are_no_text(overlay: Path) -> None:
    (overlay / "diagnostics" / "r.yaml").write_bytes(b"id: \xff\xfe\x00")
    assert "not valid YAML" in refused(overlay)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read(overlay: Path, write: Write) -> None:
    write("diagnostics/r.yaml", recipe("r")).chmod(0)
    assert "cannot be read: Permission denied" in refused(overlay)


def test_a_link_to_nothing_is_left_out(overlay: Path) -> None:
    (overlay / "diagnostics" / "r.yaml").symlink_to(overlay / "gone.yaml")
    assert "r" not in load_catalogue([overlay]).recipes


READINGS = {
    "two kinds": ("{rate: a, gauge: b}", "signals.mine.readings[0]: exactly one of gauge, rate,"),
    "unknown metric": (
        "{rate: 'vllm:num_preemption_total'}",
        'no exporter has a metric "vllm:num_preemption_total" (did you mean "vllm:num_preemptions_total"?)',
    ),
    "counter without _total": ("{rate: 'vllm:num_preemptions'}", 'no exporter has a metric "vllm:num_preemptions"'),
    "rate of a gauge": (
        "{rate: 'vllm:num_requests_running'}",
        'rate reads a counter; "vllm:num_requests_running" is a gauge',
    ),
    "rate of a rate": ("{rate: DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL}", "rate reads a counter"),
    "change of a counter": ("{change: 'vllm:num_preemptions_total'}", "change reads a gauge"),
    "quantile of a counter": ("{quantile: 'vllm:num_preemptions_total', q: 0.5}", "quantile reads a histogram"),
    "quantile of buckets": (
        "{quantile: 'vllm:time_to_first_token_seconds_bucket', q: 0.5}",
        "is a histogram's _bucket",
    ),
    "rate of a histogram": ("{rate: 'vllm:iteration_tokens_total'}", "is a histogram"),
    "quantile without q": ("{quantile: 'vllm:time_to_first_token_seconds'}", "a quantile needs q between 0 and 1"),
    "q of one": ("{quantile: 'vllm:time_to_first_token_seconds', q: 1.0}", "a quantile needs q between 0 and 1"),
    "q on a rate": ("{rate: 'vllm:num_preemptions_total', q: 0.5}", "q belongs to a quantile"),
    "label without info": (
        "{gauge: 'vllm:num_requests_running', label: x}",
        "info goes with exactly one of label, count_distinct",
    ),
    "unknown label": (
        "{rate: 'vllm:request_success_total', match: {finish_reason: error}}",
        'has no label "finish_reason" (did you mean "finished_reason"?)',
    ),
    "no regular expression": (
        "{rate: 'vllm:request_success_total', match: {finished_reason: '~('}}",
        'match.finished_reason: "(" is not a regular expression',
    ),
    "scale of zero": ("{gauge: 'vllm:num_requests_running', scale: 0}", "a scale of 0 loses the value"),
    "formula of an unknown term": ("{formula: 'a / b', terms: {a: {signal: waiting}}}", '"b" is no term'),
    "unused term": (
        "{formula: 'a', terms: {a: {signal: waiting}, b: {signal: running}}}",
        "the formula does not use this term",
    ),
    "no arithmetic": ("{formula: 'a **', terms: {a: {signal: waiting}}}", "is not arithmetic"),
    "power": ("{formula: 'a ** 2', terms: {a: {signal: waiting}}}", "only names of terms, numbers, + - * / ( )"),
    "call": ("{formula: 'exp(a)', terms: {a: {signal: waiting}}}", "only names of terms, numbers, + - * / ( )"),
    "attribute": ("{formula: 'a.b', terms: {a: {signal: waiting}}}", "only names of terms, numbers, + - * / ( )"),
    "term of an unknown signal": (
        "{formula: 'a', terms: {a: {signal: waitin}}}",
        'no such signal "waitin" (did you mean "waiting"?)',
    ),
    "term of two kinds": (
        "{formula: 'a', terms: {a: {signal: waiting, gauge: up}}}",
        "exactly one of gauge, rate, increase",
    ),
    "itself": ("{formula: '2 * a', terms: {a: {signal: mine}}}", "signals.mine: a signal cannot be read from itself"),
    "match beside a formula": (
        "{formula: 'a', terms: {a: {signal: waiting}}, match: {x: y}}",
        "a formula matches in its terms",
    ),
}


@pytest.mark.parametrize("case", READINGS)
def test_a_broken_reading(case: str, overlay: Path, write: Write) -> None:
    reading, expected = READINGS[case]
    line = problem(write, overlay, reading)
    assert expected in line
    assert "signals-mine.yaml:" in line
    with pytest.raises(CatalogueError):
        load_catalogue([overlay], strict=True)


def test_a_signal_without_a_reading(overlay: Path, write: Write) -> None:
    write("collectors/signals-mine.yaml", SIGNALS.replace("    readings:\n      - {reading}\n", "    readings: []\n"))
    assert any("a signal needs at least one reading" in line for line in Catalogue((overlay,)).problems())


def test_a_signal_declared_twice_names_both_files(overlay: Path, write: Write) -> None:
    write("collectors/signals-mine.yaml", SIGNALS.replace("mine:", "ttft_p99:").replace("{reading}", "{gauge: up}"))
    line = refused(overlay, "signals")
    assert 'signals-mine.yaml:2: signals.ttft_p99: signal "ttft_p99" is declared in ' in line
    assert "collectors/signals.yaml already" in line


def test_the_wrong_entry_among_many_is_named(overlay: Path, write: Write) -> None:
    """The decoder says only that some entry is wrong; the line says which."""
    text = SIGNALS.replace("{reading}", "{gauge: up}") + SIGNALS.replace("{reading}", "{gauge: up}").replace(
        "signals:\n", ""
    ).replace("mine:", "yours:").replace("level: engine", "level: motor")
    write("collectors/signals-mine.yaml", text)
    line = refused(overlay, "signals")
    assert "signals-mine.yaml:13: signals.yours.level: invalid enum value 'motor'" in line


EXPORTER = """\
exporter: mine
title: Mine
endpoint: /metrics
metrics:
  mine_total: {type: counter, meaning: Mine}
"""

EXPORTERS = {
    "unknown type": (
        "type: counter",
        "type: number",
        "mine.yaml:5: metrics.mine_total.type: invalid enum value 'number'",
    ),
    "unknown key": (
        "meaning: Mine",
        "meanig: Mine",
        'mine.yaml:5: metrics.mine_total.meanig: unknown key (did you mean "meaning"?)',
    ),
    "a version as a number": (
        "meaning: Mine",
        "meaning: Mine, since: 0.10",
        "metrics.mine_total.since: expected `str | null`, got `float`",
    ),
    "an id in use": ("exporter: mine", "exporter: vllm", 'mine.yaml:1: exporter: exporter "vllm" is declared in '),
}


@pytest.mark.parametrize("case", EXPORTERS)
def test_a_broken_exporter(case: str, overlay: Path, write: Write) -> None:
    old, new, expected = EXPORTERS[case]
    write("collectors/zz-mine.yaml", EXPORTER.replace(old, new))
    assert expected in refused(overlay, "exporters")


def test_former_names_are_checked(overlay: Path, write: Write) -> None:
    body = """\
      a_total: {type: counter, meaning: A, formerly: [{name: old}, {name: b_total}]}
      b_total: {type: counter, meaning: B, formerly: [{name: old}]}
    log_lines:
      line: {pattern: "(", meaning: Broken}
      mute: {pattern: "abc", meaning: Without a group}
    """
    without_metrics = EXPORTER.replace("  mine_total: {type: counter, meaning: Mine}\n", "")
    write("collectors/mine.yaml", without_metrics + "\n".join(line[4:] for line in body.splitlines()))
    found = "\n".join(line for line in Catalogue((overlay,)).problems() if "mine.yaml" in line)
    assert '"b_total" is a metric of its own here' in found
    assert '"old" is the former name of "a_total" already' in found
    assert "log_lines.line.pattern: " in found and "is not a regular expression" in found
    assert "log_lines.mute.pattern: needs at least one named group" in found


TIERS = {
    "negative": (
        "memory_gbps:  {value: 3350",
        "memory_gbps:  {value: -1",
        "tiers.h100-80.memory_gbps.value: expected more than 0, got -1",
    ),
    "unknown signal": (
        "{signal: sm_active,",
        "{signal: sm_activ,",
        'bands.sm_active.signal: no such signal "sm_activ"',
    ),
    "upside down": ("low: 0.60, high: 0.85", "low: 0.95, high: 0.85", "low 0.95 lies above high 0.85"),
    "empty band": (
        "{signal: waiting, high: 5, warn: 5, ",
        "{signal: waiting, ",
        "a band needs at least one of low, high, warn, bad",
    ),
    "pattern": ('names: [".*H100 NVL"]', 'names: ["("]', 'tiers.h100-nvl-94.names[0]: "(" is not a regular expression'),
    "threshold": (
        'names: [".*H100 NVL"]',
        'names: [".*H100 NVL"]\n    thresholds: {kv_usage_hgh: {value: 1, source: me}}',
        'no default threshold of this name (did you mean "kv_usage_high"?)',
    ),
}


@pytest.mark.parametrize("case", TIERS)
def test_broken_tiers(case: str, overlay: Path) -> None:
    old, new, expected = TIERS[case]
    text = (Path(__file__).resolve().parents[2] / "collectors" / "tiers.yaml").read_text(encoding="utf-8")
    assert old in text
    (overlay / "collectors" / "tiers.yaml").write_text(text.replace(old, new, 1), encoding="utf-8")
    assert any(expected in line for line in Catalogue((overlay,)).problems())


def test_the_unknown_tier_must_stay() -> None:
    tiers = load_catalogue().tiers
    known = {name: tier for name, tier in tiers.tiers.items() if name != "unknown"}
    (problem,) = check_tiers(structs.replace(tiers, tiers=known), load_catalogue().signals)
    assert problem.message == 'a tier "unknown" with cautious figures is needed'


def test_what_began_before_may_exclude_and_what_comes_from_outside_too(write: Write) -> None:
    for exclusion in ("{observation: kv_cache_full, when: before}", "{observation: kv_cache_full, among: peers}"):
        text = recipe("r", "sources:", f"effects: [kv-capacity-bound]\nexcluded_by: [{exclusion}]\nsources:")
        assert Catalogue().check_recipe_file(write("diagnostics/r.yaml", text)) == []
    text = recipe("r", "sources:", "effects: [prompt-growth]\nexcluded_by: [prompts_grew]\nsources:")
    assert Catalogue().check_recipe_file(write("diagnostics/r.yaml", text)) == []


def test_numbers_of_steps_are_those_that_can_be_worked_out(write: Write) -> None:
    path = write("diagnostics/r.yaml", recipe("r", "do: Add a replica.", 'do: "Scale to {replica}"'))
    (line,) = Catalogue().check_recipe_file(path, {"replicas", "safe_queue"})
    assert line.endswith("no number {replica} can be worked out; there are: replicas, safe_queue")


def test_a_limit_that_nothing_reads_is_told(overlay: Path, write: Write) -> None:
    text = (Path(__file__).resolve().parents[2] / "collectors" / "tiers.yaml").read_text("utf-8")
    write("collectors/tiers.yaml", text.replace("thresholds:", 'thresholds:\n  idle: {value: 1, source: "mine"}', 1))
    (line,) = Catalogue((overlay,)).problems()
    assert line.endswith("thresholds.idle: nothing reads this limit; delete it, or name it in an observation")


def test_a_cause_that_excludes_stands_for_all_that_it_needs(write: Write, overlay: Path) -> None:
    write("diagnostics/r.yaml", recipe("r", "sources:", "excluded_by: [{cause: kv-capacity-bound}]\nsources:"))
    recipes = load_catalogue([overlay]).recipes
    (rival,) = recipes["r"].unless
    assert isinstance(rival, AllOf) and rival.parts == recipes["kv-capacity-bound"].symptoms
    assert str(rival.because).startswith("that is kv-capacity-bound: ")


def test_so_many_of_several_witnesses(write: Write, overlay: Path) -> None:
    write(
        "diagnostics/r.yaml", recipe("r", "impact:", "witnesses: {k_of: 2, of: [down, gpu_lost, tokens_slow]}\nimpact:")
    )
    asked = load_catalogue([overlay]).recipes["r"].symptoms[-1]
    assert isinstance(asked, KOf) and asked.k == 2 and len(asked.parts) == 3


def test_a_disabled_cause_is_not_looked_for() -> None:
    assert "slow-gpu" not in load_catalogue(disabled=["slow-gpu"]).recipes
    assert "slow-gpu" in load_catalogue().recipes
    with pytest.raises(CatalogueError, match=r'no such cause "slow-gpus" \(did you mean "slow-gpu"\?\)'):
        _ = load_catalogue(disabled=["slow-gpus"]).recipes
