"""Which records the pack keeps: those that something reads, and no series of every pod for one reader."""

from __future__ import annotations

from inferdoc.generate import promtool
from inferdoc.generate.prune_rules import parted, pruned
from inferdoc.generate.recorded import Records

RECORDS = Records(
    now={
        "engine:inferdoc_alone:rate5m": "rate(alone[5m])",
        "engine:inferdoc_few:rate5m": "rate(few[5m])",
        "engine:inferdoc_many:rate5m": "rate(many[5m])",
        "engine:inferdoc_past:rate5m": "rate(past[5m])",
        "engine:inferdoc_unread:rate5m": "rate(unread[5m])",
        "engine:inferdoc_of_role:rate5m": "rate(of_role[5m])",
    },
    usual={"engine:inferdoc_past:median6h": "quantile_over_time(0.5, engine:inferdoc_past:rate5m[6h] offset 1h)"},
    observations={
        "engine:inferdoc_high:holds": "engine:inferdoc_alone:rate5m > 1",
        "engine:inferdoc_both:holds": "engine:inferdoc_few:rate5m > 1 and engine:inferdoc_many:rate5m < 5",
        "engine:inferdoc_low:holds": "engine:inferdoc_few:rate5m < 1 and engine:inferdoc_many:rate5m < 4",
        "engine:inferdoc_lower:holds": "engine:inferdoc_many:rate5m < 1",
        "engine:inferdoc_more:holds": "avg_over_time(engine:inferdoc_past:rate5m[15m]) > engine:inferdoc_past:median6h",
        "engine:inferdoc_decodes:holds": 'engine:inferdoc_of_role:rate5m{role!="prefill"} > 1',
        "engine:inferdoc_unasked:holds": "engine:inferdoc_unread:rate5m > 1",
    },
)
ALERTS = [
    "engine:inferdoc_high:holds and engine:inferdoc_both:holds",
    "engine:inferdoc_more:holds or engine:inferdoc_low:holds or engine:inferdoc_lower:holds",
]
OTHERS = ['engine:inferdoc_decodes:holds{role="both"}']


def test_what_nothing_reads_is_not_recorded():
    kept = pruned(RECORDS, [*ALERTS, *OTHERS]).all
    assert not [name for name in kept if "unread" in name or "unasked" in name]


def test_what_two_observations_read_as_it_is_now_stands_there():
    kept = pruned(RECORDS, [*ALERTS, *OTHERS])
    assert kept.observations["engine:inferdoc_high:holds"] == "(rate(alone[5m])) > 1"
    assert kept.observations["engine:inferdoc_low:holds"].startswith("(rate(few[5m])) < 1")
    assert set(kept.now) == {f"engine:inferdoc_{name}:rate5m" for name in ("many", "past", "of_role")}


def test_every_name_that_is_read_is_recorded(records, rules):
    for text in [*records.values(), *(rule["expr"] for rule in rules)]:
        assert set(promtool.NAME.findall(text)) <= records.keys()


def test_records_of_pages_are_apart_from_those_of_tickets():
    pages, tickets = parted(pruned(RECORDS, [*ALERTS, *OTHERS]), OTHERS)
    assert set(pages.all) == {"engine:inferdoc_of_role:rate5m", "engine:inferdoc_decodes:holds"}
    assert not pages.all.keys() & tickets.all.keys() and "engine:inferdoc_high:holds" in tickets.observations


def test_a_usual_value_is_recorded_of_those_far_from_it_only_where_no_rule_needs_it_of_all(records):
    """A page cannot wait for the next record of usual values; what bars a rule needs to know whether there is one."""
    names = ("gpu:inferdoc_pcie_replays", "target:inferdoc_restarts_total", "engine:inferdoc_itl_mean")
    rare, paged, averaged = (records[f"{name}:median6h"] for name in names)
    beyond = "< gpu:inferdoc_pcie_replays:increase5m - on (cluster, namespace, modelName) group_left () 0.5 * "
    assert f"\n{beyond}namespace:inferdoc_pcie_replays:rise6h" in rare
    assert "0.5 * model:inferdoc_restarts_total:rise6h" not in paged
    assert "0.5 * model:inferdoc_itl_mean:rise6h" in averaged
    assert "\n< avg_over_time(engine:inferdoc_itl_mean:rate5m[15m]) / 1.05" in averaged
    assert "1.05" not in records["engine:inferdoc_arrival_rate:median6h"]
    order = list(records)
    assert order.index("namespace:inferdoc_pcie_replays:rise6h") < order.index("gpu:inferdoc_pcie_replays:median6h")


def test_a_signal_that_is_only_compared_with_peers_is_recorded_where_peers_differ(records):
    text = records["gpu:inferdoc_sm_clock:avg5m"]
    assert "> 1.02 * min by (cluster, namespace, pod, modelName)" in text, "half of what 0.97 of the peers' mean needs"
    assert " * min by " not in records["gpu:inferdoc_sm_clock_busy:rate5m"], "its past is read"


def test_a_fault_of_a_gpu_is_recorded_while_it_is_on(records):
    assert "== 79" in records["gpu:inferdoc_xid_lost_last:last"] and "== bool" not in "".join(records.values())
    assert "> 0" in records["gpu:inferdoc_row_remap_failure:last"]
