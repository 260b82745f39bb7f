"""Every named limit, every figure of a tier and every limit of a tier's own has a reader, and changing it changes what
that reader answers. Which there are is read from tiers.yaml, and who reads them from the catalogue."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from msgspec import structs

from inferdoc.audit import observe
from inferdoc.audit.quantities import compute_bound_batch
from inferdoc.audit.waste import WASTES
from inferdoc.audit.window_data import Watched
from inferdoc.capacity.service_level import reload_seconds_per_token
from inferdoc.catalogue.check_recipe import read_limits
from inferdoc.catalogue.conditions import Fact, Level, Reaches
from inferdoc.catalogue.load import Catalogue, load_catalogue
from inferdoc.catalogue.signal import Figure, Tiers
from inferdoc.catalogue.standing import RULES, TIER_FIGURES
from inferdoc.fleet.members import Pool
from inferdoc.generate.links import GeneratedLinks
from inferdoc.generate.pack import build_rules
from inferdoc.generate.recorded import recorded
from inferdoc.judging.conditions import evaluate
from inferdoc.prewarm.pools import _Starts
from inferdoc.simulate import hardware
from inferdoc.sizing.build import flops_of
from inferdoc.sizing.request import sizing_inputs
from tests.audit import lab
from tests.audit.test_states import hits
from tests.judging.frames import N, scene

CATALOGUE = load_catalogue()
TIERS = CATALOGUE.tiers
STANDING = CATALOGUE.standing
OURS, WITHOUT_OWN = "a100-80", "a100-pcie-80"
"""A tier with limits of its own, and one that has those of all."""
OF_OBSERVATIONS = sorted(read_limits(CATALOGUE.dictionary))
OF_STATES = sorted(STANDING.limits_of_units)
OF_SHARES = sorted({one.share for one in STANDING.observations.values() if one.share})
OF_POOLS = sorted({file.pool_share for file, _ in CATALOGUE._recipes.values() if file.pool_share})


def test_every_limit_is_in_one_of_the_lists_below() -> None:
    listed = {*OF_OBSERVATIONS, *OF_STATES, *OF_SHARES, *OF_POOLS, *RULES}
    assert listed == set(TIERS.thresholds) and CATALOGUE.problems() == []


def with_limit(name: str, value: float, tier: str | None = None) -> Tiers:
    """The tiers with a limit changed, for all or for one."""
    figure = Figure(value, "this test")
    if tier is None:
        return structs.replace(TIERS, thresholds={**TIERS.thresholds, name: figure})
    changed = structs.replace(TIERS.tiers[tier], thresholds={name: figure})
    return structs.replace(TIERS, tiers={**TIERS.tiers, tier: changed})


def overlay(folder: Path, document: object) -> Catalogue:
    """The catalogue with a tiers.yaml of one's own that holds only this."""
    (folder / "collectors").mkdir()
    (folder / "collectors" / "tiers.yaml").write_text(yaml.safe_dump(document), "utf-8")
    return load_catalogue([folder])


# ---- limits of observations (diagnose) ------------------------------------------------------------------------------


def facts(limit: str) -> list[Fact]:
    """The plain facts of the dictionary that read a limit."""
    found = (CATALOGUE.dictionary.condition(name) for name in CATALOGUE.dictionary.observations)
    return [fact for fact in found if isinstance(fact, Level | Reaches) and fact.limit == limit]


@pytest.mark.parametrize("tier", [None, OURS])
@pytest.mark.parametrize("limit", OF_OBSERVATIONS)
def test_a_limit_decides_what_is_observed(limit: str, tier: str | None) -> None:
    """Between the shipped and the changed limit the answer turns; a limit of another tier turns nothing."""
    pod_tier = tier or WITHOUT_OWN
    value = TIERS.limit(limit, pod_tier)
    changed, between = 1.5 * value, np.full(N, 1.25 * value)
    turned = 0
    for fact in facts(limit):
        who = "p0#0" if CATALOGUE.signals[fact.signal].level == "gpu" else "p0"
        context = scene({fact.signal: {who: between}}, {"p0": {"tier": pod_tier}})
        unit = next(unit for unit in context.view.units if unit.name.startswith("p0"))

        def answer(tiers: Tiers, fact: Fact = fact, context=context, unit=unit) -> bool | None:
            return evaluate(fact, replace(context, tiers=tiers), unit).holds

        turned += answer(TIERS) is not answer(with_limit(limit, changed, tier))
        assert answer(TIERS) is answer(with_limit(limit, changed, "l4"))
    assert turned, f"no fact that reads {limit} turns with it"


# ---- limits of standing states (audit) ------------------------------------------------------------------------------


def observed(name: str, tiers: Tiers, amount: float | np.ndarray, monkeypatch: pytest.MonkeyPatch) -> bool | None:
    """What an absolute observation says of a pod whose signal, quantity or setting has this amount."""
    one = STANDING.observations[name]
    settings = {str(one.setting): f"{amount}"} if one.setting else None
    fleet = lab.watched({"p0": {}}, tier=OURS, settings=settings)
    values = np.broadcast_to(np.asarray(amount, dtype=float), (fleet.view.steps,))
    monkeypatch.setattr(observe, "_amount", lambda *_: values)
    return observe.observe(name, one, replace(fleet, tiers=tiers), [list(fleet.view.units)])[0].holds


@pytest.mark.parametrize("tier", [None, OURS])
@pytest.mark.parametrize("limit", OF_STATES)
def test_a_limit_decides_what_stands(limit: str, tier: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    value, turned = TIERS.thresholds[limit].value, 0
    for name in (name for name, one in STANDING.observations.items() if one.limit == limit):
        figure = STANDING.observations[name].tier
        own = getattr(TIERS.tiers[OURS], figure) if figure else None
        now = own.value if own else 0.0
        changed = 1.5 * value if figure is None else now + 1 if value <= now else now / 2 - 1
        answers = [
            observed(name, tiers, 1.25 * value, monkeypatch) for tiers in (TIERS, with_limit(limit, changed, tier))
        ]
        turned += answers[0] is not answers[1]
    assert turned, f"no observation that reads {limit} turns with it"


@pytest.mark.parametrize("limit", [*OF_SHARES, "standing_share"])
def test_a_share_decides_how_much_of_the_window_is_enough(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, one = next((n, o) for n, o in STANDING.observations.items() if (o.share or "standing_share") == limit
                     and (o.signal or o.quantity) and o.at is None)  # fmt: skip
    steps = lab.watched({"p0": {}}).view.steps
    beyond = 2 * TIERS.thresholds[str(one.limit)].value
    amount = np.where((np.arange(steps) < steps / 2) == (one.above is not None), beyond, 0.0)
    low, high = with_limit(limit, 0.3), with_limit(limit, 0.7)
    assert observed(name, low, amount, monkeypatch) is True
    assert observed(name, high, amount, monkeypatch) is False


def night(tiers: Tiers) -> Watched:
    """A pod that is idle for half a day, and whose work then grows."""
    grows = np.maximum(np.linspace(-1.0, 1.0, 961), 0.0)
    fleet = lab.watched({"p0": {name: level * grows for name, level in lab.BUSY.items()}}, tier=OURS)
    return replace(fleet, tiers=tiers)


def reuse(tiers: Tiers) -> float | None:
    fleet = lab.watched(hits(0.25, 0.25, 0.25, 0.25, prefill_tokens_rate=1500.0, prefill_seconds_per_token=1e-4))
    entry = next(s for s in lab.verdicts(fleet).standing if s.state.id == "prefix-hits-at-chance")
    return WASTES["misses_by_chance"].measure(replace(fleet, tiers=tiers), entry.units)


def too_little(tiers: Tiers) -> object:
    fleet = night(tiers)
    one = STANDING.observations["requests_queue"]
    return observe._over_time("x", one, fleet, "x", "", np.ones((1, 961)), np.array([0.5]))[0].quiet


WINDOW: dict[str, tuple[float, Callable[[Tiers], object]]] = {
    "standing_parts": (6, lambda tiers: len(night(tiers).parts())),
    "standing_least_parts": (1000, too_little),
    "standing_requests": (1e9, lambda tiers: (fleet := night(tiers)).quiet(fleet.view.units[0])),
    "standing_busy": (0.9, lambda tiers: int((fleet := night(tiers)).busy(fleet.view.units[0]).sum())),
    "prefix_hit_rag": (0.3, reuse),
}


@pytest.mark.parametrize("limit", sorted(set(RULES) - {"standing_share"}))
def test_what_the_audit_itself_reads_changes_it(limit: str) -> None:
    changed, answer = WINDOW[limit]
    assert answer(TIERS) != answer(with_limit(limit, changed))


# ---- limits of pools and rules --------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", OF_POOLS)
def test_the_share_of_a_pool_decides_verdict_and_rule(limit: str, tmp_path: Path) -> None:
    ours = overlay(tmp_path, {"thresholds": {limit: {"value": 0.77, "source": "this test"}}})
    causes = [file.id for file, _ in CATALOGUE._recipes.values() if file.pool_share == limit]
    rules, _ = build_rules(ours, GeneratedLinks())
    for cause in causes:
        assert ours.recipes[cause].pool_share == 0.77
        assert cause not in rules or ">= 0.77 * count by" in rules[cause].expr


def test_a_limit_of_a_tier_counts_in_the_rules_for_its_pods_alone(tmp_path: Path) -> None:
    own = {"thresholds": {"kv_usage_high": {"value": 0.8125, "source": "this test"}}}
    ours = overlay(tmp_path, {"tiers": {OURS: own}})
    assert ours.problems() == []
    told, shipped = recorded(ours), recorded(CATALOGUE)
    for rendering, catalogue in ((told, ours), (shipped, CATALOGUE)):
        build_rules(catalogue, GeneratedLinks(), rendering)
    signal = "engine:inferdoc_kv_usage:max5m"
    held = shipped.records.observations
    reading = [name for name, expr in held.items() if re.search(rf"{signal} > 0\.9(?!\d)", expr)]
    assert reading
    for name in reading:
        expr = told.records.observations[name]
        assert f'{signal}{{tier="{OURS}"}} > 0.8125' in expr and f'{signal}{{tier!~"{OURS}"}} > 0.9' in expr, name
    for name, expr in told.records.observations.items():
        assert "0.8125" in expr or expr == held[name]


def test_a_limit_that_no_pod_is_held_against_cannot_be_a_tiers_own(tmp_path: Path) -> None:
    own = {"thresholds": {"most_of_a_pool": {"value": 0.7, "source": "this test"}}}
    (line,) = overlay(tmp_path, {"tiers": {OURS: own}}).problems()
    assert line.endswith("no tier can have this limit for itself: it is not read pod by pod")


# ---- figures of tiers -----------------------------------------------------------------------------------------------


def stands(tiers: Tiers) -> list[str]:
    """States of a pod with an FP8 cache on four GPUs."""
    fleet = lab.watched({"p0": {}}, tier=OURS, settings={"cache_dtype": "fp8_e4m3"}, gpus=4)
    return lab.standing(replace(fleet, tiers=tiers))


def batch(tiers: Tiers) -> float:
    fleet = lab.watched({"p0": {}}, tier=OURS)
    return compute_bound_batch(replace(fleet, tiers=tiers), fleet.view.units[0])


def cold_start(tiers: Tiers) -> int:
    """Of a plan for a source that never saw a pod start."""
    starts = _Starts(SimpleNamespace(opened=SimpleNamespace(tiers=tiers)), SimpleNamespace())
    vars(starts)["_seen"] = {}
    return starts.of(Pool("", "llm", "llama", "decode", OURS), None).seconds


def reload_seconds(tiers: Tiers) -> float:
    """Of a token of 128 KiB."""
    return reload_seconds_per_token(2.0**17, tiers.host_rate(OURS))


def simulated_memory(tiers: Tiers) -> float:
    """Blocks of the KV cache of a simulated GPU."""
    return hardware.Roofline(tiers.tiers[OURS], hardware.model("llama-3.1-8b")).kv_blocks(16)


def four_bits(tiers: Tiers) -> float:
    """FLOP/s of a sizing with weights in 4 bits."""
    asked = {"model": "llama-3.1-8b", "tier": OURS, "dtype": "nvfp4", "prompt_tokens": "9", "output_tokens": "9"}
    return flops_of(replace(sizing_inputs(asked, load_catalogue()), tier=tiers.tiers[OURS]))


def kv_move(tiers: Tiers) -> float:
    """Seconds of a gigabyte of KV that are still good."""
    return tiers.bands_of(OURS)[0].high


READERS: dict[str, tuple[float, Callable[[Tiers], object]]] = {
    "memory_gib": (40.0, simulated_memory),
    "memory_gbps": (500.0, batch),
    "bf16_tflops": (999.0, batch),
    "fp8_tflops": (500.0, stands),
    "fp4_tflops": (4000.0, four_bits),
    "link_gbps": (32.0, stands),
    "host_gbps": (5.0, reload_seconds),
    "nic_gbits": (77.0, kv_move),
    "cold_start_s": (77.0, cold_start),
}


def test_every_figure_of_a_tier_is_in_the_list() -> None:
    figures = {field.name for field in structs.fields(type(TIERS.tiers[OURS])) if "Figure" in str(field.type)}
    assert figures - {"thresholds"} == READERS.keys() >= set(TIER_FIGURES)


@pytest.mark.parametrize("figure", READERS)
def test_a_figure_of_a_tier_changes_an_answer(figure: str) -> None:
    value, answer = READERS[figure]
    changed = structs.replace(TIERS.tiers[OURS], **{figure: Figure(value, "this test")})
    assert answer(TIERS) != answer(structs.replace(TIERS, tiers={**TIERS.tiers, OURS: changed}))


def test_a_band_of_a_tier_is_that_of_its_pods_in_the_health_table(tmp_path: Path) -> None:
    from inferdoc.report.signals import _band

    band = {"signal": "waiting", "high": 2, "source": "this test"}
    ours = overlay(tmp_path, {"tiers": {OURS: {"bands": {"waiting": band}}}})
    high = {}
    for tier in (OURS, "l4"):
        member = scene({"waiting": {"p0": np.ones(N)}}, {"p0": {"tier": tier}}).view.units[0].member
        found = _band(ours, member, "waiting")
        high[tier] = found.high if found else None
    assert high == {OURS: 2, "l4": TIERS.bands["waiting"].high}
