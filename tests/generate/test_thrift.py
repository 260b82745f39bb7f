"""Which records the pack keeps: those that something reads, and no series of every pod for one reader."""

from __future__ import annotations

from inferdoc.generate import promtool
from inferdoc.generate.prune_rules import parted, pruned
from inferdoc.generate.recorded import Records

RECORDS = Records(
    now={
        "engine:inferdoc_alone:rate5m": "rate(alone[5m])",
        "engine:inferdoc_twice:rate5m": "rate(twice[5m])",
        "engine:inferdoc_past:rate5m": "rate(past[5m])",
        "engine:inferdoc_unread:rate5m": "rate(unread[5m])",
        "engine:inferdoc_of_role:rate5m": "rate(of_role[5m])",
    },
    usual={"engine:inferdoc_past:median6h": "quantile_over_time(0.5, engine:inferdoc_past:rate5m[6h] offset 1h)"},
    observations={
        "engine:inferdoc_high:holds": "engine:inferdoc_alone:rate5m > 1",
        "engine:inferdoc_both:holds": "engine:inferdoc_twice:rate5m > 1 and engine:inferdoc_twice:rate5m < 5",
        "engine:inferdoc_more:holds": "avg_over_time(engine:inferdoc_past:rate5m[15m]) > engine:inferdoc_past:median6h",
        "engine:inferdoc_decodes:holds": 'engine:inferdoc_of_role:rate5m{role!="prefill"} > 1',
        "engine:inferdoc_unasked:holds": "engine:inferdoc_unread:rate5m > 1",
    },
)
ALERTS = ["engine:inferdoc_high:holds and engine:inferdoc_both:holds", "engine:inferdoc_more:holds"]
OTHERS = ['engine:inferdoc_decodes:holds{role="both"}']


def test_what_nothing_reads_is_not_recorded():
    kept = pruned(RECORDS, [*ALERTS, *OTHERS]).all
    assert not [name for name in kept if "unread" in name or "unasked" in name]


def test_what_one_observation_reads_as_it_is_now_stands_there():
    kept = pruned(RECORDS, [*ALERTS, *OTHERS])
    assert kept.observations["engine:inferdoc_high:holds"] == "(rate(alone[5m])) > 1"
    assert set(kept.now) == {f"engine:inferdoc_{name}:rate5m" for name in ("twice", "past", "of_role")}


def test_every_name_that_is_read_is_recorded(records, rules):
    for text in [*records.values(), *(rule["expr"] for rule in rules)]:
        assert set(promtool.NAME.findall(text)) <= records.keys()


def test_records_of_pages_are_apart_from_those_of_tickets():
    pages, tickets = parted(pruned(RECORDS, [*ALERTS, *OTHERS]), OTHERS)
    assert set(pages.all) == {"engine:inferdoc_of_role:rate5m", "engine:inferdoc_decodes:holds"}
    assert not pages.all.keys() & tickets.all.keys() and "engine:inferdoc_high:holds" in tickets.observations


def test_a_usual_value_is_recorded_of_those_beyond_the_swing_only_where_no_rule_needs_it_of_all(records):
    """A page cannot wait for the next record of usual values, nor does a mean of 15 minutes know the swing."""
    names = ("gpu:inferdoc_pcie_replays", "target:inferdoc_restarts_total", "engine:inferdoc_itl_mean")
    rare, paged, averaged = (records[f"{name}:median6h"] for name in names)
    beyond = "< gpu:inferdoc_pcie_replays:increase5m - on (cluster, namespace, modelName) group_left () 0.5 * "
    assert f"\n{beyond}namespace:inferdoc_pcie_replays:rise6h" in rare
    assert "0.5 * model:inferdoc_restarts_total:rise6h" not in paged
    assert "0.5 * model:inferdoc_itl_mean:rise6h" not in averaged
    order = list(records)
    assert order.index("namespace:inferdoc_pcie_replays:rise6h") < order.index("gpu:inferdoc_pcie_replays:median6h")
