"""One decision over tiers, precisions and layouts, aggregated or P/D: what serves a load within the objectives for the
least money."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from msgspec.structs import replace as with_fields

from inferdoc.capacity.service_level import price_per_million_tokens
from inferdoc.catalogue.load import Catalogue
from inferdoc.config_sections import PricesSection
from inferdoc.errors import InferdocError
from inferdoc.sizing.build import ENDS, End
from inferdoc.sizing.choice import (
    Considered,
    PoolPair,
    batch_rate,
    batch_replicas,
    batch_seconds,
    considered,
    one_at_a_time,
    pool_pair,
    replicas_for,
)
from inferdoc.sizing.decision_model import (
    AGGREGATED,
    APART,
    BY_CLASS,
    DECISION_SCHEMA_ID,
    SIXTEEN_BITS,
    DecisionAnswer,
    DecisionRow,
    cost_of,
    layout_words,
    load_words,
    notes,
    placed,
    reasons_of,
    summary,
)
from inferdoc.sizing.fleet_part import LEAST_PODS, MOST_OF_TTFT, SHORT_PROMPT, WORTH
from inferdoc.sizing.inputs import Parallelism, SizingInputs, TrafficClass, TrafficInputs
from inferdoc.sizing.live import LivePool
from inferdoc.sizing.request import (
    WITHOUT_BF16,
    calibrated_inputs,
    shape_named,
    tier_named,
    with_live,
)
from inferdoc.version import __version__
from inferdoc.words import figure

ANY = "any"
MONTH = 730.0
"""Hours of a month."""
RANKS = (1, 2, 4, 8)
"""Data-parallel ranks of a model with experts: attention on each rank, experts over all GPUs of a node."""
NODE = 8


def decided(
    options: Mapping[str, Any], catalogue: Catalogue, prices: PricesSection, like: LivePool | None = None
) -> DecisionAnswer:
    """The decision for the options of the command. like: a live pool, whose tier and precision it keeps. Raises
    InferdocError for a wrong option, and where nothing serves the load."""
    options = options if like is None else with_live(options, like, catalogue)
    if options.get("rate") is None and options.get("concurrency") is None and options.get("max_num_seqs") != 1:
        raise InferdocError("--tier: several tiers are compared at a load; give --rate or --concurrency")
    names = _tiers(str(options["tier"]), catalogue)
    first = next((name for name in names if name not in WITHOUT_BF16), names[0])
    checked, _ = calibrated_inputs({**options, "tier": first}, catalogue, like)
    rows = [row for name in names for row in _of_tier(options, name, catalogue, prices, like)]
    taken = [row for row in rows if not row.why]
    if not taken:
        reasons = "; ".join(dict.fromkeys(f"{row.tier} {row.why}" for row in rows))
        raise InferdocError(f"{checked.shape.name}: no tier serves this load: {reasons}")
    taken = ranked(taken)
    best = taken[0]
    more = [
        with_fields(row, why=_more(row, best_of)) for row in taken[1:] if (best_of := _better(row, taken)) is not None
    ]
    kept = [row for row in taken if _better(row, taken) is None]
    front = [with_fields(row, pareto=undominated(row, kept)) for row in kept]
    return DecisionAnswer(
        DECISION_SCHEMA_ID,
        __version__,
        checked.shape.name,
        load_words(checked),
        checked.ttft if checked.objectives_given else None,
        checked.itl if checked.objectives_given else None,
        prices.currency,
        "month" if best.month is not None else "gpus",
        summary(front[0], prices.currency),
        list(reasons_of(front, prices.currency)),
        front,
        [*(row for row in rows if row.why), *more],
        [*checked.assumed],
        [*notes(front, checked), *([] if like is None else [f"shares of the GPUs: measured on {like.name}"])],
    )


def compared(params: Mapping[str, Any]) -> bool:
    """Whether the options need a decision: several tiers, a cascade, or an off-peak job."""
    tier = params.get("tier")
    tiers = tier is not None and (tier.lower() == ANY or "," in tier)
    return tiers or params.get("escalate_to") is not None or params.get("batch") is not None


def _tiers(given: str, catalogue: Catalogue) -> list[str]:
    if given.lower() == ANY:
        return [name for name, tier in catalogue.tiers.tiers.items() if tier.names]
    return list(dict.fromkeys(tier_named(each.strip(), catalogue)[0] for each in given.split(",")))


def _of_tier(
    options: Mapping[str, Any], name: str, catalogue: Catalogue, prices: PricesSection, like: LivePool | None
) -> Iterator[DecisionRow]:
    own_precision = ((options.get("dtype"), options.get("kv_dtype")),)
    for dtype, kv_dtype in _precisions(options, name, catalogue) if like is None else own_precision:
        own = {**options, "tier": name, "dtype": dtype, "kv_dtype": kv_dtype}
        try:
            sizing, _ = calibrated_inputs(own, catalogue, like)
        except InferdocError as fault:
            yield DecisionRow(name, dtype or "", kv_dtype or "", AGGREGATED, "", why=str(fault))
            continue
        price = prices.per_gpu_hour(name)
        ranked = sizing.shape.experts and options.get("dp") is None and options.get("tp") is None
        found = considered(sizing)
        for ranks in RANKS[1:] if ranked else ():
            of_node = tuple(row.sized.layout for row in found if row.sized.layout.pipeline == 1)
            spread = tuple(Parallelism(each.tensor, 1, ranks) for each in of_node if each.tensor * ranks <= NODE)
            found += considered(_with_layouts(sizing, spread))
        if not any(row.usable for row in found) and not sizing.objectives_given:
            sizing = one_at_a_time(sizing)
            found = considered(sizing)
        yield from _aggregated(sizing, found, price)
        if sizing.batch is not None:
            continue
        if sizing.traffic.classes and sizing.traffic.rate is not None:
            yield _by_class(sizing, price)
        if sizing.traffic.rate is not None and isfinite(sizing.ttft):
            yield _apart(sizing, found, price)


def _with_layouts(sizing: SizingInputs, layouts: tuple[Parallelism, ...]) -> SizingInputs:
    return replace(sizing, layouts=layouts)


def _precisions(options: Mapping[str, Any], name: str, catalogue: Catalogue) -> list[tuple[str | None, str | None]]:
    """Of weights and KV cache: as given, else as the model is published, and of one in 16 bits also in FP8."""
    given, kv_given = options.get("dtype"), options.get("kv_dtype")
    shape = shape_named(str(options["model"]), catalogue)
    own = given or ("fp16" if name in WITHOUT_BF16 and shape.dtype == "bf16" else None)
    kv = kv_given or ("fp16" if name in WITHOUT_BF16 and not shape.kv.sparse else None)
    found: list[tuple[str | None, str | None]] = [(own, kv)]
    if given is None and shape.dtype in SIXTEEN_BITS:
        found.append(("fp8", kv))
        if kv_given is None and catalogue.tiers.tiers[name].fp8_tflops is not None and not shape.kv.sparse:
            found.append(("fp8", "fp8"))
    return found


def _row(sizing: SizingInputs, mode: str, layout: str, why: str = "") -> DecisionRow:
    return DecisionRow(sizing.tier_name, sizing.dtype, sizing.kv_dtype, mode, layout, why=why)


def _aggregated(sizing: SizingInputs, found: Sequence[Considered], price: float | None) -> Iterator[DecisionRow]:
    """A row for each layout that serves the load; of the others the one that came nearest."""
    for row in found:
        if row.usable is not None:
            yield _served(sizing, row, price)
    if not any(row.usable is not None for row in found):
        nearest = next((row for row in found if row.sized.replicas is not None), found[-1])
        yield _row(sizing, AGGREGATED, layout_words(sizing, nearest.sized.layout), nearest.why)


def _served(sizing: SizingInputs, row: Considered, price: float | None) -> DecisionRow:
    assert row.usable is not None and row.replicas is not None and row.gpus is not None
    traffic, layout, replica = sizing.traffic, row.sized.layout, row.at("middle")
    running = row.running(traffic, replica) or row.streams
    rate = row.share(traffic) * row.replicas
    carried = row.usable * row.replicas / rate
    if traffic.concurrent is not None:
        carried = max(1.0, row.streams * layout.data) * row.replicas / traffic.concurrent
    ends = {end: replicas_for(sizing, layout, row.at(end), sizing.safety) for end in ENDS}
    low, high = (None if ends[end] is None else (ends[end] or 0) * layout.gpus for end in ("high", "low"))
    replicas, seconds = row.replicas, None
    if sizing.batch is not None and traffic.rate is not None:
        of_job = batch_rate(sizing, layout, sizing.batch)
        needed = batch_replicas(sizing.batch, of_job, row.usable, traffic.rate)
        if needed is None:
            return _row(sizing, AGGREGATED, layout_words(sizing, layout), "a request of --batch does not fit")
        replicas = max(replicas, needed)
        seconds = batch_seconds(sizing.batch, of_job, row.usable, traffic.rate, replicas)
        low, high = (None if gpus is None else max(gpus, needed * layout.gpus) for gpus in (low, high))
    made = with_fields(
        _row(sizing, AGGREGATED, layout_words(sizing, layout)),
        replicas=[replicas],
        batch=seconds,
        gpus=replicas * layout.gpus,
        gpus_low=low,
        gpus_high=high,
        ttft_p95=_finite(replica.ttft_p95(running)),
        itl=replica.itl(running),
        request=_finite(replica.ttft(running) + traffic.output.mean * replica.itl(running)),
        headroom=carried * replicas / row.replicas - 1.0,
        bound=row.bound,
    )
    return _priced(made, price, rate * traffic.output.mean)


def _by_class(sizing: SizingInputs, price: float | None) -> DecisionRow:
    """A pool for each class of the traffic, each with its objective."""
    taken: list[tuple[TrafficClass, Considered, DecisionRow]] = []
    for each in sizing.traffic.classes:
        rate = (sizing.traffic.rate or 0.0) * each.share
        traffic = TrafficInputs(each.prompt, each.output, rate, each.prefix_share)
        own = replace(sizing, traffic=traffic, ttft=sizing.ttft if each.ttft is None else each.ttft)
        able = [row for row in considered(own) if row.usable is not None]
        if not able:
            return _row(sizing, BY_CLASS, "", f"no layout keeps the objectives of {each.name}")
        best_of = min(able, key=lambda row: (row.gpus or 0, row.sized.layout.gpus))
        taken.append((each, best_of, _served(own, best_of, None)))
    rows = [row for _, _, row in taken]
    made = with_fields(
        _row(sizing, BY_CLASS, ", ".join(f"{each.name} {placed(row)}" for each, _, row in taken)),
        replicas=[row.replicas[0] for row in rows],
        gpus=sum(row.gpus or 0 for row in rows),
        gpus_low=sum(row.gpus_low or 0 for row in rows),
        gpus_high=None if any(row.gpus_high is None for row in rows) else sum(row.gpus_high or 0 for row in rows),
        ttft_p95=max((row.ttft_p95 for row in rows if row.ttft_p95 is not None), default=None),
        itl=max(row.itl or 0.0 for row in rows),
        request=None
        if any(row.request is None for row in rows)
        else sum(each.share * (row.request or 0.0) for each, _, row in taken),
        headroom=min(row.headroom or 0.0 for row in rows),
        bound=min(rows, key=lambda row: row.headroom or 0.0).bound,
    )
    return _priced(made, price, (sizing.traffic.rate or 0.0) * sizing.traffic.output.mean)


def _apart(sizing: SizingInputs, found: Sequence[Considered], price: float | None) -> DecisionRow:
    rate, output = sizing.traffic.rate, sizing.traffic.output.mean
    assert rate is not None
    sized = [row.sized for row in found]
    pair = pool_pair(sizing, sized)
    if pair is None:
        return _row(sizing, APART, "", "no pair of pools keeps the objectives")
    prefill, decode = pair.prefill, pair.decode
    words = ", ".join(
        f"{name} {side.replicas} x {layout_words(sizing, side.layout)}"
        for name, side in (("prefill", prefill), ("decode", decode))
    )

    def gpus_at(end: End) -> int | None:
        at = pool_pair(sizing, [row for row in sized if row.layout in (prefill.layout, decode.layout)], end)
        return None if at is None else at.gpus

    made = with_fields(
        _row(sizing, APART, words, _against(sizing, found, pair)),
        replicas=[prefill.replicas, decode.replicas],
        gpus=pair.gpus,
        gpus_low=gpus_at("high"),
        gpus_high=gpus_at("low"),
        ttft_p95=pair.ttft_p95,
        itl=pair.itl,
        request=pair.ttft + output * pair.itl,
        headroom=min(side.usable * side.replicas for side in (prefill, decode)) / rate - 1.0,
        bound=min((prefill, decode), key=lambda side: side.usable * side.replicas).bound,
    )
    return _priced(made, price, rate * output)


def _against(sizing: SizingInputs, found: Sequence[Considered], pair: PoolPair) -> str:
    """What speaks against two pools, "" where they pay."""
    together = min((row.gpus for row in found if row.gpus is not None), default=None)
    prompt = sizing.traffic.prompt.mean
    if prompt < SHORT_PROMPT:
        return f"prompts of {prompt:,.0f} tokens are cheaper to compute than to move (below {SHORT_PROMPT})"
    if pair.move > MOST_OF_TTFT * sizing.ttft:
        share = figure(MOST_OF_TTFT, "ratio")
        return f"KV transfer takes {figure(pair.move, 's')}, more than {share} of the TTFT objective"
    if min(pair.prefill.replicas, pair.decode.replicas) < LEAST_PODS:
        return f"fewer than {LEAST_PODS} replicas in a pool: the loss of one stops it"
    if together is not None and 1.0 - pair.gpus / together < WORTH:
        saved = f"{pair.gpus} GPUs for {together} of one pool"
        return f"{saved}: two pools pay from {figure(WORTH, 'ratio')} on"
    return ""


def _priced(row: DecisionRow, price: float | None, tokens: float) -> DecisionRow:
    if price is None or row.gpus is None:
        return row
    hour = row.gpus * price
    return with_fields(row, month=hour * MONTH, million=price_per_million_tokens(hour, tokens))


def ranked(rows: Iterable[DecisionRow]) -> list[DecisionRow]:
    """Cheapest first, those without a price behind them by GPUs; of equals the one with 16 bits, then one pool, then
    the smaller replicas, of which the loss of one takes less."""
    return sorted(
        rows,
        key=lambda row: (
            row.month is None,
            row.month or 0.0,
            row.gpus,
            row.dtype not in SIXTEEN_BITS,
            row.kv_dtype not in SIXTEEN_BITS,
            row.mode != AGGREGATED,
            -sum(row.replicas),
        ),
    )


def _better(row: DecisionRow, ranked: Sequence[DecisionRow]) -> DecisionRow | None:
    """A row before this one of the same tier, precision and mode."""
    same = (each for each in ranked if _kind(each) == _kind(row))
    first = next(same)
    return None if first is row else first


def _kind(row: DecisionRow) -> tuple[str, str, str, str]:
    return row.tier, row.dtype, row.kv_dtype, row.mode


def _more(row: DecisionRow, better: DecisionRow) -> str:
    if row.gpus == better.gpus:
        return f"as many GPUs as {better.layout}"
    return f"{row.gpus} GPUs, {better.layout} takes {better.gpus}"


def undominated(row: DecisionRow, rows: Sequence[DecisionRow]) -> bool:
    """Whether no other row is at least as cheap and as fast, and better in one of both."""

    def place(each: DecisionRow) -> tuple[float, float]:
        return cost_of(each), each.request if each.request is not None else float("inf")

    cost, seconds = place(row)
    others = [place(each) for each in rows if each is not row and (each.month is None) == (row.month is None)]
    return not any(c <= cost and s <= seconds and (c, s) != (cost, seconds) for c, s in others)


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None
